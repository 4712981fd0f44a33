#ifndef BAILIFF_STORE_SPACE_H
#define BAILIFF_STORE_SPACE_H

/*
 * Room: quota, map and disk (internal to runtime/store; the writer thread's).
 *
 * The store is *full* while any of these holds: used pages, journal and spool bytes exceed the quota; so little of the
 * map is left that removing things could fail (a removal copies pages before it frees some); a write met ENOSPC and the
 * disk has not had room for the ballast file again since. Full refuses what may be refused; what must be written uses
 * the quota's excess, most of the map's reserve, and the ballast.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct store;

struct space {
	uint64_t quota;         /* 0 = none */
	uint64_t ballast_bytes; /* 0 = none is kept */
	bool ballast;           /* the file is there */
	bool disk_full;
	bool map_failed;          /* a put met MDB_MAP_FULL … */
	uint64_t map_failed_free; /* … when this many pages were free */
	bool map_tight;           /* also what must be written waits */
};

void space_init(struct store *store, uint64_t quota, uint64_t ballast_bytes);
/* Looks again, makes the ballast again when it can; sets and returns store_full's answer. */
bool space_check(struct store *store);
/* Whether the failure means "no room", and if so remembers it. */
bool space_failed(struct store *store, const struct err *e);
/* Gives the ballast up; false when there was none. */
bool space_release_ballast(struct store *store);
/* Whether there is room by far for what would take this many bytes. */
bool space_has_reserve(struct store *store, uint64_t bytes);
/* How large the journal is to be. */
uint64_t space_journal_bytes(uint64_t wanted, uint64_t quota);
void space_spool_add(struct store *store, int64_t bytes, int64_t files);
/* Used database bytes: pages in use, and the journal. */
uint64_t space_db_bytes(struct store *store);

#endif
