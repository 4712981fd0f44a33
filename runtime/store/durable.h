#ifndef BAILIFF_STORE_DURABLE_H
#define BAILIFF_STORE_DURABLE_H

/* Makes groups durable, in the journal or in the database, and settles them (internal to runtime/store, writer
 * thread). */

#include "runtime/store/batch.h"

struct layer;

/*
 * Projects the batches and makes them durable as one group; sets their sequences. Call complete_batches (writer.c)
 * next. On failure nothing was written, unless *ret_in_doubt: then reopen the database, find out whether the commit
 * happened, and call durable_confirm or durable_abort.
 */
int durable_group(struct store *store, struct store_batch *group, bool *ret_in_doubt, struct err *e);
/* With the mutex held: lets readers see the new group if it is only in the journal. Unref the returned layer after the
 * unlock. */
struct layer *durable_publish_locked(struct store *store);
void durable_confirm(struct store *store, struct store_batch *group); /* NULL: a commit of durable_settle */
void durable_abort(struct store *store);

/* Any thread: whether the journal's path to the disk is fast and may have become cold. */
bool durable_warm_up_pays(struct store *store);
/* An urgent group will follow: warms the journal up. */
void durable_prepare(struct store *store);

/* Writes all groups that are only in the journal to the database. *ret_in_doubt as above. */
int durable_settle(struct store *store, bool *ret_in_doubt, struct err *e);
/* Whether too much has accumulated to wait for an idle moment. */
bool durable_settle_due(const struct store *store);

/* At open: projects and settles the groups that are only in the journal, and opens the journal for writing. */
int durable_recover(struct store *store, struct err *e);

/* Worker thread: waits until everything acknowledged so far is in the database. */
int durable_wait(struct store *store, struct err *e);

#endif
