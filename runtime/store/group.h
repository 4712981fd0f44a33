#ifndef BAILIFF_STORE_GROUP_H
#define BAILIFF_STORE_GROUP_H

/*
 * A group of batches as bytes (internal to runtime/store): what is folded, what the journal holds, and what is put into
 * the database are the same entries, one after another in the order of their batches.
 */

#include "runtime/base/buf.h"
#include "runtime/store/batch.h"

struct err;

enum group_tag {
	GROUP_EVENT = 1, /* data: the event record */
	GROUP_RANGE,     /* key: output ref; data: its chunks (group_chunk) */
	GROUP_INLINE,    /* key: output ref; data: 0 and the bytes */
	GROUP_IDEM,      /* uid, key, real_us; data: idempotency_records.h's */
	GROUP_META,      /* key: name */
	GROUP_EXPIRE,    /* key: output ref */
	GROUP_TAGS
};

struct group_entry {
	enum group_tag tag;
	uint32_t uid;
	uint64_t real_us;
	const char *key; /* with its NUL; "" for an event */
	size_t key_len;
	const char *data;
	size_t len;
};

/* Whether the tables can hold what the batches bring: ERR_INVALID, ERR_EXHAUSTED. */
int group_check(const struct store_batch *group, struct err *e);
void group_encode(struct buf *out, const struct store_batch *group);
/* The entry at *at, which moves on: 1; 0 at the end; −1 ERR_CORRUPT. What is returned points into `p` and is within
 * bounds of the store's. */
int group_next(const void *p, size_t n, size_t *at, struct group_entry *ret, struct err *e);

size_t group_chunks(const struct group_entry *range);
struct chunk group_chunk(const struct group_entry *range, size_t i);

#endif
