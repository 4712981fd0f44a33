#ifndef BAILIFF_STORE_COMMIT_H
#define BAILIFF_STORE_COMMIT_H

/* Write transactions (internal to runtime/store; the writer thread's). */

#include "runtime/store/batch.h"
#include "runtime/store/db.h"

struct event_view;
struct layer;

/*
 * Runs fn in a write transaction and commits it. On failure *ret_in_doubt says that the commit itself failed, so that
 * only a fresh look at the database tells whether it happened.
 */
int commit_txn(struct store *store, int (*fn)(struct store *store, MDB_txn *txn, void *ctx, struct err *e), void *ctx,
	       bool *ret_in_doubt, struct err *e);
/* Statistics: a commit that somebody waited for since then. */
void commit_count(struct store *store, uint64_t start_ns);

/*
 * Puts layers into the database, all of them in one transaction. On success, and when a commit in doubt turned out to
 * have happened, commit_settled takes *ret: nothing lies over the database any more (NULL: it was found there). When it
 * did not happen commit_undone does; a failure that is not in doubt returns nothing.
 */
struct settling;
int commit_layers(struct store *store, const struct layer *head, struct settling **ret, bool *ret_in_doubt,
		  struct err *e);
void commit_settled(struct store *store, struct settling *g);
void commit_undone(struct store *store, struct settling *g);

#endif
