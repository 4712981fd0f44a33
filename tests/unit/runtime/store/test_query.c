#include "tests/unit/runtime/store/rig.h"

static void fill(struct rig *r)
{
	static const char *const sessions[] = { "sess_a", "sess_ab", "sess_b" };

	for (unsigned i = 0; i < 1500; i++) {
		struct store_batch *b = store_batch_new(r->s);

		rig_event(b, EVENT_RUNTIME_WARNING, sessions[i % 3], i % 2 ? "proc_1" : NULL, i);
		store_submit(r->s, b, 0, rig_result, r);
	}
	store_flush(r->s);
	ck_assert_uint_eq(r->failed, 0);
}

static void check_indexes(struct rig *r)
{
	struct rig_seen x = rig_events(r, 0, 0, ID_SESSION, "sess_a");

	ck_assert(x.count == 500 && x.first == 1 && x.last == 1498);
	x = rig_events(r, 0, 0, ID_SESSION, "sess_ab");
	ck_assert(x.count == 500 && x.first == 2 && x.last == 1499);
	x = rig_events(r, 1000, 1200, ID_SESSION, "sess_b");
	ck_assert(x.first == 1002 && x.last == 1197 && x.count == 66);
	x = rig_events(r, 0, 0, ID_PROCESS, "proc_1");
	ck_assert(x.count == 750 && x.first == 2);
	x = rig_events(r, 1500, 0, ID_PROCESS, "proc_1");
	ck_assert_uint_eq(x.count, 0);
	ck_assert_uint_eq(rig_events(r, 0, 0, ID_SESSION, "sess").count, 0);
	ck_assert_uint_eq(rig_events(r, 0, 0, ID_TASK, "sess_a").count, 0);
	x = rig_events(r, 700, 0, -1, NULL);
	ck_assert(x.gapless && x.count == 800);
}

static void events_are_found_by_index_in(struct rig *r)
{
	struct store_query q = { .index = ID_TRACE, .id = "x" };
	struct rig_seen x = { 0 };
	struct err e = ERR_INIT;

	rig_open(r);
	fill(r);
	check_indexes(r); /* from memory */
	rig_close(r);
	rig_open(r);
	check_indexes(r); /* from the database */
	ck_assert_int_lt(store_events(r->s, &q, rig_see, &x, &e), 0);
	ck_assert_int_eq(e.code, ERR_INVALID);
	q = (struct store_query){ .after = UINT64_MAX, .index = -1 };
	ck_assert_int_eq(store_events(r->s, &q, rig_see, &x, &e), 0);
	q = (struct store_query){ .index = -1 };
	x = (struct rig_seen){ .stop_at = 7 };
	ck_assert_int_eq(store_events(r->s, &q, rig_see, &x, &e), 0);
	ck_assert_uint_eq(x.count, 7);
}
RIG_TEST(events_are_found_by_index)

/* Older events than those in the ring are read from the database without a gap. */
static void events_beyond_the_ring_are_read_from_the_database_in(struct rig *r)
{
	mem_auto char *payload = mem_alloc(40000);
	const char *head = "{\"code\":\"test\",\"advice\":\"none\",\"detail\":\"";
	struct rig_seen x;
	unsigned n = 400;

	rig_open(r);
	memset(payload, 'x', 40000);
	memcpy(payload, head, strlen(head));
	memcpy(payload + 39998, "\"}", 2);
	for (unsigned i = 0; i < n; i++) {
		struct event_draft d = { .type = EVENT_RUNTIME_WARNING, .payload = payload, .payload_len = 40000 };
		struct store_batch *b = store_batch_new(r->s);
		struct err e = ERR_INIT;

		d.ids[ID_SESSION] = i % 2 ? "sess_a" : "sess_b";
		ck_assert_msg(store_batch_event(b, &d, &e) == 0, "%s", e.message);
		store_submit(r->s, b, 0, rig_result, r);
	}
	store_flush(r->s);
	x = rig_events(r, 0, 0, -1, NULL);
	ck_assert(x.gapless && x.count == n);
	x = rig_events(r, 0, 0, ID_SESSION, "sess_a");
	ck_assert_uint_eq(x.count, n / 2);
	rig_verify_ok(r);
}
RIG_TEST(events_beyond_the_ring_are_read_from_the_database)

static void put_at(struct rig *r, uint64_t real_us)
{
	struct event_draft d = { .type = EVENT_RUNTIME_WARNING, .real_us = real_us };
	struct store_batch *b = store_batch_new(r->s);
	struct err e = ERR_INIT;

	d.payload = "{\"code\":\"c\",\"detail\":\"d\",\"advice\":\"a\"}";
	d.payload_len = strlen(d.payload);
	d.ids[ID_SESSION] = "sess_a";
	ck_assert_int_eq(store_batch_event(b, &d, &e), 0);
	store_submit(r->s, b, 0, rig_result, r);
	store_flush(r->s);
}

static uint64_t at(struct rig *r, uint64_t real_us)
{
	struct err e = ERR_INIT;
	uint64_t seq = 0;

	ck_assert_msg(store_sequence_at(r->s, real_us, &seq, &e) == 0, "%s", e.message);
	return seq;
}

static void sequences_are_found_by_time_in(struct rig *r)
{
	static const uint64_t times[] = { 100, 200, 150, 200, 300, 50, 400 }; /* the clock was set back twice */

	rig_open(r);
	ck_assert_uint_eq(at(r, 5), 1);
	for (size_t i = 0; i < countof(times); i++)
		put_at(r, 1700000000000000ull + times[i]);
	ck_assert_uint_eq(at(r, 0), 1);
	ck_assert_uint_eq(at(r, 1700000000000101), 2);
	ck_assert_uint_eq(at(r, 1700000000000151), 2);
	ck_assert_uint_eq(at(r, 1700000000000201), 5);
	ck_assert_uint_eq(at(r, 1700000000000400), 7);
	ck_assert_uint_eq(at(r, 1700000000000401), 8);
}
RIG_TEST(sequences_are_found_by_time)

struct scan {
	char ids[512];
	unsigned stop_at, count;
};

static bool collect(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct scan *s = ctx;

	snprintf(s->ids + strlen(s->ids), sizeof(s->ids) - strlen(s->ids), "%.*s ", (int)id_len, id);
	return ++s->count != s->stop_at;
}

static const char *scan(struct rig *r, uint8_t kind, const char *prefix, const char *after, bool descending,
			struct scan *s)
{
	struct err e = ERR_INIT;

	s->ids[0] = '\0';
	s->count = 0;
	ck_assert_msg(store_model_scan(r->s, kind, prefix, after, descending, collect, s, &e) == 0, "%s", e.message);
	return s->ids;
}

static void models_are_found_and_listed_in(struct rig *r)
{
	static const char *const ids[] = { "b", "a", "a.1", "a.2", "c", "b.9", "a:x" };
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	struct scan s = { .stop_at = 0 };

	rig_open(r);
	for (size_t i = 0; i < countof(ids); i++)
		rig_append(r, 1, ids[i], "p");
	rig_append(r, 2, "a", NULL);
	ck_assert_int_eq(store_model_get(r->s, 1, "a", &out, &e), 0);
	ck_assert_str_eq(buf_cstr(&out), "{\"count\":3}");
	ck_assert_int_eq(store_model_get(r->s, 1, "zz", &out, &e), 1);
	ck_assert_int_eq(store_model_get(r->s, 9, "a", &out, &e), 1);
	ck_assert_str_eq(scan(r, 1, NULL, NULL, false, &s), "a a.1 a.2 a:x b b.9 c ");
	ck_assert_str_eq(scan(r, 1, NULL, NULL, true, &s), "c b.9 b a:x a.2 a.1 a ");
	ck_assert_str_eq(scan(r, 1, NULL, "a.2", false, &s), "a:x b b.9 c ");
	ck_assert_str_eq(scan(r, 1, NULL, "a.2", true, &s), "a.1 a ");
	ck_assert_str_eq(scan(r, 1, NULL, "a.15", false, &s), "a.2 a:x b b.9 c ");
	ck_assert_str_eq(scan(r, 1, "a.", NULL, false, &s), "a.1 a.2 ");
	ck_assert_str_eq(scan(r, 1, "a.", NULL, true, &s), "a.2 a.1 ");
	ck_assert_str_eq(scan(r, 1, "a.", "a.1", false, &s), "a.2 ");
	ck_assert_str_eq(scan(r, 1, "a.", "a.2", true, &s), "a.1 ");
	ck_assert_str_eq(scan(r, 1, "a.", "a", false, &s), "a.1 a.2 ");
	ck_assert_str_eq(scan(r, 1, "a.", "a", true, &s), "");
	ck_assert_str_eq(scan(r, 1, "a.", "b", true, &s), "a.2 a.1 ");
	ck_assert_str_eq(scan(r, 1, "a.", "b", false, &s), "");
	ck_assert_str_eq(scan(r, 2, NULL, NULL, true, &s), "p ");
	ck_assert_str_eq(scan(r, 7, NULL, NULL, true, &s), "");
	ck_assert_str_eq(scan(r, 0, NULL, NULL, true, &s), "");
	ck_assert_str_eq(scan(r, 255, NULL, NULL, true, &s), "");
	s.stop_at = 2;
	ck_assert_str_eq(scan(r, 1, NULL, NULL, false, &s), "a a.1 ");
}
RIG_TEST(models_are_found_and_listed)

/* A reader that has seen a document also finds its events: dispatch is signalled before the document can be read. */
static void dispatch_is_signalled_before_a_document_is_readable_in(struct rig *r)
{
	struct err e = ERR_INIT;

	rig_open(r);
	for (unsigned i = 1; i <= 300; i++) {
		struct store_batch *b = store_batch_new(r->s);
		struct pollfd p = { .fd = store_dispatch_fd(r->s), .events = POLLIN };
		buf_auto struct buf out = BUF_INIT;
		char want[32];

		snprintf(want, sizeof(want), "{\"count\":%u}", i);
		rig_event(b, EVENT_RUNTIME_WARNING, "sess_a", NULL, i);
		store_submit(r->s, b, STORE_NOW, rig_result, r);
		while (strcmp(buf_cstr(&out), want) != 0) {
			buf_reset(&out);
			ck_assert_int_ge(store_model_get(r->s, 1, "sess_a", &out, &e), 0);
		}
		ck_assert_msg(poll(&p, 1, 0) == 1, "document %u is readable, but dispatch is not signalled", i);
		store_flush(r->s);
		ck_assert_uint_eq(r->decided, i);
	}
}
RIG_TEST(dispatch_is_signalled_before_a_document_is_readable)

int main(void)
{
	return SUITE("query", events_are_found_by_index, events_beyond_the_ring_are_read_from_the_database,
		     sequences_are_found_by_time, models_are_found_and_listed,
		     dispatch_is_signalled_before_a_document_is_readable);
}
