#include "runtime/store/group.h"

#include "runtime/base/err.h"
#include "runtime/store/chunk.h"
#include "runtime/store/db.h"
#include "runtime/store/idempotency_records.h"
#include "runtime/store/record.h"

#include <string.h>

struct entry_head {
	uint32_t tag;
	uint32_t uid;
	uint64_t real_us;
	uint32_t key_len; /* without the NUL that follows the key */
	uint32_t len;
};

struct chunk_bytes {
	uint64_t offset;
	uint64_t checksum;
	uint32_t length;
	uint32_t zero;
};

#define META_NAME_MAX (DB_KEY_MAX - 2) /* without the prefix META_USER */

static int check_item(const struct batch_item *it, struct err *e)
{
	size_t n = strlen(it->key);

	if (it->value.len > DB_SEALED_MAX)
		return err_set(e, ERR_EXHAUSTED, "a value of %zu bytes is too large for the store", it->value.len);
	if (it->kind == ITEM_IDEM && n > IDEMPOTENCY_KEY_MAX)
		return err_field(e, "idempotencyKey", "longer than %d bytes", IDEMPOTENCY_KEY_MAX);
	if (it->kind == ITEM_META && n > META_NAME_MAX)
		return err_set(e, ERR_INVALID, "a meta name of %zu bytes", n);
	if ((it->kind == ITEM_INLINE || it->kind == ITEM_EXPIRE) && (n == 0 || n >= BATCH_REF_MAX))
		return err_field(e, "outputRef", "not an output ref");
	return 0;
}

int group_check(const struct store_batch *group, struct err *e)
{
	for (const struct store_batch *b = group; b; b = b->next)
		for (size_t i = 0; i < b->nitems; i++)
			if (check_item(&b->items[i], e) != 0)
				return -1;
	return 0;
}

static void add_entry(struct buf *out, struct entry_head h, const char *key, const void *data, size_t len)
{
	h.key_len = (uint32_t)strlen(key);
	h.len = (uint32_t)len;
	buf_append(out, &h, sizeof(h));
	buf_append(out, key, h.key_len + 1u);
	if (len)
		buf_append(out, data, len);
}

/* The head is patched afterwards: the length is only known when all chunks are written. */
static void add_range(struct buf *out, const struct batch_range *r)
{
	size_t head = out->len;
	struct entry_head h;

	add_entry(out, (struct entry_head){ .tag = GROUP_RANGE }, r->ref, NULL, 0);
	for (size_t i = 0; i < r->nchunks; i++) {
		struct chunk_bytes c = { r->chunks[i].offset, r->chunks[i].checksum, r->chunks[i].length, 0 };

		buf_append(out, &c, sizeof(c));
	}
	memcpy(&h, out->data + head, sizeof(h));
	h.len = (uint32_t)(r->nchunks * sizeof(struct chunk_bytes));
	memcpy(out->data + head, &h, sizeof(h));
}

static void add_item(struct buf *out, const struct batch_item *it)
{
	static const enum group_tag tags[] = {
		[ITEM_INLINE] = GROUP_INLINE,
		[ITEM_IDEM] = GROUP_IDEM,
		[ITEM_META] = GROUP_META,
		[ITEM_EXPIRE] = GROUP_EXPIRE,
	};

	add_entry(out, (struct entry_head){ .tag = tags[it->kind], .uid = it->uid, .real_us = it->real_us }, it->key,
		  it->value.data, it->value.len);
}

void group_encode(struct buf *out, const struct store_batch *group)
{
	for (const struct store_batch *b = group; b; b = b->next) {
		buf_reserve(out, b->records.len + b->nevents * (sizeof(struct entry_head) + 1));
		for (size_t i = 0; i < b->nevents; i++)
			add_entry(out, (struct entry_head){ .tag = GROUP_EVENT }, "",
				  b->records.data + b->events[i].offset, b->events[i].length);
		for (size_t i = 0; i < b->nranges; i++)
			add_range(out, &b->ranges[i]);
		for (size_t i = 0; i < b->nitems; i++)
			add_item(out, &b->items[i]);
	}
}

static int set_corrupt(struct err *e, const char *what)
{
	return err_set(e, ERR_CORRUPT, "an entry of a group %s", what);
}

/* Whether the tables can store it. */
static int check_entry(const struct group_entry *n, struct err *e)
{
	switch (n->tag) {
	case GROUP_EVENT:
		return n->key_len || n->len + sizeof(struct record_head) > RECORD_MAX
			       ? set_corrupt(e, "is a malformed event")
			       : 0;
	case GROUP_RANGE:
		if (n->key_len == 0 || n->key_len >= BATCH_REF_MAX || n->len % sizeof(struct chunk_bytes))
			return set_corrupt(e, "is a malformed range");
		for (size_t i = 0; i < group_chunks(n); i++)
			if (group_chunk(n, i).length == 0 || group_chunk(n, i).length > CHUNK_MAX)
				return set_corrupt(e, "has a malformed chunk");
		return 0;
	case GROUP_INLINE:
		return n->key_len == 0 || n->key_len >= BATCH_REF_MAX || n->len == 0 || n->len > DB_SEALED_MAX
			       ? set_corrupt(e, "is a malformed output")
			       : 0;
	case GROUP_IDEM:
		return n->key_len > IDEMPOTENCY_KEY_MAX || n->len > DB_SEALED_MAX
			       ? set_corrupt(e, "is a malformed idempotency record")
			       : 0;
	case GROUP_META:
		return n->key_len > META_NAME_MAX || n->len > DB_SEALED_MAX
			       ? set_corrupt(e, "is a malformed meta value")
			       : 0;
	case GROUP_EXPIRE:
		return n->key_len == 0 || n->key_len >= BATCH_REF_MAX || n->len
			       ? set_corrupt(e, "is a malformed expiry")
			       : 0;
	case GROUP_TAGS: break;
	}
	return set_corrupt(e, "is of an unknown kind");
}

/* Everything is checked before it is used: the journal is a file. */
int group_next(const void *p, size_t n, size_t *at, struct group_entry *ret, struct err *e)
{
	const char *here = (const char *)p + *at;
	size_t left = n - *at;
	struct entry_head h;

	if (left == 0)
		return 0;
	if (left < sizeof(h))
		return set_corrupt(e, "is truncated");
	memcpy(&h, here, sizeof(h));
	left -= sizeof(h);
	if (h.key_len >= left || h.len > left - h.key_len - 1)
		return set_corrupt(e, "is truncated");
	*ret = (struct group_entry){
		.tag = h.tag < GROUP_TAGS ? (enum group_tag)h.tag : GROUP_TAGS,
		.uid = h.uid,
		.real_us = h.real_us,
		.key = here + sizeof(h),
		.key_len = h.key_len,
		.data = here + sizeof(h) + h.key_len + 1,
		.len = h.len,
	};
	if (memchr(ret->key, '\0', h.key_len + 1u) != ret->key + h.key_len)
		return set_corrupt(e, "has a malformed key");
	if (check_entry(ret, e) != 0)
		return -1;
	*at += sizeof(h) + h.key_len + 1 + h.len;
	return 1;
}

size_t group_chunks(const struct group_entry *range) { return range->len / sizeof(struct chunk_bytes); }

struct chunk group_chunk(const struct group_entry *range, size_t i)
{
	struct chunk_bytes c;

	memcpy(&c, range->data + i * sizeof(c), sizeof(c));
	return (struct chunk){ .offset = c.offset, .length = c.length, .checksum = c.checksum };
}
