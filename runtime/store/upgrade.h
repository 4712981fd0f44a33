#ifndef BAILIFF_STORE_UPGRADE_H
#define BAILIFF_STORE_UPGRADE_H

/* Bringing a store of an earlier version up to this one (internal to runtime/store). */

#include <stdint.h>

struct err;
struct store;

/* Of a loaded store that nobody else uses yet. Nothing to do when `version` is this one. */
int upgrade_store(struct store *store, uint32_t version, struct err *e);

#endif
