#ifndef BAILIFF_STORE_READER_H
#define BAILIFF_STORE_READER_H

/*
 * A short read transaction (internal to runtime/store), safe against the writer's closing of the environment: that
 * waits until no reader is left. Readers of one thread may nest. With it go the layers that were acknowledged and not
 * in the database at the same moment: together they are the state after some group, and whoever reads looks into the
 * layers first.
 */

#include "runtime/store/db.h"
#include "runtime/store/record.h"

struct err;
struct layer;
struct store;

struct reader {
	struct store *store; /* NULL = none */
	const struct db *db;
	MDB_txn *txn;
	struct layer *over; /* NULL = the database says it all */
	int models;         /* which are active, if that was known; else −1 */
};
#define READER_INIT ((struct reader){ .models = -1 })

int reader_begin(struct store *store, struct reader *ret, struct err *e);
void reader_end(struct reader *r); /* as often as one likes */
#define reader_auto __attribute__((cleanup(reader_end)))

/* The floor as this transaction sees it: the last removed event. */
int reader_floor(const struct reader *r, struct tip *ret, struct err *e);
/* The sequence of the newest event, that of the layers included. */
int reader_last(const struct reader *r, uint64_t *ret, struct err *e);
/* The table of the active models. */
int reader_models(const struct reader *r, MDB_dbi *ret, struct err *e);

#endif
