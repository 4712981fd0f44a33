#ifndef BAILIFF_STORE_WRITER_H
#define BAILIFF_STORE_WRITER_H

/* The writer thread (internal to runtime/store). */

#include "runtime/store/commit.h"

int writer_start(struct store *store, struct err *e);
void writer_stop(struct store *store); /* decides everything that is queued, then ends */
/* Loop thread. */
void writer_enqueue(struct store *store, struct store_batch *b);
void writer_prepare(struct store *store);
void writer_submit(struct store *store, struct job *j);

/* For jobs: a transaction with the ballast as last resort; after a failure the environment is fresh. */
int writer_txn(struct store *store, int (*fn)(struct store *store, MDB_txn *txn, void *ctx, struct err *e), void *ctx,
	       struct err *e);
/* Closes the environment when no reader is left, runs `between` (may be NULL), opens it again. */
int writer_reopen(struct store *store, int (*between)(struct store *store, struct err *e), struct err *e);

#endif
