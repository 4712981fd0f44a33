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

/* What the keys of all index entries of an id begin with; the event's sequence follows. */
void commit_index_prefix(int field, const char *id, size_t len, struct db_key *ret);
/* An index entry's key; false when the event has no such id or it is not indexed. */
bool commit_index_key(const struct event_view *ev, int field, struct db_key *ret);
/* Writes all of an event's. */
int commit_index(const struct db *d, MDB_txn *txn, const struct event_view *ev, struct err *e);

#endif
