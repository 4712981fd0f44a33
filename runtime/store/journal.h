#ifndef BAILIFF_STORE_JOURNAL_H
#define BAILIFF_STORE_JOURNAL_H

/* The journal's file (internal to runtime/store; the writer thread's). Its design stands at the top of journal.c. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define JOURNAL_NAME "journal"
#define JOURNAL_BLOCK 4096u
#define JOURNAL_MAX (64u << 20) /* of the file */

struct journal_head {
	uint64_t checksum; /* of everything behind it, the payload included */
	uint64_t previous; /* the record before; of the first: the newest event of the database */
	uint64_t ordinal;
	uint32_t length; /* of the payload */
	uint32_t magic;
};

/* Walking through a file's bytes. Zero it but for `seed` and, to go on, nothing else. */
struct journal_cursor {
	uint64_t seed;
	size_t at;
	struct journal_head head; /* of the record that journal_next found */
	const void *payload;
	bool first; /* it is the file's first */
};
/* Whether a record follows that is whole and continues the one before. */
bool journal_next(struct journal_cursor *c, const void *file, size_t size);

struct journal {
	int fd; /* −1 = there is none to write to */
	uint64_t size, seed;
	uint64_t at;       /* where the next record goes */
	uint64_t previous; /* what it is chained to */
	uint64_t retry_ns; /* without one: when another try is due */
	unsigned records;  /* since the last reset */
	char why[160];     /* without one: the reason */
	char *record;      /* room for one, aligned */
	size_t room;
};
#define JOURNAL_INIT ((struct journal){ .fd = -1 })

/* All of the file, to be scanned; 1 when there is none. */
int journal_read(int dir_fd, struct buf *ret, struct err *e);
/* Opens or makes the file, of this size and durable; nothing in it counts any more, so all of it must be settled. */
int journal_open(struct journal *j, int dir_fd, uint64_t size, struct err *e);
void journal_close(struct journal *j);
/* Everything in it is settled: the next record is the first, chained to this. */
void journal_reset(struct journal *j, uint64_t previous);
bool journal_fits(const struct journal *j, size_t payload);
/*
 * Durable when it returns 0. Otherwise the record is in doubt and the file is not to be written to any more: it is
 * closed, with the reason, and journal_open makes it anew.
 */
int journal_append(struct journal *j, uint64_t ordinal, const struct buf *payload, struct err *e);
/* Goes the way of the next record once with nothing, so that it need not go it for the first time. Fails as
 * journal_append does. */
int journal_warm_up(struct journal *j, struct err *e);

#endif
