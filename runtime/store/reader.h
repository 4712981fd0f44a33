#ifndef BAILIFF_STORE_READER_H
#define BAILIFF_STORE_READER_H

/*
 * A snapshot (internal to runtime/store): a short read transaction and the layers that were acknowledged but not
 * settled at the same moment. Together they are the state after some group; every reader looks into the layers first.
 * The writer closes the environment only when no reader is left. Readers of one thread may nest.
 */

#include "runtime/store/db.h"
#include "runtime/store/record.h"

struct err;
struct layer;
struct store;

struct reader {
	struct store *store; /* NULL = not begun */
	const struct db *db;
	MDB_txn *txn;
	struct layer *over; /* the newest layer; NULL = everything is settled */
	int models;         /* the active table if it is known; else −1 */
};
#define READER_INIT ((struct reader){ .models = -1 })

int reader_begin(struct store *store, struct reader *ret, struct err *e);
void reader_end(struct reader *r); /* may be called again */
#define reader_auto __attribute__((cleanup(reader_end)))

/* The last event that retention has removed. */
int reader_floor(const struct reader *r, struct tip *ret, struct err *e);
/* The sequence of the newest event, layers included. */
int reader_last(const struct reader *r, uint64_t *ret, struct err *e);
/* The table of the active read models. */
int reader_models(const struct reader *r, MDB_dbi *ret, struct err *e);

#endif
