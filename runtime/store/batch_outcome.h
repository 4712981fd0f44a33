#ifndef BAILIFF_STORE_BATCH_OUTCOME_H
#define BAILIFF_STORE_BATCH_OUTCOME_H

/* What becomes of batches that the writer took (internal to runtime/store; the writer thread's). Groups are lists by
 * `next`. */

#include "runtime/store/batch.h"

#define BATCH_RETRY_NS (250ull * 1000 * 1000)

/* Tells the loop thread: each has its status. Not before that do readers see them, so whoever has read one can rely on
 * what follows from it. */
void batch_complete(struct store *store, struct store_batch *group);
/* Splits a list into those that may be refused (which are, at once) and those that must be written (returned). */
struct store_batch *batch_reject(struct store *store, struct store_batch *group, const struct err *why, bool also_must);
/* Puts batches back at the head of the queue. */
void batch_requeue(struct store *store, struct store_batch *group, bool deferred);
/* What a group that failed becomes. At the end there is no later: everything is refused. */
void batch_fail(struct store *store, struct store_batch *group, const struct err *why);
/* While some are deferred: whatever came since joins them or is refused. */
void batch_triage(struct store *store);

#endif
