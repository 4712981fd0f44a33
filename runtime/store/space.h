#ifndef BAILIFF_STORE_SPACE_H
#define BAILIFF_STORE_SPACE_H

/*
 * Quota, map and disk space (internal to runtime/store, writer thread).
 *
 * The store is *full* if used pages, journal and spool together exceed the quota; or if so little of the map is left
 * that removals could fail (a removal copies pages before it frees any); or since a write failed with ENOSPC, until the
 * disk has space for the ballast file again. A full store rejects batches without STORE_MUST; the others may exceed the
 * quota, use most of the map's reserve, and get the space of the ballast.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct store;

struct space {
	uint64_t quota;         /* 0 = unlimited */
	uint64_t ballast_bytes; /* 0 = no ballast */
	bool ballast;           /* the file exists */
	bool disk_full;
	bool map_failed;          /* a put failed with MDB_MAP_FULL … */
	uint64_t map_failed_free; /* … when this many pages were free */
	bool map_tight;           /* STORE_MUST batches wait too */
};

void space_init(struct store *store, uint64_t quota, uint64_t ballast_bytes);
/* Updates and returns whether the store is full; creates the ballast again if possible. */
bool space_check(struct store *store);
/* Whether the error means lack of space; if so the store is full from now on. */
bool space_failed(struct store *store, const struct err *e);
/* Deletes the ballast file; false if there was none. */
bool space_release_ballast(struct store *store);
/* Whether there is plenty of space to write this many bytes. */
bool space_has_reserve(struct store *store, uint64_t bytes);
/* The size of the journal for the configured size and quota. */
uint64_t space_journal_bytes(uint64_t wanted, uint64_t quota);
void space_spool_add(struct store *store, int64_t bytes, int64_t files);
/* Used database bytes: pages in use, and the journal. */
uint64_t space_db_bytes(struct store *store);

#endif
