#ifndef BAILIFF_STORE_DURABLE_H
#define BAILIFF_STORE_DURABLE_H

/* Making groups durable, by the journal or by the database, and settling (internal to runtime/store; the writer
 * thread's). */

#include "runtime/store/batch.h"

struct layer;

/*
 * Folds the batches and makes them durable as one group; then their sequences are set, and they are to be told of
 * (batch_complete). On failure nothing of them is there, unless *ret_in_doubt: then a fresh look at the database tells,
 * and durable_confirm or durable_abort must be called.
 */
int durable_group(struct store *store, struct store_batch *group, bool *ret_in_doubt, struct err *e);
/* Under the mutex: readers see the group from here on, if only the journal has it. What is returned is let go of
 * (layer_unref) after that. */
struct layer *durable_publish_locked(struct store *store);
void durable_confirm(struct store *store, struct store_batch *group); /* NULL: of durable_settle */
void durable_abort(struct store *store);

/* A group is about to come that somebody waits for. */
void durable_prepare(struct store *store);

/* Puts everything that only the journal has into the database. In doubt as above. */
int durable_settle(struct store *store, bool *ret_in_doubt, struct err *e);
/* Whether that should not wait any longer, as too much has come together. */
bool durable_settle_due(const struct store *store);

/* At open: folds what the journal has and the database has not, settles it, and makes the journal ready. */
int durable_recover(struct store *store, struct err *e);

/* Any thread but the writer and the loop: waits until everything acknowledged so far is in the database. */
int durable_wait(struct store *store, struct err *e);

#endif
