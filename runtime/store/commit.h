#ifndef BAILIFF_STORE_COMMIT_H
#define BAILIFF_STORE_COMMIT_H

/* Write transactions (internal to runtime/store; the writer thread's). */

#include "runtime/store/batch.h"
#include "runtime/store/db.h"

struct event_view;
struct models;
struct tip;

/*
 * Runs fn in a write transaction and commits it. On failure *ret_in_doubt says that the commit itself failed, so that
 * only a fresh look at the database tells whether it happened.
 */
int commit_txn(struct store *s, int (*fn)(struct store *s, MDB_txn *txn, void *ctx, struct err *e), void *ctx,
	       bool *ret_in_doubt, struct err *e);
/* A list of batches as one transaction. On success their sequences are set and the store's tip has moved on. */
int commit_group(struct store *s, struct store_batch *group, bool *ret_in_doubt, struct err *e);
/* After a commit in doubt turned out to have happened: what commit_group does on success. */
void commit_done(struct store *s, struct store_batch *group);

/* What the keys of all index entries of an id begin with; the event's sequence follows. */
void commit_index_prefix(int field, const char *id, size_t len, struct db_key *ret);
/* An index entry's key; false when the event has no such id or it is not indexed. */
bool commit_index_key(const struct event_view *ev, int field, struct db_key *ret);
/* Writes all of an event's. */
int commit_index(const struct db *d, MDB_txn *txn, const struct event_view *ev, struct err *e);

#endif
