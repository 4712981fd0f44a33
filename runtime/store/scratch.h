#ifndef BAILIFF_STORE_SCRATCH_H
#define BAILIFF_STORE_SCRATCH_H

/*
 * A throw-away environment for verify's fresh fold (internal to runtime/store): in a folder of its own, never synced,
 * removed at the end; a crash leaves it to the next open's sweep.
 */

#include "runtime/store/read_models.h"

struct err;
struct store;

struct scratch {
	int parent_fd; /* −1 = none was made */
	char name[32];
	MDB_env *env;
	struct models models; /* with an open write transaction */
};
#define SCRATCH_INIT ((struct scratch){ .parent_fd = -1 })

int scratch_open(struct store *store, struct scratch *ret, struct err *e);
/* Commits now and then, so that no transaction grows too large. */
int scratch_yield(struct scratch *c, struct err *e);
void scratch_done(struct scratch *c);

#endif
