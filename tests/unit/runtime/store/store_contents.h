#ifndef BAILIFF_TESTS_STORE_CONTENTS_H
#define BAILIFF_TESTS_STORE_CONTENTS_H

/* Writes some of everything that a store can hold, and reads all of it as one text to compare. */

#include "runtime/store/spool.h"
#include "tests/unit/runtime/store/rig.h"

static inline struct store_stats stats(struct rig *r)
{
	struct store_stats st;
	struct err e = ERR_INIT;

	ck_assert_msg(store_stats_get(r->s, &st, &e) == 0, "%s", e.message);
	return st;
}

/* ---- reading ---- */

static inline bool list(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	buf_printf(ctx, "%.*s=%.*s ", (int)id_len, id, (int)len, json);
	return true;
}

static inline bool list_two(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct buf *out = ctx;

	buf_printf(out, "%.*s ", (int)id_len, id);
	return out->data[out->len - 2] != '3'; /* stops at an id that ends with 3 */
}

static inline bool list_event(void *ctx, const struct event_view *ev)
{
	buf_printf(ctx, "%llu:%d ", (unsigned long long)ev->sequence, ev->type);
	return true;
}

static inline void read_models(struct rig *r, struct buf *out)
{
	static const char *const after[] = { NULL, "sess_", "sess_2", "sess_25", "sess_9", "zzz" };
	struct err e = ERR_INIT;

	for (uint8_t kind = 1; kind <= 3; kind++)
		for (size_t i = 0; i < countof(after); i++)
			for (int down = 0; down < 2; down++) {
				buf_printf(out, "\n%u %s %d: ", kind, after[i] ? after[i] : "-", down);
				ck_assert_int_eq(store_model_scan(r->s, kind, i % 2 ? NULL : "sess_", after[i], down,
								  list, out, &e),
						 0);
				buf_byte(out, '|');
				ck_assert_int_eq(store_model_scan(r->s, kind, NULL, after[i], down, list_two, out, &e),
						 0);
			}
	for (int i = 0; i < 9; i++) {
		char id[16];
		snprintf(id, sizeof(id), "sess_%d", i);
		int rc = store_model_get(r->s, 1, id, out, &e);
		ck_assert_int_ge(rc, 0);
		buf_printf(out, " %d\n", rc);
	}
}

/* The results of all queries, as text. */
static inline char *read_everything(struct rig *r)
{
	static const char *const refs[] = { "out_in", "out_gone", "out_1", "out_none" };
	struct buf out = BUF_INIT;
	struct store_query all = { .index = -1 }, one = { .index = ID_SESSION, .id = "sess_2" };
	struct store_stats st = stats(r);
	struct err e = ERR_INIT;
	uint8_t hash[32];
	char method[64];
	uint64_t at;

	buf_printf(&out, "%llu events, %llu models, %llu keys\n", (unsigned long long)st.events,
		   (unsigned long long)st.models, (unsigned long long)st.idem_records);
	read_models(r, &out);
	ck_assert_int_eq(store_events(r->s, &all, list_event, &out, &e), 0);
	buf_byte(&out, '\n');
	ck_assert_int_eq(store_events(r->s, &one, list_event, &out, &e), 0);
	for (uint64_t us = 0; us < 80; us += 7) {
		ck_assert_msg(store_sequence_at(r->s, us, &at, &e) == 0, "%s", e.message);
		buf_printf(&out, "\nat %llu: %llu", (unsigned long long)us, (unsigned long long)at);
	}
	for (size_t i = 0; i < countof(refs); i++) {
		buf_printf(&out, "\n%s: ", refs[i]);
		e = ERR_INIT;
		if (store_output_read(r->s, refs[i], 3, 5000, &out, &e) != 0)
			buf_str(&out, e.message);
	}
	for (uint32_t uid = 1; uid < 3; uid++) {
		buf_printf(&out, "\nkey of %u: ", uid);
		if (store_idempotency_get(r->s, uid, "k", method, hash, &out, &e) == 0)
			buf_str(&out, method);
	}
	buf_str(&out, "\nmeta: ");
	ck_assert_int_ge(store_meta_get(r->s, "m", &out, &e), 0);
	return buf_take(&out);
}

static uint64_t tick;

static inline uint64_t fake_us(void *ctx) { return ++tick; }

static inline struct store_batch *with_event(struct rig *r, unsigned i)
{
	struct store_batch *b = store_batch_new(r->s);
	char session[16], process[16];

	snprintf(session, sizeof(session), "sess_%u", (i * 7) % 9);
	snprintf(process, sizeof(process), "sess_%u", i % 4);
	rig_event(b, EVENT_RUNTIME_WARNING, session, process, i);
	return b;
}

static inline void submit(struct rig *r, struct store_batch *b)
{
	store_submit(r->s, b, 0, rig_result, r);
	store_flush(r->s);
	ck_assert_uint_eq(r->failed, 0);
}

/* Writes some of everything, and replaces or removes some of it. */
static inline void write_all(struct rig *r, struct spool_file *f, unsigned round)
{
	static const uint8_t hash[32];
	struct err e = ERR_INIT;
	struct store_batch *b;
	char text[32];

	if (f->fd < 0) {
		int dir = open(r->spool_dir, O_RDONLY | O_DIRECTORY);
		ck_assert_int_eq(spool_open(dir, "out_1", 0, f, &e), 0);
		close(dir);
	}
	for (unsigned i = 0; i < 12; i++)
		submit(r, with_event(r, i + round * 5));
	for (unsigned i = 0; i < 3; i++) {
		uint64_t at = f->size;

		for (int k = 0; k < 1000; k++) {
			char c = (char)('a' + (f->size + (uint64_t)k) % 26);
			ck_assert_int_eq(pwrite(f->fd, &c, 1, (off_t)(f->size + (uint64_t)k)), 1);
		}
		f->size += 1000;
		b = with_event(r, i);
		store_batch_spool(b, "out_1", f->fd, at, 1000);
		snprintf(text, sizeof(text), "inline %u of %u", i, round);
		store_batch_inline(b, i ? "out_in" : "out_gone", text, strlen(text));
		store_batch_idempotency(b, 1 + i % 2, "k", "method", hash, text, strlen(text));
		store_batch_meta(b, "m", text, strlen(text));
		submit(r, b);
	}
	b = store_batch_new(r->s); /* without events */
	store_batch_expire_output(b, "out_gone");
	submit(r, b);
}

#endif
