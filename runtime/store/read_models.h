#ifndef BAILIFF_STORE_READ_MODELS_H
#define BAILIFF_STORE_READ_MODELS_H

/*
 * struct models (internal to runtime/store): what a projection reads and writes. Either a table in a write transaction,
 * or documents in memory, which hide those of the layers below them, which hide those of the table (speculative.h,
 * layer.h, memory_models_new).
 */

#include "runtime/store/db.h"
#include "runtime/store/docs.h"
#include "runtime/store/stored_doc.h"

#include <stdint.h>

struct layer;
struct store;

struct models {
	MDB_txn *txn;
	MDB_dbi dbi;
	unsigned puts;     /* writes to the table so far */
	size_t bytes;      /* put into docs so far */
	struct docs *docs; /* if not NULL, writes go there */
	const struct layer *over;
	uint64_t ordinal;
	struct expanded *expanded; /* texts that models_get has returned */
	/* The bytes of the group, which live as long as `docs`. If set, structs are kept: call docs_check_sizes. */
	const struct buf *group;
	const struct store *pruned; /* its events are projected one last time, before they are removed; or NULL */
};

/* Frees them. Called after each event that is projected, and where the models are no longer used. */
static inline void models_release(struct models *m) { expanded_release(&m->expanded); }

/* Writes what is in `docs` to the table, and empties it. */
int models_write_back(struct models *m, struct err *e);

/* Entries of a table of models that are no models (read_models.c). */
bool model_is_fence(const MDB_val *key);
/* For an empty table: after each of these kinds; ends with 0, NULL = none. */
int models_put_fences(MDB_txn *txn, MDB_dbi dbi, const uint8_t *kinds, struct err *e);

#endif
