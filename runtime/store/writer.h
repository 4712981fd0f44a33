#ifndef BAILIFF_STORE_WRITER_H
#define BAILIFF_STORE_WRITER_H

/* The writer thread (internal to runtime/store). Its design is explained at the top of writer.c. */

#include "runtime/store/batch.h"
#include "runtime/store/commit.h"
#include "runtime/store/record.h"

int writer_start(struct store *store, struct err *e);
void writer_stop(struct store *store); /* commits or rejects everything that is queued, then ends the thread */
/* Loop thread. */
void writer_enqueue(struct store *store, struct store_batch *b);
void writer_prepare(struct store *store);
void writer_submit(struct store *store, struct job *j);
/*
 * When store->triage is dispatched: takes the batches that are rejected from the queue, and returns them. With the
 * mutex held.
 */
struct store_batch *writer_triage_locked(struct store *store);

/* For jobs: a transaction with the ballast as last resort. After an I/O error the environment has been reopened. */
int writer_txn(struct store *store, int (*fn)(struct store *store, MDB_txn *txn, void *ctx, struct err *e), void *ctx,
	       struct err *e);
/* Closes the environment when no reader is left, runs `between` (may be NULL), and opens it again. */
int writer_reopen(struct store *store, int (*between)(struct store *store, struct err *e), struct err *e);
/*
 * For jobs that read the log in order: projects the event after *tip into m and advances *tip. *ret_ev points into
 * `block`, which survives later puts, unlike LMDB's memory.
 */
int writer_project_next(struct store *store, MDB_txn *txn, struct models *m, struct tip *tip,
			struct record_block *block, struct event_view *ret_ev, struct err *e);

#endif
