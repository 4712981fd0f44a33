/*
 * Reading processes and sessions, and what recovery and retention start from.
 *
 * Each document is read in a short transaction of its own. A process's document is read before those of its outputs,
 * so an ended process is never shown with outputs from before its end.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/event/id.h"
#include "runtime/store/store.h"
#include "runtime/view/view_documents.h"
#include "runtime/view/view_page.h"
#include "runtime/view/view_search.h"
#include "runtime/view/view_write.h"

/* ---- one process ---- */

/* The stored preview is bytes; JSON needs whole characters. */
static int write_preview(struct store *s, const struct output_doc *o, const char *ref, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, bytes = BUF_INIT, base64 = BUF_INIT;
	struct preview_doc d;
	size_t cut;

	if (view_read(s, &preview_schema, ref, &text, &d, e) < 0)
		return -1;
	if (text.len) {
		jval_str_buf(d.base64, &base64);
		if (text_base64_decode(buf_cstr(&base64), base64.len, &bytes) < 0)
			buf_reset(&bytes);
	}
	/* An incomplete last character is left out, unless the stream has ended there. */
	cut = o->ended && bytes.len == o->bytes ? bytes.len : text_utf8_cut(buf_cstr(&bytes), bytes.len);
	jw_kstrn(w, "preview", buf_cstr(&bytes), cut);
	return 0;
}

static int write_output(struct store *s, const char *ref, bool preview, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct output_doc d;
	int r = view_read(s, &output_schema, ref, &text, &d, e);

	if (r < 0)
		return -1;
	if (r > 0)
		view_clear(&output_schema, &d);
	jw_obj(w);
	jw_kstr(w, "outputRef", ref);
	jw_kuint(w, "bytes", view_counted(d.bytes));
	jw_kbool(w, "truncated", d.truncated);
	view_write_members(w, &output_schema, &d, "omittedBytes omittedFrom omittedTo expired");
	if (preview && write_preview(s, &d, ref, w, e) < 0)
		return -1;
	jw_obj_end(w);
	return 0;
}

/* `"outputs":{…}` */
static int write_outputs(struct store *s, const struct process_doc *d, bool preview, struct jw *w, struct err *e)
{
	jw_kobj(w, "outputs");
	for (struct jiter it = jiter_on(d->outputRefs); jiter_next(&it);) {
		char ref[ID_SIZE] = "", stream[ID_SIZE] = "";

		view_copy_string(ref, jval_get(it.value, "outputRef"));
		view_copy_string(stream, jval_get(it.value, "stream"));
		if (!*ref || !*stream)
			continue;
		jw_key(w, stream);
		if (write_output(s, ref, preview, w, e) < 0)
			return -1;
	}
	jw_obj_end(w);
	return 0;
}

/* `"violations":[…]`, and their number */
static int write_violations(struct store *s, const char *process_id, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct violation_doc d;
	int r = view_read(s, &violation_schema, process_id, &text, &d, e);

	if (r < 0)
		return -1;
	jw_key(w, "violations");
	if (r == 0 && d.violations.type == JT_ARRAY)
		jw_raw(w, d.violations.text, d.violations.len);
	else
		jw_raw(w, "[]", 2);
	if (r == 0)
		jw_kuint(w, "violationCount", d.violationCount);
	return 0;
}

uint64_t view_violation_count(struct store *s, const char *process_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct violation_doc d;
	struct err e = ERR_INIT;

	return view_read(s, &violation_schema, process_id, &text, &d, &e) == 0 ? d.violationCount : 0;
}

/* The stored document with its outputs and violations. */
static int write_process(struct store *s, const struct buf *text, const struct process_doc *d, bool preview,
			 struct jw *w, struct err *e)
{
	view_write_stored(w, text);
	if (write_outputs(s, d, preview, w, e) < 0 || write_violations(s, d->processId, w, e) < 0)
		return -1;
	jw_obj_end(w);
	return 0;
}

int view_process(struct store *s, uint32_t uid, const char *process_id, struct buf *out, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct process_doc d;

	if (view_read_visible(s, &process_schema, uid, "processId", process_id, &text, &d, e) < 0 ||
	    write_process(s, &text, &d, true, &w, e) < 0)
		return -1;
	buf_append(out, whole.data, whole.len);
	return 0;
}

int view_wait_brief(struct store *s, uint32_t uid, const char *process_id, struct buf *out, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct process_doc d;

	if (view_read_visible(s, &process_schema, uid, "processId", process_id, &text, &d, e) < 0)
		return -1;
	jw_obj(&w);
	view_write_members(&w, &process_schema, &d, "status exitCode signal durationMs");
	if (!d.endedAt)
		view_write_members(&w, &process_schema, &d, "commandExited");
	if (write_outputs(s, &d, false, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

/* A waiter that timed out gets the current state, with timedOut set. */
int view_wait_result(struct store *s, uint32_t uid, const char *process_id, bool timed_out, struct buf *out,
		     struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct process_doc d;

	if (view_read_visible(s, &process_schema, uid, "processId", process_id, &text, &d, e) < 0)
		return -1;
	jw_obj(&w);
	view_write_members(&w, &process_schema, &d, "processId status statusReason exitCode signal durationMs");
	if (!d.endedAt)
		view_write_members(&w, &process_schema, &d, "commandExited");
	jw_kbool(&w, "timedOut", timed_out);
	view_write_members(&w, &process_schema, &d, "category stage errnoName limit message");
	if (write_outputs(s, &d, true, &w, e) < 0)
		return -1;
	view_write_members(&w, &process_schema, &d, "usage");
	if (write_violations(s, d.processId, &w, e) < 0)
		return -1;
	view_write_members(&w, &process_schema, &d, "benignRefusals network autorun cow sessionId threadId turnId");
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

/* ---- lists ---- */

bool view_process_is_helper(const struct process_doc *d, const char *program)
{
	struct jiter words = jiter_on(d->command);

	return jval_is_str(jval_get(d->owner, "kind"), "model") || jval_is_str(jval_get(d->owner, "kind"), "context") ||
	       (jiter_next(&words) && jval_is_str(words.value, program));
}

static bool process_matches(const void *query, const void *doc)
{
	const struct view_process_query *q = query;
	const struct process_doc *d = doc;

	return view_is(q->session_id, d->sessionId) && view_is(q->task_id, d->taskId) &&
	       view_is(q->sandbox_id, d->sandboxId) && (q->holders || !process_doc_holds(d)) &&
	       view_is(q->status, d->status) && !(q->live_only && process_doc_ended(d)) &&
	       (!q->cow || jval_bool(d->cow, false)) && !(q->held && !process_doc_ended(d)) &&
	       !(q->except && view_process_is_helper(d, q->except));
}

int view_write_listed_process(struct view_page *p, const void *doc, struct err *e)
{
	return write_process(p->store, &p->text, doc, false, &p->w, e);
}

/* Chooses the shortest list that contains all candidates. */
static int find_processes(struct view_page *p, struct err *e)
{
	const struct view_process_query *q = p->query;

	if (q->match)
		return view_page_find_match(p, "proc_", q->match, e);
	if (q->live_only || (q->status && strcmp(q->status, "running") == 0))
		return view_page_scan(p, VIEW_PAGE_QUERY(VIEW_LIVE_PROCESS), "", e);
	if (q->held)
		return view_page_scan(p, VIEW_PAGE_QUERY(VIEW_COW_PROCESS), "", e);
	if (q->session_id)
		return view_page_scan_list(p, VIEW_SESSION_PROCESS, q->session_id, e);
	if (q->sandbox_id)
		return view_page_scan_list(p, VIEW_SANDBOX_PROCESS, q->sandbox_id, e);
	return view_page_scan(p, VIEW_PAGE_QUERY(VIEW_PROCESS), "", e);
}

static int check_id(const char *text, const char *field, struct err *e)
{
	if (text && !id_valid(text, strlen(text)))
		return err_field(e, field, "not an id: 1 to %d of A-Z a-z 0-9 _ - . :", ID_GIVEN_MAX);
	return 0;
}

int view_processes(struct store *s, uint32_t uid, const struct view_process_query *q, struct buf *out, struct err *e)
{
	static const struct view_list list = { "processes", &process_schema, .matches = process_matches,
					       .find = find_processes, .write = view_write_listed_process };

	if (check_id(q->match, "match", e) < 0 || check_id(q->session_id, "sessionId", e) < 0 ||
	    check_id(q->sandbox_id, "sandboxId", e) < 0)
		return -1;
	return view_page_write(&list, s, uid, q->limit, q->cursor, q, out, e);
}

int view_sessions(struct store *s, uint32_t uid, unsigned limit, const char *cursor, struct buf *out, struct err *e)
{
	static const struct view_list list = { "sessions", &session_schema };
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	const int found = cursor ? view_read(s, &session_schema, cursor, &text, &d, e) : 0;

	/* The last session of a page may belong to another user. */
	if (found < 0)
		return -1;
	if (found > 0)
		return err_field(e, "cursor", "no session has this id now: list again without a cursor");
	return view_page_write(&list, s, uid, limit, cursor, NULL, out, e);
}

/* ---- recovery and retention ---- */

/* Calls `each` for every id of a kind: it reads the document and passes it on. 0, 1 = asked to stop, −1. */
static int each_live(struct store *s, enum view_kind kind,
		     int (*each)(struct store *s, const char *id, view_each_fn fn, void *ctx, struct err *e),
		     view_each_fn fn, void *ctx, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	char after[VIEW_KEY_MAX];
	struct view_ids_query q = { .kind = kind, .max = VIEW_PAGE_IDS };
	int more;

	do {
		more = view_ids(s, &q, &ids, after, e);
		if (more < 0)
			return -1;
		for (size_t i = 0; i < ids.n; i++) {
			int r = each(s, ids.id[i], fn, ctx, e);

			if (r)
				return r < 0 ? -1 : 0;
		}
		q.after = after;
	} while (more);
	return 0;
}

static int each_process(struct store *s, const char *id, view_each_fn fn, void *ctx, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct process_doc d;
	int r = view_read(s, &process_schema, id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (write_process(s, &text, &d, false, &w, e) < 0)
		return -1;
	return fn(ctx, id, whole.data, whole.len) ? 0 : 1;
}

int view_live_processes(struct store *s, view_each_fn fn, void *ctx, struct err *e)
{
	return each_live(s, VIEW_LIVE_PROCESS, each_process, fn, ctx, e);
}

static int each_turn(struct store *s, const char *id, view_each_fn fn, void *ctx, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	int r = store_model_get(s, VIEW_TURN, id, &text, e);

	if (r)
		return r < 0 ? -1 : 0;
	return fn(ctx, id, text.data, text.len) ? 0 : 1;
}

int view_live_turns(struct store *s, view_each_fn fn, void *ctx, struct err *e)
{
	return each_live(s, VIEW_LIVE_TURN, each_turn, fn, ctx, e);
}

#define COW_MAX 1000000u
#define DIFFS_MAX 1000u /* more than one run produces */

typedef bool (*expirable_fn)(void *ctx, const struct view_expirable *x);

/* Passes on one output unless it has expired. 0, 1 = asked to stop, −1. */
static int pass_output(struct store *s, const struct process_doc *d, const char *ref, expirable_fn fn, void *ctx,
		       struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct view_expirable x = { .uid = (uint32_t)d->uid };
	struct output_doc o;
	int r = *ref ? view_read(s, &output_schema, ref, &text, &o, e) : 1;

	if (r || o.expired)
		return r < 0 ? -1 : 0;
	id_copy(x.output_ref, ref);
	id_copy(x.process_id, d->processId);
	id_copy(x.session_id, d->sessionId);
	id_copy(x.thread_id, d->threadId);
	id_copy(x.turn_id, d->turnId);
	id_copy(x.task_id, d->taskId);
	x.bytes = view_counted(o.bytes);
	return fn(ctx, &x) ? 0 : 1;
}

static int pass_json_output(struct store *s, const struct process_doc *d, struct jval v, expirable_fn fn, void *ctx,
			    struct err *e)
{
	char ref[ID_SIZE] = "";

	view_copy_string(ref, v);
	return pass_output(s, d, ref, fn, ctx, e);
}

/* 0 = passed on, 1 = asked to stop, 2 = the process ended at the floor or later. */
static int pass_outputs(struct store *s, const char *process_id, uint64_t floor, expirable_fn fn, void *ctx,
			struct err *e)
{
	view_ids_auto struct view_ids diffs = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct process_doc d;
	int r = view_read(s, &process_schema, process_id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	/* The list is in the order of ends, so no later process is below the floor either: the caller stops. */
	if (d.endSequence >= floor)
		return 2;
	r = pass_json_output(s, &d, d.commandRef, fn, ctx, e);
	for (struct jiter it = jiter_on(d.outputRefs); r == 0 && jiter_next(&it);)
		r = pass_json_output(s, &d, jval_get(it.value, "outputRef"), fn, ctx, e);
	if (r == 0 && view_members(s, VIEW_PROCESS_DIFF, d.processId, VIEW_OLDEST_FIRST, DIFFS_MAX, &diffs, e) < 0)
		return -1;
	for (size_t i = 0; r == 0 && i < diffs.n; i++)
		r = pass_output(s, &d, diffs.id[i], fn, ctx, e);
	return r;
}

/* In the order in which the processes ended. */
int view_expirable_outputs(struct store *s, uint64_t floor, const char *after, unsigned limit, expirable_fn fn,
			   void *ctx, char *ret_last, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	struct view_ids_query q = { .kind = VIEW_ENDED_PROCESS, .after = after, .max = limit };
	int more = view_ids(s, &q, &ids, ret_last, e);

	for (size_t i = 0; more >= 0 && i < ids.n; i++) {
		int r = pass_outputs(s, ids.id[i], floor, fn, ctx, e);

		if (r < 0 && e->code == ERR_CORRUPT) {
			*e = ERR_INIT; /* the store has reported it (damage.c) */
			continue;
		}
		if (r)
			return r < 0 ? -1 : 0;
	}
	return more;
}

/* Collected first: fn may discard the changes, which changes the list. 1: fn has ended it. */
static int each_kept(struct store *s, enum view_kind kind, uint64_t floor,
		     bool (*fn)(void *ctx, const char *process_id), void *ctx, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	struct view_ids_query q = { .kind = kind, .max = COW_MAX };

	if (view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < ids.n; i++) {
		struct view_process_brief b;
		buf_auto struct buf listed = BUF_INIT;
		int r = floor ? view_process_brief(s, VIEW_ANY_UID, ids.id[i], &b, e) : 1;

		if (r < 0)
			return -1;
		if (r == 0 && (!b.ended || b.end_sequence >= floor))
			continue;
		if (kind == VIEW_UNDO_PROCESS && store_model_get(s, VIEW_COW_PROCESS, ids.id[i], &listed, e) == 0)
			continue;
		if (!fn(ctx, ids.id[i]))
			return 1;
	}
	return 0;
}

int view_cow_processes(struct store *s, uint64_t floor, bool (*fn)(void *ctx, const char *process_id), void *ctx,
		       struct err *e)
{
	int r = each_kept(s, VIEW_COW_PROCESS, floor, fn, ctx, e);

	if (r == 0)
		r = each_kept(s, VIEW_UNDO_PROCESS, floor, fn, ctx, e);
	return r < 0 ? -1 : 0;
}

/* A few members of one document, for decisions of the engine and the control socket. */

/* Speculative: a session that was created by the previous request counts already. */
int view_session_brief(struct store *s, uint32_t uid, const char *session_id, struct view_session_brief *ret,
		       struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	int r = view_read_speculative(s, &session_schema, session_id, &text, &d, e);

	if (r || !view_is_visible(&session_schema, &d, uid))
		return r < 0 ? -1 : 1;
	*ret = (struct view_session_brief){ .uid = (uint32_t)d.uid };
	id_copy(ret->first_thread, d.firstThreadId);
	id_copy(ret->system_turn, d.systemTurnId);
	return 0;
}

/* Speculative, like the session and the turn: decisions take submitted batches into account. */
int view_thread_brief(struct store *s, uint32_t uid, const char *thread_id, struct view_thread_brief *ret,
		      struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct thread_doc d;
	int r = view_read_speculative(s, &thread_schema, thread_id, &text, &d, e);

	if (r || !view_is_visible(&thread_schema, &d, uid))
		return r < 0 ? -1 : 1;
	*ret = (struct view_thread_brief){ .uid = (uint32_t)d.uid };
	id_copy(ret->session_id, d.sessionId);
	id_copy(ret->active_turn, d.activeTurnId);
	(void)snprintf(ret->status, sizeof(ret->status), "%.15s", d.status);
	return 0;
}

int view_turn_brief(struct store *s, uint32_t uid, const char *turn_id, struct view_turn_brief *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc d;
	int r = view_read_speculative(s, &turn_schema, turn_id, &text, &d, e);

	if (r || !view_is_visible(&turn_schema, &d, uid))
		return r < 0 ? -1 : 1;
	*ret = (struct view_turn_brief){
		.uid = (uint32_t)d.uid,
		.started = d.startedAt || jval_is_str(d.source, "system"),
		.ending = d.ending.type == JT_OBJECT,
		.ended = d.completedAt != 0,
	};
	id_copy(ret->session_id, d.sessionId);
	id_copy(ret->thread_id, d.threadId);
	id_copy(ret->task_id, d.taskId);
	return 0;
}

/* Not speculative: process documents are projected at the commit only, since they record the sequence of the end. */
int view_process_brief(struct store *s, uint32_t uid, const char *process_id, struct view_process_brief *ret,
		       struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct process_doc d;
	int r = view_read(s, &process_schema, process_id, &text, &d, e);

	if (r || !view_is_visible(&process_schema, &d, uid))
		return r < 0 ? -1 : 1;
	*ret = (struct view_process_brief){ .uid = (uint32_t)d.uid,
					    .cow = jval_bool(d.cow, false),
					    .started = d.startedAt != 0,
					    .ended = process_doc_ended(&d) };
	ret->end_sequence = view_counted(d.endSequence);
	id_copy(ret->session_id, d.sessionId);
	id_copy(ret->thread_id, d.threadId);
	id_copy(ret->turn_id, d.turnId);
	id_copy(ret->task_id, d.taskId);
	id_copy(ret->tool_call_id, d.toolCallId);
	jval_str(d.within, ret->within, sizeof ret->within);
	if (process_doc_holds(&d))
		jval_str(jval_get(d.owner, "id"), ret->holds, sizeof ret->holds);
	return 0;
}

int view_output_brief(struct store *s, uint32_t uid, const char *output_ref, struct view_output_brief *ret,
		      struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct output_doc d;
	int r = view_read(s, &output_schema, output_ref, &text, &d, e);

	if (r || !view_is_visible(&output_schema, &d, uid))
		return r < 0 ? -1 : 1;
	*ret = (struct view_output_brief){
		.uid = (uint32_t)d.uid,
		.bytes = view_counted(d.bytes),
		.omitted_from = view_counted(d.omittedFrom),
		.omitted_to = view_counted(d.omittedTo),
		.spilled = d.spilled,
		.expired = d.expired,
		.ended = d.ended,
	};
	id_copy(ret->process_id, d.processId);
	return 0;
}

int view_system_ids(struct store *s, char session[72], char thread[72], char turn[72], struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct view_session_brief b;
	struct runtime_doc d;
	int r = view_read(s, &runtime_schema, VIEW_RUNTIME_ID, &text, &d, e);

	if (r == 0 && !d.systemSessionId[0])
		r = 1;
	if (r == 0)
		r = view_session_brief(s, VIEW_ANY_UID, d.systemSessionId, &b, e);
	if (r)
		return r < 0 ? -1 : 1;
	id_copy(session, d.systemSessionId);
	id_copy(thread, b.first_thread);
	id_copy(turn, b.system_turn);
	return 0;
}
