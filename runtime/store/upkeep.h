#ifndef BAILIFF_STORE_UPKEEP_H
#define BAILIFF_STORE_UPKEEP_H

/* The part of upkeep that store_open needs (internal to runtime/store). The jobs are declared in store.h. */

#include <stdint.h>

struct err;
struct store;

/* Upgrades a loaded store that no other thread uses yet. Does nothing if `version` is current. */
int upkeep_upgrade(struct store *store, uint32_t version, struct err *e);

#endif
