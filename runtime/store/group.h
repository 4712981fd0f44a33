#ifndef BAILIFF_STORE_GROUP_H
#define BAILIFF_STORE_GROUP_H

/*
 * The encoding of a group of batches (internal to runtime/store): entries in the order of the batches. The same bytes
 * are projected, written to the journal, and written to the database.
 */

#include "runtime/base/buf.h"
#include "runtime/store/batch.h"

struct err;

enum group_tag {
	GROUP_EVENT = 1, /* data: the event record */
	GROUP_RANGE,     /* key: output ref; data: its chunks (group_chunk) */
	GROUP_INLINE,    /* key: output ref; data: a zero byte and the output */
	GROUP_IDEM,      /* uid, key, real_us; data: idempotency_records.h */
	GROUP_META,      /* key: name */
	GROUP_EXPIRE,    /* key: output ref */
	GROUP_TAGS
};

struct group_entry {
	enum group_tag tag;
	uint32_t uid;
	uint64_t real_us;
	const char *key; /* NUL-terminated; "" for an event */
	size_t key_len;
	const char *data;
	size_t len;
};

/* Checks the sizes of keys and values: ERR_INVALID, ERR_EXHAUSTED. */
int group_check(const struct store_batch *group, struct err *e);
void group_encode(struct buf *out, const struct store_batch *group);
/* Reads the entry at *at and advances *at: 1; 0 at the end; −1 ERR_CORRUPT. *ret points into `p` and passes
 * group_check's limits. */
int group_next(const void *p, size_t n, size_t *at, struct group_entry *ret, struct err *e);

size_t group_chunks(const struct group_entry *range);
struct chunk group_chunk(const struct group_entry *range, size_t i);

#endif
