#include "runtime/base/hash.h"
#include "runtime/store/lz.h"
#include "runtime/store/record.h"
#include "runtime/store/stored_doc.h"
#include "tests/unit/runtime/store/rig.h"

#include <lmdb.h>
#include <stdlib.h>

/* ---- the codec ---- */

static void expect_round_trip(const char *text, size_t n)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	mem_auto char *packed = mem_alloc(n + 1);
	size_t len = lz_compress(text, n, packed);

	if (!len)
		return;
	ck_assert_uint_lt(len, n);
	ck_assert_msg(lz_expand(packed, len, n, &out, &e) == 0, "%s", e.message);
	ck_assert_uint_eq(out.len, n);
	ck_assert_mem_eq(out.data, text, n);
	ck_assert_int_lt(lz_expand(packed, len, n - 1, &out, &e), 0);
	ck_assert_int_lt(lz_expand(packed, len, n + 1, &out, &e), 0);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
}

START_TEST(every_text_survives_compression)
{
	static char text[LZ_MAX + 1];

	srandom(7);
	for (unsigned round = 0; round < 400; round++) {
		size_t n = (size_t)random() % (round % 20 ? 3000 : sizeof(text));
		unsigned letters = 1 + (unsigned)random() % 250;

		for (size_t i = 0; i < n; i++) {
			size_t back = (size_t)random() % 5000;

			/* new bytes, and repetitions of all lengths and distances */
			text[i] = back < i && random() % 8 ? text[i - back] : (char)(random() % letters);
		}
		expect_round_trip(text, n);
	}
	memset(text, 'a', sizeof(text));
	expect_round_trip(text, LZ_MAX);
	ck_assert_uint_eq(lz_compress(text, sizeof(text), text), 0);
}
END_TEST

START_TEST(the_dictionary_halves_a_short_event)
{
	static const char text[] =
		"\"type\":\"thread.updated\",\"eventId\":\"evt_01m7jasznj2y7wxqhb62mrgyy3\",\"timestamp\":"
		"\"2026-11-16T14:05:05.074427Z\",\"schemaVersion\":\"lime-profile-0.4.0\",\"payload\":{"
		"\"status\":\"completed\",\"previous\":\"running\",\"reason\":\"turn_completed\"}}";
	char packed[sizeof(text)];

	expect_round_trip(text, sizeof(text) - 1);
	ck_assert_uint_lt(lz_compress(text, sizeof(text) - 1, packed), sizeof(text) / 2);
}
END_TEST

#define LENGTH 7247

/* Existing stores are compressed with this dictionary: a match over all of it must give the same text. */
START_TEST(the_dictionary_does_not_change)
{
	unsigned char block[64] = { 0x0f, LENGTH & 0xff, LENGTH >> 8 }; /* no literals, the offset, a long match */
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	size_t left = LENGTH - 4 - 15, n = 3;

	for (; left >= 255; left -= 255)
		block[n++] = 255;
	block[n++] = (unsigned char)left;
	ck_assert_msg(lz_expand(block, n, LENGTH, &out, &e) == 0, "%s", e.message);
	ck_assert_msg(hash64(out.data, out.len, 0) == 0x3a18cdf26af0bbdcu, "%llx",
		      (unsigned long long)hash64(out.data, out.len, 0));
	block[1]++; /* one byte beyond its start */
	ck_assert_int_lt(lz_expand(block, n, LENGTH, &out, &e), 0);
}
END_TEST

START_TEST(damaged_input_is_corrupt_or_harmless)
{
	static const char text[] = "{\"status\":\"completed\",\"status\":\"completed\",\"abcdefgh\",\"abcdefgh\"}";
	char packed[sizeof(text)];
	size_t n = sizeof(text) - 1, len = lz_compress(text, n, packed);

	ck_assert_uint_gt(len, 0);
	for (size_t i = 0; i < len; i++)
		for (int bit = 0; bit < 8; bit++) {
			buf_auto struct buf out = BUF_INIT;
			struct err e = ERR_INIT;

			packed[i] = (char)(packed[i] ^ 1 << bit);
			if (lz_expand(packed, len, n, &out, &e) != 0)
				ck_assert_int_eq(e.code, ERR_CORRUPT);
			else
				ck_assert_uint_eq(out.len, n);
			packed[i] = (char)(packed[i] ^ 1 << bit);
			ck_assert_int_lt(lz_expand(packed, i, n, &out, &e), 0);
		}
}
END_TEST

/* ---- a store of an earlier version ---- */

/* One document per session, long enough to be compressed. */
static int fold_long(struct models *m, const struct event_view *ev, struct err *e)
{
	const struct id_text *id = &ev->ids[ID_SESSION];
	unsigned long long count = 0;
	const char *old;
	char text[200];
	size_t n;
	int rc = models_get(m, 1, id->text, id->len, &old, &n, e);

	if (rc == 0)
		count = jval_uint(jval_get(jval_of(old, n), "turns"), 0);
	n = (size_t)snprintf(text, sizeof(text), "{\"sessionId\":\"%.*s\",\"status\":\"completed\",\"turns\":%llu}",
			     (int)id->len, id->text, count + 1);
	return rc < 0 ? -1 : models_put(m, 1, id->text, id->len, text, n, e);
}

/* Writes the events of a record one by one, uncompressed. Returns how many were compressed. */
static unsigned write_single_events(MDB_txn *txn, const struct db *db, const struct record_block *block,
				    struct tip *tip)
{
	buf_auto struct buf record = BUF_INIT;
	struct record_head h = { .version = RECORD_VERSION, .max_us = block->head.max_us };

	for (uint64_t sequence = block->first; sequence <= block->last; sequence++) {
		const char *event = block->text.data + block->event[sequence - block->first].offset;
		struct db_key key;
		MDB_val k = db_key_sequence(&key, sequence), v;

		h.previous = tip->checksum;
		h.length = block->event[sequence - block->first].length;
		buf_reset(&record);
		buf_append(&record, &h, sizeof(h));
		buf_append(&record, event, h.length);
		tip->checksum = hash64(record.data + 8, record.len - 8, sequence);
		memcpy(record.data, &tip->checksum, 8);
		v = (MDB_val){ record.len, record.data };
		ck_assert_int_eq(mdb_put(txn, db->t[DB_EVENTS], &k, &v, 0), 0);
	}
	return block->head.version == RECORD_VERSION ? 0 : 1u + block->head.more;
}

/* Stores every event and document as version 3 did, and as version 4 may. Returns how many were compressed. */
static unsigned write_uncompressed(struct rig *r, uint32_t version)
{
	record_block_auto struct record_block block = RECORD_BLOCK_INIT;
	buf_auto struct buf space = BUF_INIT;
	struct err e = ERR_INIT;
	struct tip tip = { 0 };
	unsigned compressed = 0;
	struct db db;
	MDB_txn *txn;
	MDB_cursor *cur;
	MDB_val k, v;
	bool empty;

	ck_assert_int_eq(db_open(r->store_dir, 1u << 30, 0, &db, &empty, &e), 0);
	ck_assert_int_eq(mdb_txn_begin(db.env, NULL, 0, &txn), 0);
	for (uint64_t next = 1;; next = block.last + 1) {
		struct db_key key;

		k = db_key_sequence(&key, next);
		if (mdb_get(txn, db.t[DB_EVENTS], &k, &v) != 0)
			break;
		ck_assert_int_eq(record_open(v.mv_data, v.mv_size, next, &block, &e), 0);
		compressed += write_single_events(txn, &db, &block, &tip);
	}
	/* keys are copied: a put moves those of its page */
	ck_assert_int_eq(mdb_cursor_open(txn, db.t[DB_MODELS_A], &cur), 0);
	while (mdb_cursor_get(cur, &k, &v, MDB_NEXT) == 0) {
		mem_auto void *key = mem_dup(k.mv_data, k.mv_size);
		const char *json;
		size_t n;

		k.mv_data = key;
		ck_assert_int_eq(stored_doc_open(&k, &v, &space, &json, &n, &e), 0);
		compressed += json == space.data;
		if (json == space.data)
			ck_assert_int_eq(db_seal_put(txn, db.t[DB_MODELS_A], &k, json, n, &e), 0);
	}
	mdb_cursor_close(cur);
	ck_assert_int_eq(db_meta_put(txn, &db, "version", &version, sizeof(version), &e), 0);
	ck_assert_int_eq(mdb_txn_commit(txn), 0);
	db_close(&db);
	return compressed;
}

static void a_store_of_version_3_is_continued_in(struct rig *r)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	r->o.project = fold_long;
	rig_open(r);
	rig_append(r, 200, "sess_a", "proc_1");
	rig_append(r, 200, "sess_b", "proc_1");
	rig_verify_ok(r);
	rig_close(r);
	ck_assert_uint_eq(write_uncompressed(r, 3), 402);
	rig_open(r);
	rig_verify_ok(r);
	ck_assert_uint_eq(rig_append(r, 1, "sess_a", "proc_1"), 1);
	rig_verify_ok(r);
	rig_close(r);
	rig_open(r);
	ck_assert_uint_eq(rig_events(r, 0, 0, ID_SESSION, "sess_a").count, 201);
	ck_assert_int_eq(store_model_get(r->s, 1, "sess_a", &out, &e), 0);
	ck_assert_str_eq(out.data, "{\"sessionId\":\"sess_a\",\"status\":\"completed\",\"turns\":201}");
	rig_verify_ok(r);
	rig_close(r);
	ck_assert_uint_eq(write_uncompressed(r, 4), 2); /* only what was written since */
	rig_open(r);
	rig_append(r, 40, "sess_a", "proc_1");
	rig_verify_ok(r);
	ck_assert_uint_eq(rig_events(r, 0, 0, ID_SESSION, "sess_a").count, 241);
}
RIG_TEST(a_store_of_version_3_is_continued)

int main(void)
{
	return SUITE("lz", every_text_survives_compression, the_dictionary_halves_a_short_event,
		     the_dictionary_does_not_change, damaged_input_is_corrupt_or_harmless,
		     a_store_of_version_3_is_continued);
}
