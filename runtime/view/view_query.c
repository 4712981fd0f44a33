/*
 * Reading the models: what list_* and get_* answer, and what the engine asks before it acts.
 *
 * Each document is read in a short transaction of its own. A process's document is read before those of its outputs,
 * so an ended process is never shown with outputs from before its end.
 */

#include "runtime/view/view_documents.h"
#include "runtime/view/view_page.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/event/id.h"
#include "runtime/store/store.h"

static bool visible(uint32_t uid, uint64_t owner) { return uid == VIEW_ANY_UID || owner == uid; }

static int not_found(struct err *e, const char *what, const char *id)
{
	return err_set(e, ERR_NOT_FOUND, "no %s '%.80s'", what, id);
}

/* ---- one process ---- */

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
	/* A character that is cut off is left out, unless nothing more of it will come. */
	cut = o->ended && bytes.len == o->bytes ? bytes.len : text_utf8_cut(buf_cstr(&bytes), bytes.len);
	jw_kstrn(w, "preview", buf_cstr(&bytes), cut);
	return 0;
}

static void write_unless_absent(struct jw *w, const char *key, uint64_t v)
{
	if (v != VIEW_ABSENT)
		jw_kuint(w, key, v);
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
	jw_kuint(w, "bytes", d.bytes == VIEW_ABSENT ? 0 : d.bytes);
	jw_kbool(w, "truncated", d.truncated);
	write_unless_absent(w, "omittedBytes", d.omittedBytes);
	write_unless_absent(w, "omittedFrom", d.omittedFrom);
	write_unless_absent(w, "omittedTo", d.omittedTo);
	if (d.expired)
		jw_kbool(w, "expired", true);
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
		char ref[VIEW_ID_MAX] = "", stream[VIEW_ID_MAX] = "";

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

/* `"violations":[…]`, and how many refusals they are */
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

/* The kept document and what is joined to it. */
static int write_process(struct store *s, const struct buf *text, const struct process_doc *d, bool preview,
			 struct buf *out, struct err *e)
{
	struct jw w = jw_on(out);

	buf_append(out, text->data, text->len - 1); /* without its closing brace */
	w.need_comma = true;
	if (write_outputs(s, d, preview, &w, e) < 0)
		return -1;
	if (write_violations(s, d->processId, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	return 0;
}

static int read_process(struct store *s, uint32_t uid, const char *id, struct buf *text, struct process_doc *d,
			struct err *e)
{
	int r = view_read(s, &process_schema, id, text, d, e);

	if (r < 0)
		return -1;
	if (r > 0 || !visible(uid, d->uid))
		return not_found(e, "process", id);
	return 0;
}

int view_process(struct store *s, uint32_t uid, const char *process_id, struct buf *out, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct process_doc d;

	if (read_process(s, uid, process_id, &text, &d, e) < 0 || write_process(s, &text, &d, true, &whole, e) < 0)
		return -1;
	buf_append(out, whole.data, whole.len);
	return 0;
}

static void copy_json(struct jw *w, const char *key, struct jval v)
{
	if (v.type != JT_NONE)
		jw_kraw(w, key, v.text, v.len);
}

int view_wait_result(struct store *s, uint32_t uid, const char *process_id, bool timed_out, struct buf *out,
		     struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct process_doc d;

	if (read_process(s, uid, process_id, &text, &d, e) < 0)
		return -1;
	jw_obj(&w);
	jw_kstr(&w, "processId", d.processId);
	jw_kstr(&w, "status", d.status);
	if (d.statusReason[0])
		jw_kstr(&w, "statusReason", d.statusReason);
	copy_json(&w, "exitCode", d.exitCode);
	copy_json(&w, "signal", d.signal);
	copy_json(&w, "durationMs", d.durationMs);
	jw_kbool(&w, "timedOut", timed_out);
	copy_json(&w, "category", d.category);
	copy_json(&w, "stage", d.stage);
	copy_json(&w, "errnoName", d.errnoName);
	copy_json(&w, "limit", d.limit);
	copy_json(&w, "message", d.message);
	if (write_outputs(s, &d, true, &w, e) < 0)
		return -1;
	copy_json(&w, "usage", d.usage);
	if (write_violations(s, d.processId, &w, e) < 0)
		return -1;
	copy_json(&w, "benignRefusals", d.benignRefusals);
	copy_json(&w, "network", d.network);
	copy_json(&w, "autorun", d.autorun);
	copy_json(&w, "cow", d.cow);
	jw_kstr(&w, "sessionId", d.sessionId);
	jw_kstr(&w, "threadId", d.threadId);
	jw_kstr(&w, "turnId", d.turnId);
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

/* ---- lists ---- */

struct process_list {
	uint32_t uid;
	const struct view_process_query *query;
	struct buf text;
};

static bool runs_program(const struct process_doc *d, const char *program)
{
	struct jiter words = jiter_on(d->command);

	return jiter_next(&words) && jval_is_str(words.value, program);
}

static bool wanted(const struct process_list *l, const struct process_doc *d)
{
	const struct view_process_query *q = l->query;

	return visible(l->uid, d->uid) && (!q->session_id || strcmp(q->session_id, d->sessionId) == 0) &&
	       (!q->task_id || strcmp(q->task_id, d->taskId) == 0) &&
	       (!q->status || strcmp(q->status, d->status) == 0) && !(q->live_only && process_doc_ended(d)) &&
	       !(q->except && runs_program(d, q->except));
}

static int give_process(struct view_page *p, void *ctx, const char *id, struct err *e)
{
	struct process_list *l = ctx;
	struct process_doc d;
	int r = view_read(p->store, &process_schema, id, &l->text, &d, e);

	if (r != 0 || !wanted(l, &d))
		return r < 0 ? -1 : 0;
	if (p->w.need_comma)
		buf_byte(p->w.buf, ',');
	p->w.need_comma = true;
	return write_process(p->store, &l->text, &d, false, p->w.buf, e) < 0 ? -1 : 1;
}

/* Chooses the shortest list that holds everything asked for. */
static int find_processes(struct view_page *p, const struct view_process_query *q, struct err *e)
{
	struct view_ids_query ids = { .kind = VIEW_PROCESS, .descending = true, .max = VIEW_PAGE_IDS };
	char prefix[VIEW_KEY_MAX];

	if (q->match) {
		size_t n = strlen(q->match);

		(void)snprintf(prefix, sizeof(prefix), "%s%s",
			       strncmp(q->match, "proc_", n < 5 ? n : 5) == 0 ? "" : "proc_", q->match);
		ids.prefix = prefix;
		if (view_page_scan(p, ids, "", e) < 0)
			return -1;
		if (p->found || p->more || n < 4)
			return 0;
		ids.prefix = NULL;
		ids.ending = q->match;
		ids.max_seen = VIEW_PAGE_SEEN_IDS;
		return view_page_scan(p, ids, "", e);
	}
	if (q->live_only || (q->status && strcmp(q->status, "running") == 0)) {
		ids.kind = VIEW_LIVE_PROCESS;
		return view_page_scan(p, ids, "", e);
	}
	if (q->session_id) {
		(void)snprintf(prefix, sizeof(prefix), "%s/", q->session_id);
		ids.kind = VIEW_SESSION_PROCESS;
		ids.prefix = prefix;
		return view_page_scan(p, ids, prefix, e);
	}
	return view_page_scan(p, ids, "", e);
}

static int check_id(const char *text, const char *field, struct err *e)
{
	if (text && !id_valid(text, strlen(text)))
		return err_field(e, field, "not an id: 1 to %d of A-Z a-z 0-9 _ - . :", ID_GIVEN_MAX);
	return 0;
}

int view_processes(struct store *s, uint32_t uid, const struct view_process_query *q, struct buf *out, struct err *e)
{
	struct process_list l = { .uid = uid, .query = q };
	struct view_page p = { .store = s, .limit = q->limit, .cursor = q->cursor, .give = give_process, .ctx = &l };
	buf_auto struct buf whole = BUF_INIT;

	if (view_page_check(q->limit, q->cursor, e) < 0 || check_id(q->match, "match", e) < 0 ||
	    check_id(q->session_id, "sessionId", e) < 0)
		return -1;
	view_page_begin(&p, "processes", &whole);
	int r = find_processes(&p, q, e);
	buf_done(&l.text);
	if (r < 0)
		return -1;
	view_page_end(&p);
	buf_append(out, whole.data, whole.len);
	return 0;
}

struct session_list {
	uint32_t uid;
	struct buf text;
};

static int give_session(struct view_page *p, void *ctx, const char *id, struct err *e)
{
	struct session_list *l = ctx;
	struct session_doc d;
	int r = view_read(p->store, &session_schema, id, &l->text, &d, e);

	if (r != 0 || !visible(l->uid, d.uid))
		return r < 0 ? -1 : 0;
	jw_raw(&p->w, l->text.data, l->text.len);
	return 1;
}

int view_sessions(struct store *s, uint32_t uid, unsigned limit, const char *cursor, struct buf *out, struct err *e)
{
	const struct view_ids_query q = { .kind = VIEW_SESSION, .descending = true, .max = VIEW_PAGE_IDS };
	struct session_list l = { .uid = uid };
	struct view_page p = { .store = s, .limit = limit, .cursor = cursor, .give = give_session, .ctx = &l };
	buf_auto struct buf whole = BUF_INIT;

	if (view_page_check(limit, cursor, e) < 0)
		return -1;
	view_page_begin(&p, "sessions", &whole);
	int r = view_page_scan(&p, q, "", e);
	buf_done(&l.text);
	if (r < 0)
		return -1;
	view_page_end(&p);
	buf_append(out, whole.data, whole.len);
	return 0;
}

/* ---- recovery and retention ---- */

/* Every id of a kind, in pages; `each` reads the document and passes it on. 0, 1 = asked to stop, −1. */
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
	struct process_doc d;
	int r = view_read(s, &process_schema, id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (write_process(s, &text, &d, false, &whole, e) < 0)
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
#define DIFFS_MAX 1000u /* more than one run leaves */

typedef bool (*expirable_fn)(void *ctx, const struct view_expirable *x);

static int expirable_one(struct store *s, const struct process_doc *d, struct jval ref, expirable_fn fn, void *ctx,
			 struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct view_expirable x = { .uid = (uint32_t)d->uid };
	struct output_doc o;
	int r;

	view_copy_string(x.output_ref, ref);
	if (!x.output_ref[0])
		return 0;
	r = view_read(s, &output_schema, x.output_ref, &text, &o, e);
	if (r < 0)
		return -1;
	if (r > 0 || o.expired)
		return 0;
	view_set_string(x.process_id, d->processId);
	view_set_string(x.session_id, d->sessionId);
	view_set_string(x.thread_id, d->threadId);
	view_set_string(x.turn_id, d->turnId);
	view_set_string(x.task_id, d->taskId);
	x.bytes = o.bytes == VIEW_ABSENT ? 0 : o.bytes;
	return fn(ctx, &x) ? 0 : 1;
}

static int expirable_diffs(struct store *s, const struct process_doc *d, expirable_fn fn, void *ctx, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf json = BUF_INIT;
	char prefix[VIEW_ID_MAX + 2];
	int r = 0;

	(void)snprintf(prefix, sizeof(prefix), "%s/", d->processId);
	struct view_ids_query q = { .kind = VIEW_PROCESS_DIFF, .prefix = prefix, .max = DIFFS_MAX };
	if (view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	for (size_t i = 0; r == 0 && i < ids.n; i++) {
		struct jw w = jw_on(&json);

		buf_reset(&json);
		jw_str(&w, ids.id[i]);
		r = expirable_one(s, d, jval_of(json.data, json.len), fn, ctx, e);
	}
	return r;
}

/* 0 = passed on, 1 = asked to stop, 2 = the process ended at the floor or later. */
static int expirable_of(struct store *s, const char *process_id, uint64_t floor, expirable_fn fn, void *ctx,
			struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct process_doc d;
	int r = view_read(s, &process_schema, process_id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (d.endSequence >= floor)
		return 2;
	r = expirable_one(s, &d, d.commandRef, fn, ctx, e);
	for (struct jiter it = jiter_on(d.outputRefs); r == 0 && jiter_next(&it);)
		r = expirable_one(s, &d, jval_get(it.value, "outputRef"), fn, ctx, e);
	return r ? r : expirable_diffs(s, &d, fn, ctx, e);
}

int view_expirable_outputs(struct store *s, uint64_t floor, unsigned limit, expirable_fn fn, void *ctx, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	struct view_ids_query q = { .kind = VIEW_ENDED_PROCESS, .max = limit };

	if (view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < ids.n; i++) {
		int r = expirable_of(s, ids.id[i], floor, fn, ctx, e);

		if (r)
			return r < 0 ? -1 : 0;
	}
	return 0;
}

int view_cow_processes(struct store *s, uint64_t floor, bool (*fn)(void *ctx, const char *process_id), void *ctx,
		       struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	struct view_ids_query q = { .kind = VIEW_COW_PROCESS, .max = COW_MAX };

	if (view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < ids.n; i++) {
		struct view_process_brief b;
		int r = floor ? view_process_brief(s, VIEW_ANY_UID, ids.id[i], &b, e) : 1;

		if (r < 0)
			return -1;
		if (r == 0 && (!b.ended || b.end_sequence >= floor))
			continue;
		if (!fn(ctx, ids.id[i]))
			break;
	}
	return 0;
}
