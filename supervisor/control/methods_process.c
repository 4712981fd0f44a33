/* Processes: starting, input, signals, output, and the changes of copy-on-write runs. */

#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/ports.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/sandbox/sandbox.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "runtime/view/view_documents.h"
#include "runtime/view/view_sandbox.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/host/cow_changes.h"

#include <string.h>

#define READ_DEFAULT (64u * 1024)      /* bytes of a range that is requested without a length */
#define RANGE_MAX (1024u * 1024)       /* of one range: it is read and encoded on the loop */
#define YIELD_MS_MAX (10u * 60 * 1000) /* longer waits are wait_process's */
#define AWAITED_MS 10                  /* a wait of at least this may delay the reply to the start itself */
#define REASON_MAX 256u
#define FOREVER_MS (1ull << 40) /* longer than any uptime: no limit at all */
#define PATHS_MAX 10000u
#define RECENT_US (10ull * 1000 * 1000)
#define PATHS_BYTES_MAX (1u << 19)

static bool is_word(const char *given, const char *word) { return given && strcmp(given, word) == 0; }

/* ---- ranges of an output ---- */

/*
 * A range of an output as clients get it: {data, encoding, offset, nextOffset, totalBytes, eof, omittedBytes?}. Text is
 * cut between characters; bytes that are not UTF-8 are sent as base64, as `encoding` shows. A range that starts in the
 * omitted part has no data, and its nextOffset is the end of that part.
 */
struct output_range {
	const char *ref;
	uint64_t offset;
	size_t length;       /* 1 … RANGE_MAX */
	bool base64;         /* also for text */
	bool from_character; /* it may start inside a character: the rest of that one is skipped */
};

/* The part of a range that was read. */
struct part {
	struct view_output_brief brief;
	struct buf bytes;
	uint64_t skipped; /* bytes of the omitted part */
};

/* FORM_WAIT: the only bytes are the beginning of a character whose rest has not been printed yet. */
enum form { FORM_TEXT, FORM_BASE64, FORM_WAIT };

/* Chooses the encoding and how many bytes are shown. */
static enum form form_of(const struct output_range *o, const struct part *p, size_t *ret_n)
{
	bool last = o->offset + p->bytes.len >= p->brief.bytes;
	size_t n = p->bytes.len;

	*ret_n = n;
	if (o->base64)
		return FORM_BASE64;
	/* The rest of a character that is cut here comes with the next read or with more output. */
	if (n && (!last || !p->brief.ended))
		n = text_utf8_cut(p->bytes.data, n);
	if (n == 0 && p->bytes.len && last && !p->brief.ended) {
		*ret_n = 0;
		return FORM_WAIT;
	}
	if ((n == 0 && p->bytes.len) || !text_utf8_valid(buf_cstr(&p->bytes), n))
		return FORM_BASE64;
	*ret_n = n;
	return FORM_TEXT;
}

/* nextOffset skips the omitted part, so a client that reads on from there does not loop. */
static void write_part(const struct output_range *o, const struct part *p, struct buf *out)
{
	struct jw w = jw_on(out);
	size_t n;
	enum form form = form_of(o, p, &n);
	uint64_t next = o->offset + p->skipped + n;

	jw_obj(&w);
	jw_key(&w, "data");
	if (form == FORM_BASE64)
		jw_base64(&w, buf_cstr(&p->bytes), n);
	else
		jw_strn(&w, buf_cstr(&p->bytes), n);
	jw_kstr(&w, "encoding", form == FORM_BASE64 ? "base64" : "utf8");
	jw_kuint(&w, "offset", o->offset);
	jw_kuint(&w, "nextOffset", next);
	jw_kuint(&w, "totalBytes", p->brief.bytes);
	jw_kbool(&w, "eof", p->brief.ended && next >= p->brief.bytes);
	if (p->skipped)
		jw_kuint(&w, "omittedBytes", p->skipped);
	jw_obj_end(&w);
}

/* Stops at the omitted part: a range has data from one side of it only. */
static int read_part(struct store *s, const struct output_range *o, struct part *p, struct err *e)
{
	const struct view_output_brief *b = &p->brief;
	uint64_t n = o->length;

	if (o->offset >= b->bytes)
		return 0;
	if (o->offset >= b->omitted_from && o->offset < b->omitted_to) {
		p->skipped = b->omitted_to - o->offset;
		return 0;
	}
	if (n > b->bytes - o->offset)
		n = b->bytes - o->offset;
	if (b->omitted_to > b->omitted_from && o->offset < b->omitted_from && n > b->omitted_from - o->offset)
		n = b->omitted_from - o->offset;
	if (store_output_read(s, o->ref, o->offset, (size_t)n, &p->bytes, e) < 0)
		return -1;
	if (!p->bytes.len && b->ended)
		return err_set(e, ERR_CORRUPT, "output '%s' has no bytes at %llu, although %llu are recorded", o->ref,
			       (unsigned long long)o->offset, (unsigned long long)b->bytes);
	return 0;
}

/* ERR_NOT_FOUND, ERR_EXPIRED, ERR_CORRUPT. */
static int write_range(struct store *s, uint32_t uid, const struct output_range *o, struct buf *out, struct err *e)
{
	struct part p = { .bytes = BUF_INIT };
	struct output_range at = *o;
	size_t n = 0;
	int r = view_output_brief(s, uid, o->ref, &p.brief, e);

	if (r > 0)
		return err_not_known(e, "outputRef", o->ref);
	if (r == 0 && p.brief.expired)
		return err_set(e, ERR_EXPIRED, "output '%s' has expired", o->ref);
	if (r == 0)
		r = read_part(s, o, &p, e);
	/* At most three continuation bytes: more of them is not UTF-8, and stays for base64. */
	while (r == 0 && o->from_character && n < p.bytes.len && n < 3 &&
	       ((unsigned char)p.bytes.data[n] & 0xc0) == 0x80)
		n++;
	if (n)
		memmove(p.bytes.data, p.bytes.data + n, p.bytes.len -= n);
	at.offset += n;
	if (r == 0)
		write_part(&at, &p, out);
	buf_done(&p.bytes);
	return r;
}

/* ---- yieldMs ---- */

/*
 * With yieldMs the call waits for the process and returns its output in the same reply, when the process has ended or
 * the time is up. The reply then also has the current `status`, `exitCode`, `signal`, `durationMs`, `commandExited` if
 * the command has ended before its descendants, and `output`: for each stream a range as in read_output, at most
 * maxOutputBytes long. Of more output it has the first and the last half, the latter as `tail`, and `omittedBytes`
 * counts the bytes in between.
 */
struct yield {
	struct call *call;
	struct buf reply; /* of the method itself */
	struct buf
		before; /* the process's document before the request: `output` starts at its byte counts; empty = 0 */
	size_t most;
};

/* Several methods take these parameters, so they are read by name. */
static int yield_check(const struct call *c, struct err *e)
{
	uint64_t most = call_uint(c, "maxOutputBytes", READ_DEFAULT);

	if (call_uint(c, "yieldMs", 0) > YIELD_MS_MAX)
		return err_field(e, "yieldMs", "must be at most %u", YIELD_MS_MAX);
	if (most < 1 || most > RANGE_MAX)
		return err_field(e, "maxOutputBytes", "must be 1 to %u", RANGE_MAX);
	if (json_object_get(c->params, "maxOutputBytes") && !json_object_get(c->params, "yieldMs"))
		return err_field(e, "maxOutputBytes", "needs yieldMs");
	return 0;
}

/*
 * Output since the request that is too long: its beginning, its end as `tail`, and the number of bytes in between.
 * VIEW_ANY_UID here and below: the caller has started the process or written to it, so its rights were checked then.
 */
static int write_both_ends(const struct yield *y, const struct output_range *all, uint64_t total, struct buf *out,
			   struct err *e)
{
	struct output_range head = *all, tail = *all;
	buf_auto struct buf first = BUF_INIT, last = BUF_INIT;

	head.length = (all->length + 1) / 2;
	tail.length = all->length - head.length;
	tail.offset = total - tail.length;
	tail.from_character = true;
	if (write_range(call_store(y->call), VIEW_ANY_UID, &head, &first, e) < 0)
		return -1;
	if (tail.length && write_range(call_store(y->call), VIEW_ANY_UID, &tail, &last, e) < 0)
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

/* The range of one stream, or the error of reading it. If it has `ended` empty, as most do, nothing need be read. */
static void write_stream(const struct yield *y, const char *stream, struct jval output, bool ended, struct jw *w)
{
	struct jval known = jval_get(jval_get(jval_of(buf_cstr(&y->before), y->before.len), "outputs"), stream);
	uint64_t total = jval_uint(jval_get(output, "bytes"), 0);
	char ref[72] = "";
	struct output_range o = {
		.ref = ref,
		.offset = jval_uint(jval_get(known, "bytes"), 0),
		.length = y->most,
	};
	buf_auto struct buf range = BUF_INIT;
	struct err e = ERR_INIT;

	(void)jval_str(jval_get(output, "outputRef"), ref, sizeof(ref));
	jw_key(w, stream);
	const struct part empty = { .brief.ended = true };
	bool long_one = total > o.offset && total - o.offset > o.length, nothing = ended && !total && !o.offset;
	if (nothing)
		write_part(&o, &empty, &range);
	if (nothing || (long_one ? write_both_ends(y, &o, total, &range, &e)
				 : write_range(call_store(y->call), VIEW_ANY_UID, &o, &range, &e)) == 0) {
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
	static const char *const fresh[] = { "status", "exitCode", "signal", "durationMs", "commandExited" };
	const bool ended = jval_is_str(jval_get(waited, "status"), "completed");
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
		write_stream(y, stream, it.value, ended, &w);
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

/* Replies with `json`, at once or after yieldMs. processId is in it or a parameter of the call. Takes *before. */
static void yield_reply(struct call *c, struct buf *before, const char *json, size_t len)
{
	char id[72] = "";
	struct yield *y;

	if (!json_object_get(c->params, "yieldMs")) {
		call_reply(c, json, len);
		return;
	}
	(void)jval_str(jval_get(jval_of(json, len), "processId"), id, sizeof(id));
	y = mem_zalloc(1, sizeof(*y));
	y->call = c;
	y->most = (size_t)call_uint(c, "maxOutputBytes", READ_DEFAULT);
	buf_append(&y->reply, json, len);
	if (before) {
		y->before = *before;
		*before = BUF_INIT;
	}
	engine_wait_briefly(call_engine(c), *id ? id : json_string_value(json_object_get(c->params, "processId")),
			    call_uint(c, "yieldMs", 0), &c->caller, on_waited, y);
}

/* ---- start_process ---- */

static void fail_unavailable(struct call *c, const struct err *e)
{
	static const char data[] = "\"retryable\":false";
	struct err about = *e;

	about.reason = e->reason ? e->reason : REASON_NOT_ENFORCEABLE;
	call_fail_data(c, &about, data, sizeof(data) - 1);
}

/* The result of the start, with the subscription. */
static void reply_subscribed(struct call *c, const char *json, size_t len)
{
	struct jval started = jval_of(json, len);
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	char id[72];

	(void)jval_str(jval_get(started, "processId"), id, sizeof(id));
	jw_obj(&w);
	buf_append(&out, json + 1, len - 2); /* its members */
	w.need_comma = true;
	subscribe_to_process(c, id, jval_uint(jval_get(started, "sequence"), 0), &w);
	jw_obj_end(&w);
	call_reply(c, out.data, out.len);
}

static void on_started(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct call *c = ctx;

	if (e && e->code == ERR_UNAVAILABLE && e->field[0] && !json)
		fail_unavailable(ctx, e);
	else if (e)
		call_fail_data(ctx, e, json, json ? len : 0);
	else if (json_is_true(json_object_get(c->params, "subscribe")))
		reply_subscribed(c, json, len);
	else
		yield_reply(ctx, NULL, json, len);
}

int method_start_process(struct call *c, const struct start_process_params *p, struct buf *out, struct err *e)
{
	start_spec_auto struct start_spec s = { 0 };

	if (p->subscribe.value && p->yieldMs.given)
		return err_field(e, "subscribe", "cannot be combined with yieldMs, which waits for the end itself");
	if (yield_check(c, e) == 0 && start_spec_of(call_engine(c), c->params, &s, e) == 0) {
		s.request.end_awaited = p->yieldMs.given && p->yieldMs.value >= AWAITED_MS;
		engine_start_process(call_engine(c), &s.request, &c->caller, on_started, c);
	} else if (e->code == ERR_UNAVAILABLE) {
		fail_unavailable(c, e);
	} else {
		return -1;
	}
	return CALL_PENDING;
}

/* ---- steering ---- */

/* A write that is answered with the output that follows it. */
struct write {
	struct call *call;
	struct buf before; /* the process's document before the write */
};

static void on_written(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct write *w = ctx;

	if (e)
		call_fail_data(w->call, e, json, json ? len : 0);
	else
		yield_reply(w->call, &w->before, json, len);
	buf_done(&w->before);
	free(w);
}

/*
 * With yieldMs the process's document is read before the write: its byte counts mark where the output that answers this
 * input begins. Output that was printed before but is not recorded yet is included; none is left out.
 */
int method_write_process_stdin(struct call *c, const struct write_process_stdin_params *p, struct buf *out,
			       struct err *e)
{
	buf_auto struct buf bytes = BUF_INIT;
	const json_t *data = json_object_get(c->params, "data"); /* may contain NUL bytes, unlike p->data */
	struct err ignored = ERR_INIT;

	if (yield_check(c, e) < 0)
		return -1;
	if (!is_word(p->encoding, "base64"))
		buf_append(&bytes, json_string_value(data), json_string_length(data));
	else if (text_base64_decode(json_string_value(data), json_string_length(data), &bytes) < 0)
		return err_field(e, "data", "is not base64");
	struct write *w = mem_zalloc(1, sizeof(*w));
	w->call = c;
	if (p->yieldMs.given &&
	    view_process(call_store(c), call_visible_uid(c), p->processId, &w->before, &ignored) < 0)
		buf_reset(&w->before); /* the engine reports the error */
	if (p->runHooks.value)
		engine_type_stdin(call_engine(c), p->processId, buf_cstr(&bytes), bytes.len, false, &c->caller,
				  on_written, w);
	else
		engine_write_stdin(call_engine(c), p->processId, buf_cstr(&bytes), bytes.len, &c->caller, on_written,
				   w);
	return CALL_PENDING;
}

int method_close_process_stdin(struct call *c, const struct close_process_stdin_params *p, struct buf *out,
			       struct err *e)
{
	if (p->runHooks.value)
		engine_type_stdin(call_engine(c), p->processId, NULL, 0, true, &c->caller, call_engine_reply, c);
	else
		engine_close_stdin(call_engine(c), p->processId, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

static int stream_of(const char *name) { return is_word(name, "stderr") ? STREAM_STDERR : STREAM_STDOUT; }

int method_close_process_output(struct call *c, const struct close_process_output_params *p, struct buf *out,
				struct err *e)
{
	engine_close_output(call_engine(c), p->processId, stream_of(p->stream), &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/*
 * Without a policy the size is set once. With one it follows from all displays of the terminal (attachment.h); if it
 * does not change, the reply is immediate and no event is written. engine_terminal_size comes first: a process that has
 * ended or has no terminal is rejected before an entry is made for it.
 */
int method_resize_process(struct call *c, const struct resize_process_params *p, struct buf *out, struct err *e)
{
	struct attachments *all = &c->control->attachments;
	struct attachment_size size = { 0 }, now;
	enum attachment_policy policy = is_word(p->policy, "keep")       ? ATTACHMENT_KEEP
					: is_word(p->policy, "smallest") ? ATTACHMENT_SMALLEST
									 : ATTACHMENT_NEWEST;

	if (terminal_dimension_of(json_object_get(c->params, "rows"), "rows", &size.rows, e) < 0 ||
	    terminal_dimension_of(json_object_get(c->params, "cols"), "cols", &size.cols, e) < 0)
		return -1;
	if (p->policy) {
		if (engine_terminal_size(call_engine(c), p->processId, &c->caller, &now.rows, &now.cols, e) < 0)
			return -1;
		if (!attachment_put(all, p->processId, &c->caller, size, policy))
			return err_set(e, ERR_EXHAUSTED, "this connection already displays %u terminals",
				       ATTACHMENTS_MAX);
		if (!attachment_size(all, p->processId, &size))
			size = now;
		if (size.rows == now.rows && size.cols == now.cols) {
			struct jw w = jw_on(out);

			jw_obj(&w);
			jw_kstr(&w, "processId", p->processId);
			jw_kuint(&w, "rows", size.rows);
			jw_kuint(&w, "cols", size.cols);
			jw_kuint(&w, "sequence", store_last_sequence(call_store(c)));
			jw_obj_end(&w);
			return CALL_REPLY;
		}
	}
	engine_resize_process(call_engine(c), p->processId, size.rows, size.cols, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* The signal's number; 0 = not given. */
static int signal_of(const char *name, struct err *e)
{
	int sig = name ? text_signal_number(name) : 0;

	if (name && (sig < 1 || sig > 64))
		return err_field(e, "signal", "no signal '%.40s'; give a name such as TERM or a number", name);
	return sig;
}

int method_signal_process(struct call *c, const struct signal_process_params *p, struct buf *out, struct err *e)
{
	int sig = signal_of(p->signal, e);

	if (sig < 0)
		return -1;
	engine_signal_process(call_engine(c), p->processId, sig, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_terminate_process(struct call *c, const struct terminate_process_params *p, struct buf *out, struct err *e)
{
	int sig = signal_of(p->signal, e);

	if (sig < 0 || param_length("reason", p->reason, 1, REASON_MAX, e) < 0)
		return -1;
	if (p->graceMs.value > 3600000)
		return err_field(e, "graceMs", "must be at most 3600000");
	engine_terminate_process(call_engine(c), p->processId, p->reason ? p->reason : "user", sig,
				 param_uint_or(p->graceMs, LIMIT_NONE), &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_wait_process(struct call *c, const struct wait_process_params *p, struct buf *out, struct err *e)
{
	uint64_t timeout = param_uint_or(p->timeoutMs, LIMIT_NONE);

	(is_word(p->until, "command") ? engine_wait_command : engine_wait_process)(
		call_engine(c), p->processId, timeout > FOREVER_MS ? LIMIT_NONE : timeout, &c->caller,
		call_engine_reply, c);
	return CALL_PENDING;
}

/* ---- reading ---- */

int method_read_output(struct call *c, const struct read_output_params *p, struct buf *out, struct err *e)
{
	uint64_t length = param_uint_or(p->length, READ_DEFAULT);
	const struct output_range o = {
		.ref = p->outputRef,
		.offset = p->offset.value,
		.length = (size_t)length,
		.base64 = is_word(p->encoding, "base64"),
	};

	if (length < 1 || length > RANGE_MAX)
		return err_field(e, "length", "must be 1 to %u", RANGE_MAX);
	if (write_range(call_store(c), call_visible_uid(c), &o, out, e) == 0)
		return CALL_REPLY;
	if (e->code != ERR_EXPIRED)
		return -1;
	call_fail_expired_output(c, e);
	return CALL_PENDING;
}

/*
 * The output of a process that ended moments ago: a client that follows it may have learned of the output and of the
 * end at the same time. 1 if it is not that, or no longer.
 */
static int find_recent_output(struct call *c, const struct open_output_params *p, char ret_ref[ID_SIZE],
			      uint64_t *ret_kept)
{
	buf_auto struct buf text = BUF_INIT;
	const uint32_t uid = c->caller.uid;
	const uint64_t now = clock_real_us();
	struct view_output_brief o;
	struct process_doc d;
	char ref[ID_SIZE] = "";

	if (view_read_visible(call_store(c), &process_schema, uid, "processId", p->processId, &text, &d, NULL) < 0 ||
	    d.uid != uid || !process_doc_ended(&d) || d.endedAt > now || d.endedAt + RECENT_US < now)
		return 1;
	for (struct jiter it = jiter_on(d.outputRefs); jiter_next(&it);)
		if (jval_is_str(jval_get(it.value, "stream"), p->stream))
			jval_str(jval_get(it.value, "outputRef"), ref, sizeof ref);
	if (!ref[0] || view_output_brief(call_store(c), uid, ref, &o, NULL) != 0 || !o.spilled || o.expired)
		return 1;
	memcpy(ret_ref, ref, sizeof ref);
	*ret_kept = o.omitted_to > o.omitted_from ? o.omitted_from : UINT64_MAX;
	return 0;
}

/*
 * A client that copies much output reads the spool file itself: bytes up to the file's size, except those after
 * keptBytes, which may be dropped. They are not checked against checksums, so stored outputs are read with read_output.
 * For operators only: a descriptor outlives its connection and can be passed on.
 */
int method_open_output(struct call *c, const struct open_output_params *p, struct buf *out, struct err *e)
{
	struct jw w = jw_on(out);
	char recent[ID_SIZE];
	const char *ref = recent;
	uint64_t kept;

	if (engine_live_output(call_engine(c), p->processId, stream_of(p->stream), &c->caller, &ref, &kept, e) < 0 &&
	    (e->code != ERR_STATE || find_recent_output(c, p, recent, &kept) != 0))
		return -1;
	fd_auto int fd = store_output_open(call_store(c), ref, e);
	if (fd < 0)
		return -1;
	*e = ERR_INIT;
	if (client_pass(c->client, &fd) < 0)
		return err_set(e, ERR_EXHAUSTED, "a batch can return one descriptor");
	jw_obj(&w);
	jw_kstr(&w, "outputRef", ref);
	if (kept != UINT64_MAX)
		jw_kuint(&w, "keptBytes", kept);
	jw_obj_end(&w);
	return CALL_REPLY;
}

/* ---- changes of copy-on-write runs ---- */

/* The paths one after another, each with its NUL, as the spawner's helper reads them. */
static int read_paths(const json_t *paths, struct buf *out, struct err *e)
{
	const json_t *v;
	char field[32];
	size_t i;

	if (paths && (json_array_size(paths) < 1 || json_array_size(paths) > PATHS_MAX))
		return err_field(e, "paths", "must have 1 to %u elements; omit it for all", PATHS_MAX);
	json_array_foreach (paths, i, v) {
		const char *path = json_string_value(v);

		(void)snprintf(field, sizeof(field), "paths[%zu]", i);
		if (path[0] != '/' || strstr(path, "/../") || strstr(path, "/./"))
			return err_field(e, field, "must be an absolute path without . and ..");
		buf_append(out, path, strlen(path) + 1);
	}
	if (out->len > PATHS_BYTES_MAX)
		return err_field(e, "paths", "are too long; name directories instead");
	return 0;
}

/* What is written in a session sandbox are changes of its holder. */
static int sandbox_holder(struct call *c, const char *given, char ret[ID_SIZE], struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct sandbox_doc d;
	char id[ID_SIZE];

	engine_sandbox_id(call_engine(c), given, &c->caller, id);
	if (view_read_visible(call_store(c), &sandbox_schema, call_visible_uid(c), "sandboxId", id, &text, &d, e) < 0)
		return -1;
	id_copy(ret, d.processId);
	return 0;
}

/* The run's owner is checked by cow_changes: the viewer's uid decides what exists. */
static int request_changes(struct call *c, enum change_op op, const char *process_id, const char *sandbox,
			   const json_t *given, struct err *e)
{
	char holder[ID_SIZE];
	buf_auto struct buf paths = BUF_INIT;
	struct cow_changes *changes = c->control->o.changes;

	if (!changes)
		return err_set(e, ERR_UNAVAILABLE, "this runtime does not serve copy-on-write runs");
	if (!process_id == !sandbox)
		return err_field(e, sandbox ? "sandboxId" : "processId", "give one of processId and sandboxId");
	if (sandbox && sandbox_holder(c, sandbox, holder, e) < 0)
		return -1;
	process_id = sandbox ? holder : process_id;
	if (read_paths(given, &paths, e) < 0)
		return -1;
	const struct change_request r = { op, process_id, call_visible_uid(c), paths };
	cow_changes_request(changes, &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_list_changes(struct call *c, const struct list_changes_params *p, struct buf *out, struct err *e)
{
	return request_changes(c, p->diffs.value ? CHANGE_OP_DIFF : CHANGE_OP_LIST, p->processId, p->sandboxId,
			       p->paths, e);
}

int method_apply_changes(struct call *c, const struct apply_changes_params *p, struct buf *out, struct err *e)
{
	return request_changes(c, CHANGE_OP_APPLY, p->processId, p->sandboxId, p->paths, e);
}

int method_undo_changes(struct call *c, const struct undo_changes_params *p, struct buf *out, struct err *e)
{
	return request_changes(c, CHANGE_OP_UNDO, p->processId, p->sandboxId, NULL, e);
}

int method_revert_autorun(struct call *c, const struct revert_autorun_params *p, struct buf *out, struct err *e)
{
	return request_changes(c, CHANGE_OP_REVERT, p->processId, NULL, p->paths, e);
}

int method_discard_changes(struct call *c, const struct discard_changes_params *p, struct buf *out, struct err *e)
{
	return request_changes(c, CHANGE_OP_DISCARD, p->processId, p->sandboxId, p->paths, e);
}
