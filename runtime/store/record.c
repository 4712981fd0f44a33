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

void record_write(struct buf *out, const void *event, size_t len, uint64_t real_us, struct tip *tip)
{
	struct record_head h = {
		.previous = tip->checksum,
		.max_us = real_us > tip->max_us ? real_us : tip->max_us,
		.length = (uint32_t)len,
		.version = RECORD_VERSION_COMPRESSED,
	};
	size_t stored;

	buf_reset(out);
	buf_append(out, &h, sizeof(h)); /* its version and checksum follow below */
	stored = lz_compress(event, len, buf_reserve(out, len));
	if (stored) {
		buf_extend(out, stored);
	} else {
		h.version = RECORD_VERSION;
		buf_append(out, event, len);
	}
	memcpy(out->data, &h, sizeof(h));
	tip->sequence++;
	tip->max_us = h.max_us;
	tip->checksum = checksum_of(out->data, out->len, tip->sequence);
	memcpy(out->data, &tip->checksum, sizeof(tip->checksum));
}

int record_check(const void *p, size_t len, uint64_t sequence, struct record_head *ret, struct err *e)
{
	struct record_head h;

	if (len < sizeof(h) || len > RECORD_MAX)
		return err_set(e, ERR_CORRUPT, "event %llu: a record of %zu bytes", (unsigned long long)sequence, len);
	memcpy(&h, p, sizeof(h));
	if (h.checksum != checksum_of(p, len, sequence))
		return err_set(e, ERR_CORRUPT, "event %llu: the record does not match its checksum",
			       (unsigned long long)sequence);
	if (h.version != RECORD_VERSION && h.version != RECORD_VERSION_COMPRESSED)
		return err_set(e, ERR_CORRUPT, "event %llu: record version %u", (unsigned long long)sequence,
			       h.version);
	if (h.version == RECORD_VERSION && h.length != len - sizeof(h))
		return err_set(e, ERR_CORRUPT, "event %llu: the record's length is wrong",
			       (unsigned long long)sequence);
	*ret = h;
	return 0;
}

/* For readers that check the chain: open, verify, and jobs that project the log. Queries check each record alone. */
int record_follow(const void *p, size_t len, uint64_t sequence, struct tip *tip, struct err *e)
{
	struct record_head h;

	if (sequence != tip->sequence + 1)
		return err_set(e, ERR_CORRUPT, "event %llu follows event %llu", (unsigned long long)sequence,
			       (unsigned long long)tip->sequence);
	if (record_check(p, len, sequence, &h, e) != 0)
		return -1;
	if (h.previous != tip->checksum)
		return err_set(e, ERR_CORRUPT, "event %llu does not continue the checksum chain",
			       (unsigned long long)sequence);
	*tip = (struct tip){ .sequence = sequence, .checksum = h.checksum, .max_us = h.max_us };
	return 0;
}

int record_view(const void *p, size_t len, uint64_t sequence, struct buf *space, struct event_view *ret, struct err *e)
{
	const char *event = (const char *)p + sizeof(struct record_head);
	struct record_head h;

	if (record_check(p, len, sequence, &h, e) != 0)
		return -1;
	buf_reset(space);
	if (h.version == RECORD_VERSION)
		buf_append(space, event, h.length);
	else if (lz_expand(event, len - sizeof(h), h.length, space, e) != 0)
		return err_wrap(e, "event %llu", (unsigned long long)sequence);
	return event_view_of(space->data, space->len, sequence, ret, e);
}
