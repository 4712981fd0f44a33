#ifndef BAILIFF_STORE_JOURNAL_H
#define BAILIFF_STORE_JOURNAL_H

/* The journal's file (internal to runtime/store, writer thread). Its design is explained at the top of journal.c. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define JOURNAL_NAME "journal"
#define JOURNAL_BLOCK 4096u
#define JOURNAL_MAX (64u << 20) /* of the file */

struct journal_head {
	uint64_t checksum; /* of everything after it, with the payload */
	uint64_t previous; /* checksum of the previous record; in the first one: of the newest event in the database */
	uint64_t ordinal;
	uint32_t length; /* of the payload */
	uint32_t magic;
};

/* A scan of the file's bytes. Initialise it with `seed` only. */
struct journal_cursor {
	uint64_t seed;
	size_t at;
	struct journal_head head; /* of the current record */
	const void *payload;
	bool first; /* it is the first of the file */
};
/* Moves to the next record; false if there is none that is valid and continues the current one. */
bool journal_next(struct journal_cursor *c, const void *file, size_t size);

struct journal {
	int fd; /* −1 = not usable */
	uint64_t size, seed;
	uint64_t at;       /* offset of the next record */
	uint64_t previous; /* the checksum that it is chained to */
	uint64_t retry_ns; /* if it is not usable: when to open it again */
	unsigned records;  /* since the last reset */
	char why[160];     /* if it is not usable: the reason */
	char *record;      /* aligned buffer for one record */
	size_t record_size;
};
#define JOURNAL_INIT ((struct journal){ .fd = -1 })

/* Reads the whole file; 1 if there is none. */
int journal_read(int dir_fd, struct buf *ret, struct err *e);
/* Opens or creates the file with this size, durably. Its records are no longer valid, so settle them first. */
int journal_open(struct journal *j, int dir_fd, uint64_t size, struct err *e);
void journal_close(struct journal *j);
/* After settling: the next record is the first one, chained to `previous`. */
void journal_reset(struct journal *j, uint64_t previous);
bool journal_fits(const struct journal *j, size_t payload);
/*
 * Durable if it returns 0. Otherwise the record is in doubt and the file is closed, with the reason in `why`, until
 * journal_open creates it again.
 */
int journal_append(struct journal *j, uint64_t ordinal, const struct buf *payload, struct err *e);
/* Writes and syncs zeroes where the next record will begin, which makes the next append faster. Fails like
 * journal_append. */
int journal_warm_up(struct journal *j, struct err *e);

#endif
