#include "runtime/store/record.h"

#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/event/event.h"

#include <string.h>

size_t record_size(size_t event_len) { return sizeof(struct record_head) + event_len; }

static uint64_t checksum_of(const void *p, size_t len, uint64_t sequence)
{
	return hash64((const char *)p + sizeof(uint64_t), len - sizeof(uint64_t), sequence);
}

void record_write(void *dst, const void *event, size_t len, uint64_t real_us, struct tip *tip)
{
	struct record_head h = {
		.previous = tip->checksum,
		.max_us = real_us > tip->max_us ? real_us : tip->max_us,
		.length = (uint32_t)len,
		.version = RECORD_VERSION,
	};

	memcpy(dst, &h, sizeof(h));
	memcpy((char *)dst + sizeof(h), event, len);
	tip->sequence++;
	tip->max_us = h.max_us;
	tip->checksum = checksum_of(dst, record_size(len), tip->sequence);
	memcpy(dst, &tip->checksum, sizeof(tip->checksum));
}

int record_check(const void *p, size_t len, uint64_t sequence, struct record_head *ret, const void **ret_event,
		 struct err *e)
{
	struct record_head h;

	if (len < sizeof(h) || len > RECORD_MAX)
		return err_set(e, ERR_CORRUPT, "event %llu: a record of %zu bytes", (unsigned long long)sequence, len);
	memcpy(&h, p, sizeof(h));
	if (h.length != len - sizeof(h))
		return err_set(e, ERR_CORRUPT, "event %llu: the record's length is wrong",
			       (unsigned long long)sequence);
	if (h.checksum != checksum_of(p, len, sequence))
		return err_set(e, ERR_CORRUPT, "event %llu: the record does not match its checksum",
			       (unsigned long long)sequence);
	if (h.version != RECORD_VERSION)
		return err_set(e, ERR_CORRUPT, "event %llu: record version %u", (unsigned long long)sequence,
			       h.version);
	*ret = h;
	*ret_event = (const char *)p + sizeof(h);
	return 0;
}

int record_follow(const void *p, size_t len, uint64_t sequence, struct tip *tip, const void **ret_event,
		  size_t *ret_len, struct err *e)
{
	struct record_head h;

	if (sequence != tip->sequence + 1)
		return err_set(e, ERR_CORRUPT, "event %llu follows event %llu", (unsigned long long)sequence,
			       (unsigned long long)tip->sequence);
	if (record_check(p, len, sequence, &h, ret_event, e) != 0)
		return -1;
	if (h.previous != tip->checksum)
		return err_set(e, ERR_CORRUPT, "event %llu does not continue the checksum chain",
			       (unsigned long long)sequence);
	*tip = (struct tip){ .sequence = sequence, .checksum = h.checksum, .max_us = h.max_us };
	*ret_len = h.length;
	return 0;
}

int record_view(const void *p, size_t len, uint64_t sequence, struct event_view *ret, struct err *e)
{
	struct record_head h;
	const void *event;

	if (record_check(p, len, sequence, &h, &event, e) != 0)
		return -1;
	return event_view_of(event, h.length, sequence, ret, e);
}
