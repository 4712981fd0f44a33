#ifndef BAILIFF_STORE_READ_MODELS_H
#define BAILIFF_STORE_READ_MODELS_H

/*
 * struct models (internal to runtime/store): what a fold reads and writes. Either the table of a write transaction; or
 * documents in memory, which cover those of the layers below, which cover the table (speculative.h, layer.h,
 * memory_models.h).
 */

#include "runtime/store/db.h"

#include <stdint.h>

struct docs;
struct layer;

#define MODEL_ID_MAX 480

struct models {
	MDB_txn *txn;
	MDB_dbi dbi;
	unsigned puts;     /* since it was made */
	struct docs *docs; /* not NULL: what is written goes there */
	const struct layer *over;
	uint64_t ordinal;
};

#endif
