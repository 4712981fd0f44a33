#ifndef BAILIFF_STORE_COMMIT_H
#define BAILIFF_STORE_COMMIT_H

/* Write transactions (internal to runtime/store, writer thread). */

#include "runtime/store/batch.h"
#include "runtime/store/db.h"

struct event_view;
struct layer;

/*
 * Runs fn in a write transaction and commits it. *ret_in_doubt: the commit itself failed, and whether it happened can
 * only be found out by reopening the database.
 */
int commit_txn(struct store *store, int (*fn)(struct store *store, MDB_txn *txn, void *ctx, struct err *e), void *ctx,
	       bool *ret_in_doubt, struct err *e);
/* Updates the statistics after a commit that a client has waited for since start_ns. */
void commit_count(struct store *store, uint64_t start_ns);

/*
 * Writes all layers to the database in one transaction. On success *ret goes to commit_settled, which drops the layers
 * (NULL: the layers were found in the database). After a commit in doubt *ret goes to commit_settled if it turns out to
 * have happened, else to commit_undone. Any other failure leaves *ret untouched.
 */
struct settling;
int commit_layers(struct store *store, const struct layer *head, struct settling **ret, bool *ret_in_doubt,
		  struct err *e);
void commit_settled(struct store *store, struct settling *g);
void commit_undone(struct store *store, struct settling *g);

#endif
