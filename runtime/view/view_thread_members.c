#include "runtime/view/view_thread_members.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/store/store.h"
#include "runtime/view/view_documents.h"
#include "runtime/view/view_page.h"

#define STEPS_SHOWN 100u
#define CALLS_SHOWN 30u
#define ACTIONS_SHOWN 50u

/* ---- steps ---- */

struct step_scan {
	struct buf *docs; /* newest first */
	size_t (*ends)[2];
	size_t n;
	bool more;
};

static bool on_step(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct step_scan *sc = ctx;

	if (sc->n == STEPS_SHOWN) {
		sc->more = true;
		return false;
	}
	sc->ends[sc->n][0] = sc->docs->len;
	buf_append(sc->docs, json, len);
	sc->ends[sc->n++][1] = len;
	return true;
}

int view_write_steps(struct store *s, const char *turn_id, struct jw *w, struct err *e)
{
	buf_auto struct buf docs = BUF_INIT;
	size_t ends[STEPS_SHOWN][2];
	char prefix[ID_SIZE + 2];
	struct step_scan sc = { .docs = &docs, .ends = ends };

	(void)snprintf(prefix, sizeof(prefix), "%s/", turn_id);
	if (store_model_scan(s, VIEW_TURN_STEP, prefix, NULL, true, on_step, &sc, e) < 0)
		return -1;
	jw_karr(w, "steps");
	for (size_t i = sc.n; i-- > 0;)
		jw_raw(w, docs.data + ends[i][0], ends[i][1]);
	jw_arr_end(w);
	if (sc.more)
		jw_kbool(w, "stepsTruncated", true);
	return 0;
}

/* ---- tool calls ---- */

static void write_document(struct store *s, enum view_kind kind, const char *id, struct jw *w)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;

	if (store_model_get(s, (uint8_t)kind, id, &doc, &e) == 0)
		jw_raw(w, doc.data, doc.len);
}

int view_write_tool_calls(struct store *s, const struct view_ids *turns, struct jw *w, struct err *e)
{
	size_t left = CALLS_SHOWN;

	jw_karr(w, "toolCalls");
	/* The newest turn first, its calls in order. */
	for (size_t i = 0; i < turns->n && left; i++) {
		view_ids_auto struct view_ids calls = VIEW_IDS_INIT;

		if (view_members(s, VIEW_TURN_TOOL_CALL, turns->id[i], VIEW_OLDEST_FIRST, left, &calls, e) < 0)
			return -1;
		for (size_t k = 0; k < calls.n; k++, left--)
			write_document(s, VIEW_TOOL_CALL, calls.id[k], w);
	}
	jw_arr_end(w);
	return 0;
}

/* ---- actions ---- */

static int write_actions(struct store *s, enum view_kind kind, const char *thread_id, const char *key, struct jw *w,
			 struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

	if (view_members(s, kind, thread_id, VIEW_NEWEST_FIRST, ACTIONS_SHOWN, &ids, e) < 0)
		return -1;
	jw_karr(w, key);
	for (size_t i = ids.n; i-- > 0;)
		write_document(s, VIEW_ACTION, ids.id[i], w);
	jw_arr_end(w);
	return 0;
}

int view_write_actions(struct store *s, const char *thread_id, struct jw *w, struct err *e)
{
	if (write_actions(s, VIEW_OPEN_ACTION, thread_id, "pendingRequests", w, e) < 0)
		return -1;
	return write_actions(s, VIEW_THREAD_ACTION, thread_id, "actions", w, e);
}

static bool action_matches(const void *query, const void *doc)
{
	const struct view_action_query *q = query;
	const struct action_doc *d = doc;

	return view_is(q->status, d->status) && view_is(q->session_id, d->sessionId) &&
	       view_is(q->thread_id, d->threadId) && view_is(q->turn_id, d->turnId) && view_is(q->task_id, d->taskId);
}

int view_actions(struct store *s, uint32_t uid, const struct view_action_query *q, struct buf *out, struct err *e)
{
	static const struct view_list list = { "actions", &action_schema, .matches = action_matches };

	return view_page_write(&list, s, uid, q->limit, q->cursor, q, out, e);
}

/* ---- the queue ---- */

static int write_queued(struct store *s, const struct queue_doc *d, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	size_t position = 0;

	for (struct jiter it = jiter_on(d->order); jiter_next(&it);) {
		char id[ID_SIZE] = "";
		struct turn_doc t;

		view_copy_string(id, it.value);
		int r = view_read(s, &turn_schema, id, &text, &t, e);
		if (r < 0)
			return -1;
		jw_obj(w);
		jw_kstr(w, "queuedTurnId", id);
		jw_kstr(w, "turnId", id);
		jw_kuint(w, "position", position++);
		if (r == 0) {
			jw_kstr(w, "status", t.status);
			if (t.preview.type == JT_STRING)
				jw_kraw(w, "preview", t.preview.text, t.preview.len);
		}
		jw_obj_end(w);
	}
	return 0;
}

int view_write_queue(struct store *s, const char *thread_id, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct queue_doc d;
	int r = view_read(s, &queue_schema, thread_id, &text, &d, e);

	if (r < 0)
		return -1;
	jw_karr(w, "queuedTurns");
	if (r == 0 && write_queued(s, &d, w, e) < 0)
		return -1;
	jw_arr_end(w);
	if (r == 0)
		jw_kstr(w, "resumeState", d.resumeState[0] ? d.resumeState : "running");
	return 0;
}

int view_queue_snapshot(struct store *s, uint32_t uid, const char *thread_id, struct buf *out, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct thread_doc t;

	if (view_read_visible(s, &thread_schema, uid, "thread", thread_id, &text, &t, e) < 0)
		return -1;
	jw_obj(&w);
	view_write_members(&w, &thread_schema, &t, "threadId sessionId status activeTurnId");
	if (view_write_queue(s, thread_id, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}
