#ifndef BAILIFF_STORE_UPGRADE_H
#define BAILIFF_STORE_UPGRADE_H

/* Upgrades a store of an earlier version (internal to runtime/store). */

#include <stdint.h>

struct err;
struct store;

/* For a loaded store that no other thread uses yet. Does nothing if `version` is current. */
int upgrade_store(struct store *store, uint32_t version, struct err *e);

#endif
