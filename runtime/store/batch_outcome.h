#ifndef BAILIFF_STORE_BATCH_OUTCOME_H
#define BAILIFF_STORE_BATCH_OUTCOME_H

/* The end of batches that the writer took from the queue (internal to runtime/store, writer thread). Groups are lists
 * by `next`. */

#include "runtime/store/batch.h"

#define BATCH_RETRY_NS (250ull * 1000 * 1000)

/* Posts the batches, with their status, to the loop thread and lets readers see the new group: not earlier, so that a
 * reader never sees an event whose batch could still be rejected. */
void batch_complete(struct store *store, struct store_batch *group);
/* Rejects the batches without STORE_MUST, or all, and returns the others. */
struct store_batch *batch_reject(struct store *store, struct store_batch *group, const struct err *why, bool also_must);
/* Returns batches to the head of the queue. */
void batch_requeue(struct store *store, struct store_batch *group, bool deferred);
/* Rejects or defers the batches of a failed group. While the store is being stopped, rejects all. */
void batch_fail(struct store *store, struct store_batch *group, const struct err *why);
/* While batches are deferred: defers or rejects those that were submitted since. */
void batch_triage(struct store *store);

#endif
