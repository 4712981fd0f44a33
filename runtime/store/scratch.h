#ifndef BAILIFF_STORE_SCRATCH_H
#define BAILIFF_STORE_SCRATCH_H

/*
 * Temporary read models for verify and background reads (internal to runtime/store): an environment in a directory of
 * its own, never synced, removed at the end or, after a crash, by the next store_open.
 */

#include "runtime/store/read_models.h"

struct err;
struct store;

struct scratch {
	int parent_fd; /* −1 = not open */
	char name[32];
	MDB_env *env;
	struct docs *docs;    /* documents that are not in the table yet: the next events change many of them again */
	struct models models; /* with an open write transaction */
};
#define SCRATCH_INIT ((struct scratch){ .parent_fd = -1 })

int scratch_open(struct store *store, struct scratch *ret, struct err *e);
/* Writes to the table and commits now and then, so that neither memory nor the transaction grows too large. */
int scratch_yield(struct scratch *c, struct err *e);
/* Afterwards the table has everything, for cursors. */
int scratch_flush(struct scratch *c, struct err *e);
void scratch_done(struct scratch *c);

#endif
