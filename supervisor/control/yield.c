#include "supervisor/control/yield.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/view/view.h"
#include "supervisor/control/control.h"
#include "supervisor/control/output_range.h"

#define YIELD_MS_MAX (10u * 60 * 1000)
#define OUTPUT_DEFAULT (64u * 1024)

struct yield {
	struct call *call;
	struct buf reply, before;
};

int yield_check(const struct call *c, struct err *e)
{
	uint64_t most = call_uint(c, "maxOutputBytes", OUTPUT_DEFAULT);

	if (call_uint(c, "yieldMs", 0) > YIELD_MS_MAX)
		return err_field(e, "yieldMs", "must be at most %u", YIELD_MS_MAX);
	if (most < 1 || most > OUTPUT_RANGE_MAX)
		return err_field(e, "maxOutputBytes", "must be 1 to %u", OUTPUT_RANGE_MAX);
	if (call_obj(c, "maxOutputBytes") && !yield_wanted(c))
		return err_field(e, "maxOutputBytes", "only means something together with yieldMs");
	return 0;
}

bool yield_wanted(const struct call *c) { return call_obj(c, "yieldMs") != NULL; }

/* Output since the request that is too long: its beginning, its end as `tail`, and the number of bytes in between. */
static int write_both_ends(const struct yield *y, const struct output_range *all, uint64_t total, struct buf *out,
			   struct err *e)
{
	struct output_range head = *all, tail = *all;
	buf_auto struct buf first = BUF_INIT, last = BUF_INIT;

	head.length = (all->length + 1) / 2;
	tail.length = all->length - head.length;
	tail.offset = total - tail.length;
	tail.from_character = true;
	if (output_range_write(call_store(y->call), VIEW_ANY_UID, &head, &first, e) < 0)
		return -1;
	if (tail.length && output_range_write(call_store(y->call), VIEW_ANY_UID, &tail, &last, e) < 0)
		return -1;
	uint64_t from = jval_uint(jval_get(jval_of(first.data, first.len), "nextOffset"), 0);
	uint64_t to = last.len ? jval_uint(jval_get(jval_of(last.data, last.len), "offset"), 0) : total;
	struct jw w = jw_on(out);

	buf_append(out, first.data, first.len - 1); /* without its last brace */
	w.need_comma = true;
	jw_kuint(&w, "omittedBytes", to - from);
	if (last.len)
		jw_kraw(&w, "tail", last.data, last.len);
	jw_obj_end(&w);
	return 0;
}

/* The range of one stream, or the error of reading it. */
static void write_stream(const struct yield *y, const char *stream, struct jval output, struct jw *w)
{
	struct jval known = jval_get(jval_get(jval_of(buf_cstr(&y->before), y->before.len), "outputs"), stream);
	uint64_t total = jval_uint(jval_get(output, "bytes"), 0);
	char ref[72] = "";
	struct output_range o = {
		.ref = ref,
		.offset = jval_uint(jval_get(known, "bytes"), 0),
		.length = (size_t)call_uint(y->call, "maxOutputBytes", OUTPUT_DEFAULT),
	};
	buf_auto struct buf range = BUF_INIT;
	struct err e = ERR_INIT;

	(void)jval_str(jval_get(output, "outputRef"), ref, sizeof(ref));
	jw_key(w, stream);
	bool long_one = total > o.offset && total - o.offset > o.length;
	if ((long_one ? write_both_ends(y, &o, total, &range, &e)
		      : output_range_write(call_store(y->call), VIEW_ANY_UID, &o, &range, &e)) == 0) {
		jw_raw(w, range.data, range.len);
		return;
	}
	jw_obj(w);
	jw_kstr(w, "outputRef", ref);
	jw_kstr(w, "error", e.message);
	jw_obj_end(w);
}

/* The method's own result, updated by the result of the wait. */
static void write_result(const struct yield *y, struct jval waited, struct buf *out)
{
	static const char *const fresh[] = { "status", "exitCode", "signal", "durationMs" };
	struct jw w = jw_on(out);

	jw_obj(&w);
	for (struct jiter it = jiter_on(jval_of(buf_cstr(&y->reply), y->reply.len)); jiter_next(&it);)
		if (!jval_is_str(it.key, "status")) {
			char key[72];

			(void)jval_str(it.key, key, sizeof(key));
			jw_kraw(&w, key, it.value.text, it.value.len);
		}
	for (size_t i = 0; i < countof(fresh); i++) {
		struct jval v = jval_get(waited, fresh[i]);

		if (v.type != JT_NONE)
			jw_kraw(&w, fresh[i], v.text, v.len);
	}
	jw_kobj(&w, "output");
	for (struct jiter it = jiter_on(jval_get(waited, "outputs")); jiter_next(&it);) {
		char stream[72];

		(void)jval_str(it.key, stream, sizeof(stream));
		write_stream(y, stream, it.value, &w);
	}
	jw_obj_end(&w);
	jw_obj_end(&w);
}

/* `json` is the process's document as of the end of the wait. */
static void on_waited(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct yield *y = ctx;
	buf_auto struct buf out = BUF_INIT;

	/* The request itself succeeded, whatever the wait returned. */
	if (e) {
		call_reply(y->call, y->reply.data, y->reply.len);
	} else {
		write_result(y, jval_of(json, len), &out);
		call_reply(y->call, out.data, out.len);
	}
	buf_done(&y->reply);
	buf_done(&y->before);
	free(y);
}

void yield_reply(struct call *c, const struct buf *before, const char *json, size_t len)
{
	char id[72] = "";
	struct yield *y;

	if (!yield_wanted(c)) {
		call_reply(c, json, len);
		return;
	}
	(void)jval_str(jval_get(jval_of(json, len), "processId"), id, sizeof(id));
	y = mem_zalloc(1, sizeof(*y));
	y->call = c;
	buf_append(&y->reply, json, len);
	if (before)
		buf_append(&y->before, buf_cstr(before), before->len);
	engine_wait_process(call_engine(c), *id ? id : call_str(c, "processId"), call_uint(c, "yieldMs", 0), &c->caller,
			    on_waited, y);
}
