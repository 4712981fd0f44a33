#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/ports.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/output_range.h"
#include "supervisor/control/yield.h"

#define READ_DEFAULT (64u * 1024)
#define REASON_MAX 256u
#define FOREVER_MS (1ull << 40) /* longer than any uptime: no limit at all */

static bool is_word(const char *given, const char *word) { return given && strcmp(given, word) == 0; }

/* ---- start_process ---- */

static void fail_unavailable(struct call *c, const struct err *e)
{
	static const char data[] =
		"\"retryable\":false,\"advice\":\"Leave the named parameter out; it is refused rather than "
		"ignored, so that nothing runs with less than was asked for.\"";

	call_fail_data(c, e, data, sizeof(data) - 1);
}

static void on_started(void *ctx, const struct err *e, const char *json, size_t len)
{
	if (e && e->code == ERR_UNAVAILABLE && e->field[0] && !json)
		fail_unavailable(ctx, e);
	else if (e)
		call_fail_data(ctx, e, json, json ? len : 0);
	else
		yield_reply(ctx, NULL, json, len);
}

void method_start_process(struct call *c, const struct start_process_params *p)
{
	start_spec_auto struct start_spec s = { 0 };
	struct err e = ERR_INIT;

	if (yield_check(c, &e) == 0 && start_spec_of(call_engine(c), c->params, &s, &e) == 0)
		engine_start_process(call_engine(c), &s.request, &c->caller, on_started, c);
	else if (e.code == ERR_UNAVAILABLE)
		fail_unavailable(c, &e);
	else
		call_fail(c, &e);
}

void method_get_sandbox(struct call *c, const struct get_sandbox_params *p)
{
	sandbox_spec_auto struct sandbox_spec s = { 0 };
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (sandbox_spec_of(c->params, &s, &e) == 0 &&
	    engine_show_sandbox(call_engine(c), &s.request, &c->caller, &out, &e) == 0)
		call_reply(c, out.data, out.len);
	else
		call_fail(c, &e);
}

/* ---- steering ---- */

/* A write that is answered with what the process prints next. */
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

void method_write_process_stdin(struct call *c, const struct write_process_stdin_params *p)
{
	buf_auto struct buf bytes = BUF_INIT;
	const json_t *data = call_obj(c, "data");
	const char *id = p->processId;
	struct err e = ERR_INIT;
	struct write *w;

	if (yield_check(c, &e) == 0 && !is_word(p->encoding, "base64"))
		buf_append(&bytes, json_string_value(data), json_string_length(data));
	else if (!e.code && text_base64_decode(json_string_value(data), json_string_length(data), &bytes) < 0)
		err_field(&e, "data", "is not base64");
	if (e.code) {
		call_fail(c, &e);
		return;
	}
	w = mem_zalloc(1, sizeof(*w));
	w->call = c;
	if (yield_wanted(c) && view_process(call_store(c), call_visible_uid(c), id, &w->before, &e) < 0)
		buf_reset(&w->before); /* the engine reports the error */
	engine_write_stdin(call_engine(c), id, buf_cstr(&bytes), bytes.len, &c->caller, on_written, w);
}

void method_close_process_stdin(struct call *c, const struct close_process_stdin_params *p)
{
	engine_close_stdin(call_engine(c), p->processId, &c->caller, call_engine_reply, c);
}

void method_close_process_output(struct call *c, const struct close_process_output_params *p)
{
	int stream = is_word(p->stream, "stderr") ? STREAM_STDERR : STREAM_STDOUT;

	engine_close_output(call_engine(c), p->processId, stream, &c->caller, call_engine_reply, c);
}

static void reply_size(struct call *c, const char *process_id, struct attachment_size size)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	jw_kstr(&w, "processId", process_id);
	jw_kuint(&w, "rows", size.rows);
	jw_kuint(&w, "cols", size.cols);
	jw_kuint(&w, "sequence", store_last_sequence(call_store(c)));
	jw_obj_end(&w);
	call_reply(c, out.data, out.len);
}

static enum attachment_policy policy_of(const char *word)
{
	if (is_word(word, "keep"))
		return ATTACHMENT_KEEP;
	return is_word(word, "smallest") ? ATTACHMENT_SMALLEST : ATTACHMENT_NEWEST;
}

/*
 * The size follows from all displays of the terminal (attachment.h). If it does not change, the reply is immediate and
 * no event is written.
 */
static void resize_shown(struct call *c, const struct resize_process_params *p, struct attachment_size size)
{
	struct attachments *all = &c->control->attachments;
	const char *id = p->processId;
	struct attachment_size now;
	struct err e = ERR_INIT;

	if (engine_terminal_size(call_engine(c), id, &c->caller, &now.rows, &now.cols, &e) == 0 &&
	    !attachment_put(all, id, &c->caller, size, policy_of(p->policy)))
		err_set(&e, ERR_EXHAUSTED, "this connection shows %u terminals already", ATTACHMENTS_MAX);
	if (e.code) {
		call_fail(c, &e);
		return;
	}
	if (!attachment_size(all, id, &size))
		size = now;
	if (size.rows == now.rows && size.cols == now.cols)
		reply_size(c, id, now);
	else
		engine_resize_process(call_engine(c), id, size.rows, size.cols, &c->caller, call_engine_reply, c);
}

void method_resize_process(struct call *c, const struct resize_process_params *p)
{
	struct attachment_size size = { 0 };
	struct err e = ERR_INIT;

	if (terminal_dimension_of(call_obj(c, "rows"), "rows", &size.rows, &e) < 0 ||
	    terminal_dimension_of(call_obj(c, "cols"), "cols", &size.cols, &e) < 0)
		call_fail(c, &e);
	else if (p->policy)
		resize_shown(c, p, size);
	else
		engine_resize_process(call_engine(c), p->processId, size.rows, size.cols, &c->caller, call_engine_reply,
				      c);
}

/* The signal's number; 0 = not given. */
static int signal_of(const char *name, struct err *e)
{
	int sig;

	if (!name)
		return 0;
	sig = text_signal_number(name);
	if (sig < 1 || sig > 64)
		return err_field(e, "signal", "no signal '%.40s'; give a name such as TERM or a number", name);
	return sig;
}

void method_signal_process(struct call *c, const struct signal_process_params *p)
{
	struct err e = ERR_INIT;
	int sig = signal_of(p->signal, &e);

	if (sig < 0)
		call_fail(c, &e);
	else
		engine_signal_process(call_engine(c), p->processId, sig, &c->caller, call_engine_reply, c);
}

void method_terminate_process(struct call *c, const struct terminate_process_params *p)
{
	uint64_t grace = param_uint_or(p->graceMs, LIMIT_NONE);
	const char *reason = p->reason;
	struct err e = ERR_INIT;
	int sig = signal_of(p->signal, &e);

	if (sig >= 0 && reason && !*reason)
		err_field(&e, "reason", "must not be empty");
	else if (sig >= 0 && grace != LIMIT_NONE && grace > 3600000)
		err_field(&e, "graceMs", "must be at most 3600000");
	else if (sig >= 0 && reason && strlen(reason) > REASON_MAX)
		err_field(&e, "reason", "must have at most %u bytes", REASON_MAX);
	if (e.code) {
		call_fail(c, &e);
		return;
	}
	engine_terminate_process(call_engine(c), p->processId, reason ? reason : "user", sig, grace, &c->caller,
				 call_engine_reply, c);
}

void method_wait_process(struct call *c, const struct wait_process_params *p)
{
	uint64_t timeout = param_uint_or(p->timeoutMs, LIMIT_NONE);

	engine_wait_process(call_engine(c), p->processId, timeout > FOREVER_MS ? LIMIT_NONE : timeout, &c->caller,
			    call_engine_reply, c);
}

/* ---- reading ---- */

void method_list_processes(struct call *c, const struct list_processes_params *p)
{
	struct view_process_query q = {
		.session_id = p->sessionId,
		.task_id = p->taskId,
		.status = p->status,
		.match = p->match,
		.live_only = p->liveOnly.value,
		.except = param_bool_or(p->helpers, true) ? NULL : engine_tool_program(call_engine(c)),
		.limit = param_page_limit(p->limit, 100),
		.cursor = p->cursor,
	};
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	call_reply_or_fail(c, view_processes(call_store(c), call_visible_uid(c), &q, &out, &e), &out, &e);
}

void method_get_process(struct call *c, const struct get_process_params *p)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	call_reply_or_fail(c, view_process(call_store(c), call_visible_uid(c), p->processId, &out, &e), &out, &e);
}

/* ---- read_output ---- */

static void fail_expired(struct call *c, const char *ref)
{
	static const char data[] =
		"\"category\":\"output_expired\",\"advice\":\"The bytes were removed by retention and are gone; "
		"the facts about them remain.\"";
	struct err e = ERR_INIT;

	err_set(&e, ERR_EXPIRED, "output '%s' has expired", ref);
	call_fail_data(c, &e, data, sizeof(data) - 1);
}

void method_read_output(struct call *c, const struct read_output_params *p)
{
	uint64_t length = param_uint_or(p->length, READ_DEFAULT);
	struct output_range o = {
		.ref = p->outputRef,
		.offset = p->offset.value,
		.length = (size_t)length,
		.base64 = is_word(p->encoding, "base64"),
	};
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	int r;

	if (length < 1 || length > OUTPUT_RANGE_MAX) {
		err_field(&e, "length", "must be 1 to %u", OUTPUT_RANGE_MAX);
		call_fail(c, &e);
		return;
	}
	r = output_range_write(call_store(c), call_visible_uid(c), &o, &out, &e);
	if (r == 0)
		call_reply(c, out.data, out.len);
	else if (e.code == ERR_EXPIRED)
		fail_expired(c, p->outputRef);
	else
		call_fail(c, &e);
}
