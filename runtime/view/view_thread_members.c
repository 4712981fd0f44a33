#include "runtime/view/view_thread_members.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/event/id.h"
#include "runtime/store/store.h"
#include "runtime/view/view_documents.h"

#define STEPS_SHOWN 100u
#define CALLS_SHOWN 30u
#define ACTIONS_SHOWN 50u
#define ACTIONS_LOOKED_AT 10000u

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
	char prefix[VIEW_ID_MAX + 2];
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

static void raw_document(struct store *s, enum view_kind kind, const char *id, struct jw *w)
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
		char prefix[VIEW_KEY_MAX];
		struct view_ids_query q = { .kind = VIEW_TURN_TOOL_CALL, .prefix = prefix, .max = left };

		(void)snprintf(prefix, sizeof(prefix), "%s/", turns->id[i]);
		if (view_ids(s, &q, &calls, NULL, e) < 0)
			return -1;
		for (size_t k = 0; k < calls.n; k++, left--)
			raw_document(s, VIEW_TOOL_CALL, calls.id[k], w);
	}
	jw_arr_end(w);
	return 0;
}

/* ---- actions ---- */

static int write_actions(struct store *s, enum view_kind kind, const char *thread_id, const char *key, struct jw *w,
			 struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = { .kind = kind, .prefix = prefix, .descending = true, .max = ACTIONS_SHOWN };

	(void)snprintf(prefix, sizeof(prefix), "%s/", thread_id);
	if (view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	jw_karr(w, key);
	for (size_t i = ids.n; i-- > 0;)
		raw_document(s, VIEW_ACTION, ids.id[i], w);
	jw_arr_end(w);
	return 0;
}

int view_write_actions(struct store *s, const char *thread_id, struct jw *w, struct err *e)
{
	if (write_actions(s, VIEW_OPEN_ACTION, thread_id, "pendingRequests", w, e) < 0)
		return -1;
	return write_actions(s, VIEW_THREAD_ACTION, thread_id, "actions", w, e);
}

static bool action_fits(const struct action_doc *d, uint32_t uid, const struct view_action_query *q)
{
	const struct {
		const char *want, *is;
	} rows[] = {
		{ q->status, d->status },  { q->session_id, d->sessionId }, { q->thread_id, d->threadId },
		{ q->turn_id, d->turnId }, { q->task_id, d->taskId },
	};

	if (uid != VIEW_ANY_UID && d->uid != uid)
		return false;
	for (size_t i = 0; i < countof(rows); i++)
		if (rows[i].want && strcmp(rows[i].want, rows[i].is) != 0)
			return false;
	return true;
}

struct action_scan {
	const struct view_action_query *q;
	struct jw *w;
	uint32_t uid;
	size_t shown, seen;
	char last[VIEW_KEY_MAX];
	bool more;
};

static bool on_action(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct action_scan *sc = ctx;
	struct action_doc d;

	if (sc->shown == sc->q->limit || sc->seen == ACTIONS_LOOKED_AT) {
		sc->more = true;
		return false;
	}
	sc->seen++;
	if (id_len < sizeof(sc->last)) {
		memcpy(sc->last, id, id_len);
		sc->last[id_len] = '\0';
	}
	view_decode(&action_schema, jval_of(json, len), &d);
	if (action_fits(&d, sc->uid, sc->q)) {
		jw_raw(sc->w, json, len);
		sc->shown++;
	}
	return true;
}

int view_actions(struct store *s, uint32_t uid, const struct view_action_query *q, struct buf *out, struct err *e)
{
	buf_auto struct buf whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct action_scan sc = { .q = q, .w = &w, .uid = uid };

	if (q->limit < 1 || q->limit > 1000)
		return err_field(e, "limit", "must be 1 to 1000");
	if (q->cursor && !id_valid(q->cursor, strlen(q->cursor)))
		return err_field(e, "cursor", "is not one that list_actions gave");
	jw_obj(&w);
	jw_karr(&w, "actions");
	if (store_model_scan(s, VIEW_ACTION, NULL, q->cursor, true, on_action, &sc, e) < 0)
		return -1;
	jw_arr_end(&w);
	if (sc.more)
		jw_kstr(&w, "nextCursor", sc.last);
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

/* ---- the queue ---- */

static int write_queued(struct store *s, const struct queue_doc *d, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	size_t position = 0;

	for (struct jiter it = jiter_on(d->order); jiter_next(&it);) {
		char id[VIEW_ID_MAX] = "";
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
	int r = view_read(s, &thread_schema, thread_id, &text, &t, e);

	if (r < 0)
		return -1;
	if (r > 0 || (uid != VIEW_ANY_UID && t.uid != uid))
		return err_set(e, ERR_NOT_FOUND, "no thread '%.80s'", thread_id);
	jw_obj(&w);
	jw_kstr(&w, "threadId", t.threadId);
	jw_kstr(&w, "sessionId", t.sessionId);
	jw_kstr(&w, "status", t.status);
	if (t.activeTurnId[0])
		jw_kstr(&w, "activeTurnId", t.activeTurnId);
	if (view_write_queue(s, thread_id, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}
