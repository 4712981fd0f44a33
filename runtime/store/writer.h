#ifndef BAILIFF_STORE_WRITER_H
#define BAILIFF_STORE_WRITER_H

/* The writer thread (internal to runtime/store). */

#include "runtime/store/commit.h"

int writer_start(struct store *s, struct err *e);
void writer_stop(struct store *s); /* decides everything that is queued, then ends */
/* Loop thread. */
void writer_enqueue(struct store *s, struct store_batch *b);
void writer_prepare(struct store *s);
void writer_submit(struct store *s, struct job *j);

/* For jobs: a transaction with the ballast as last resort; after a failure the environment is fresh. */
int writer_txn(struct store *s, int (*fn)(struct store *s, MDB_txn *txn, void *ctx, struct err *e), void *ctx,
	       struct err *e);
/* Closes the environment when no reader is left, runs `between` (may be NULL), opens it again. */
int writer_reopen(struct store *s, int (*between)(struct store *s, struct err *e), struct err *e);

#endif
