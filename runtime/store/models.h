#ifndef BAILIFF_STORE_MODELS_H
#define BAILIFF_STORE_MODELS_H

/* struct models (internal to runtime/store): the table that a fold writes to, in a transaction, or what lies over it (ahead.h). */

#include "runtime/store/db.h"

#include <stdint.h>

struct ahead;

#define MODEL_ID_MAX 480

struct models {
	MDB_txn *txn;
	MDB_dbi dbi;
	unsigned puts; /* since it was made */
	struct ahead *ahead; /* not NULL: what is written goes there, and what is there covers the table */
	uint64_t ordinal;
};

#endif
