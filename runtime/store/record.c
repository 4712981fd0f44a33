#include "runtime/store/record.h"

#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/event/event.h"
#include "runtime/store/lz.h"

#include <string.h>

static uint64_t checksum_of(const void *p, size_t len, uint64_t sequence)
{
	return hash64((const char *)p + sizeof(uint64_t), len - sizeof(uint64_t), sequence);
}

/* A block is written only if it becomes smaller than the events alone; its lengths are not aligned. */
static bool compress_block(struct buf *out, const struct record_event *events, size_t n, struct record_head *h)
{
	buf_auto struct buf all = BUF_INIT;
	size_t stored;

	for (size_t i = 0; i < n; i++) {
		const uint32_t len = (uint32_t)events[i].len;

		buf_append(&all, &len, sizeof(len));
		buf_append(&all, events[i].data, events[i].len);
	}
	stored = all.len <= LZ_MAX ? lz_compress(all.data, all.len, buf_reserve(out, all.len)) : 0;
	if (!stored || stored > RECORD_BLOCK_MAX)
		return false;
	buf_extend(out, stored);
	h->length = (uint32_t)all.len;
	h->version = RECORD_VERSION_BLOCK;
	h->more = (uint16_t)(n - 1);
	return true;
}

static void write_single(struct buf *out, const struct record_event *event, struct record_head *h)
{
	size_t stored = lz_compress(event->data, event->len, buf_reserve(out, event->len));

	h->length = (uint32_t)event->len;
	h->version = stored ? RECORD_VERSION_COMPRESSED : RECORD_VERSION;
	if (stored)
		buf_extend(out, stored);
	else
		buf_append(out, event->data, event->len);
}

bool record_write(struct buf *out, const struct record_event *events, size_t n, struct tip *tip)
{
	struct record_head h = { .previous = tip->checksum, .max_us = tip->max_us };

	buf_reset(out);
	buf_append(out, &h, sizeof(h)); /* its content follows below */
	if (n == 1)
		write_single(out, events, &h);
	else if (!compress_block(out, events, n, &h))
		return false;
	for (size_t i = 0; i < n; i++)
		if (events[i].real_us > h.max_us)
			h.max_us = events[i].real_us;
	memcpy(out->data, &h, sizeof(h));
	h.checksum = checksum_of(out->data, out->len, tip->sequence + 1);
	memcpy(out->data, &h.checksum, sizeof(h.checksum));
	*tip = (struct tip){ .sequence = tip->sequence + n, .checksum = h.checksum, .max_us = h.max_us };
	return true;
}

int record_check(const void *p, size_t len, uint64_t first, struct record_head *ret, struct err *e)
{
	struct record_head h;

	if (len < sizeof(h) || len > RECORD_MAX)
		return err_set(e, ERR_CORRUPT, "event %llu: a record of %zu bytes", (unsigned long long)first, len);
	memcpy(&h, p, sizeof(h));
	if (h.checksum != checksum_of(p, len, first))
		return err_set(e, ERR_CORRUPT, "event %llu: the record does not match its checksum",
			       (unsigned long long)first);
	if (h.version < RECORD_VERSION || h.version > RECORD_VERSION_BLOCK ||
	    (h.version == RECORD_VERSION_BLOCK ? h.more == 0 || h.more >= RECORD_EVENTS_MAX : h.more != 0))
		return err_set(e, ERR_CORRUPT, "event %llu: record version %u with %u more events",
			       (unsigned long long)first, h.version, h.more);
	if (h.version == RECORD_VERSION && h.length != len - sizeof(h))
		return err_set(e, ERR_CORRUPT, "event %llu: the record's length is wrong", (unsigned long long)first);
	*ret = h;
	return 0;
}

static int set_unchained(struct err *e, uint64_t first)
{
	return err_set(e, ERR_CORRUPT, "event %llu does not continue the checksum chain", (unsigned long long)first);
}

/*
 * For readers that check the chain: open, verify, and jobs that project the log. Queries check each record alone. The
 * first block of the log may begin before the tip, which is the floor then.
 */
int record_follow(const void *p, size_t len, uint64_t first, struct tip *tip, struct err *e)
{
	struct record_head h;

	if (first > tip->sequence + 1)
		return err_set(e, ERR_CORRUPT, "event %llu follows event %llu", (unsigned long long)first,
			       (unsigned long long)tip->sequence);
	if (record_check(p, len, first, &h, e) != 0)
		return -1;
	if (first + h.more <= tip->sequence)
		return err_set(e, ERR_CORRUPT, "event %llu follows event %llu", (unsigned long long)first,
			       (unsigned long long)tip->sequence);
	if (h.previous != tip->checksum)
		return set_unchained(e, first);
	*tip = (struct tip){ .sequence = first + h.more, .checksum = h.checksum, .max_us = h.max_us };
	return 0;
}

/* ---- events of a record ---- */

void record_block_done(struct record_block *b)
{
	buf_done(&b->text);
	b->first = b->last = 0;
}

/* Finds the events in a block's text: exactly as many as its head says. */
static bool split_block(struct record_block *b)
{
	size_t at = 0;

	for (unsigned i = 0; i <= b->head.more; i++) {
		uint32_t len;

		if (b->text.len - at < sizeof(len))
			return false;
		memcpy(&len, b->text.data + at, sizeof(len));
		at += sizeof(len);
		if (len > b->text.len - at)
			return false;
		b->event[i].offset = (uint32_t)at;
		b->event[i].length = len;
		at += len;
	}
	return at == b->text.len;
}

int record_open(const void *p, size_t len, uint64_t first, struct record_block *ret, struct err *e)
{
	const char *content = (const char *)p + sizeof(struct record_head);

	ret->first = ret->last = 0;
	if (record_check(p, len, first, &ret->head, e) != 0)
		return -1;
	buf_reset(&ret->text);
	if (ret->head.version == RECORD_VERSION)
		buf_append(&ret->text, content, ret->head.length);
	else if (lz_expand(content, len - sizeof(ret->head), ret->head.length, &ret->text, e) != 0)
		return err_wrap(e, "event %llu", (unsigned long long)first);
	ret->event[0].offset = 0;
	ret->event[0].length = (uint32_t)ret->text.len;
	if (ret->head.version == RECORD_VERSION_BLOCK && !split_block(ret))
		return err_set(e, ERR_CORRUPT, "event %llu: a malformed block", (unsigned long long)first);
	ret->first = first;
	ret->last = first + ret->head.more;
	return 0;
}

/* Records never change while they exist, so a block that was read by another transaction is as good. */
int record_load(MDB_txn *txn, const struct db *d, uint64_t sequence, struct record_block *b, struct err *e)
{
	uint64_t first;
	MDB_val v;

	if (b->first && sequence >= b->first && sequence <= b->last)
		return 0;
	if (db_event_get(txn, d, sequence, &first, &v, e) != 0 || record_open(v.mv_data, v.mv_size, first, b, e) != 0)
		return -1;
	return sequence <= b->last ? 0 : db_event_missing(sequence, e);
}

int record_event(const struct record_block *b, uint64_t sequence, struct event_view *ret, struct err *e)
{
	const size_t i = sequence - b->first;

	return event_view_of(b->text.data + b->event[i].offset, b->event[i].length, sequence, ret, e);
}

/* Until the last event of a block the tip has the checksum of the record before. */
int record_advance(const struct record_block *b, const struct event_view *ev, struct tip *tip, struct err *e)
{
	if (b->head.previous != tip->checksum)
		return set_unchained(e, ev->sequence);
	tip->sequence = ev->sequence;
	if (ev->real_us > tip->max_us)
		tip->max_us = ev->real_us;
	if (ev->sequence == b->last)
		*tip = (struct tip){ .sequence = b->last, .checksum = b->head.checksum, .max_us = b->head.max_us };
	return 0;
}
