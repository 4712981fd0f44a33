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

/* Runs inside the write transaction: `dst` is the reserved value. */
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

/* For readers that check the chain: open, verify, and jobs that project the log. Queries check each record alone. */
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

/* ---- the index ---- */

/*
 * The part of an id that sorts by time comes first: the entries of ids that were created together, such as a session,
 * its thread, its turn and its process, are then on one page at the end of the table, and a commit writes that page
 * instead of one page per field.
 */
void record_index_prefix(int field, const char *id, size_t len, struct db_key *ret)
{
	const char *sep = memchr(id, '_', len);
	size_t head = sep ? (size_t)(sep + 1 - id) : 0;

	db_key_reset(ret);
	db_key_add(ret, id + head, len - head);
	db_key_u8(ret, 0);
	db_key_u8(ret, (uint8_t)field);
	db_key_add(ret, id, head);
	db_key_u8(ret, 0);
}

bool record_index_key(const struct event_view *ev, int field, struct db_key *ret)
{
	const struct id_text *id = &ev->ids[field];

	if (!id->text || !id_field_indexed((enum id_field)field))
		return false;
	record_index_prefix(field, id->text, id->len, ret);
	db_key_u64(ret, ev->sequence);
	return db_key_ok(ret);
}

int record_index_put(const struct db *d, MDB_txn *txn, const struct event_view *ev, struct err *e)
{
	struct db_key k;

	for (int f = 0; f < ID_FIELD_COUNT; f++) {
		if (!record_index_key(ev, f, &k))
			continue;
		MDB_val kv = db_key_val(&k), none = { 0 };
		int rc = mdb_put(txn, d->t[DB_INDEX], &kv, &none, 0);
		if (rc != 0)
			return db_err(e, rc, "write an index entry");
	}
	return 0;
}
