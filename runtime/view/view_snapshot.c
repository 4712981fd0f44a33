/*
 * The specification's session snapshot and its thread element, assembled from documents on request. Nothing of it is
 * stored, so a snapshot always equals its parts.
 */

#include "runtime/view/view_snapshot.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/event/id.h"
#include "runtime/store/store.h"
#include "runtime/view/view_channel.h"
#include "runtime/view/view_cost.h"
#include "runtime/view/view_documents.h"
#include "runtime/view/view_evidence.h"
#include "runtime/view/view_history.h"
#include "runtime/view/view_ids.h"
#include "runtime/view/view_job.h"
#include "runtime/view/view_page.h"
#include "runtime/view/view_subagent.h"
#include "runtime/view/view_task.h"
#include "runtime/view/view_thread_state.h"
#include "runtime/view/view_write.h"

#define STEPS_TURNS 20u /* of a thread: the newest, whose steps are shown */

/* Payloads come from clients, too; what does not fit the public schema is left out of snapshots. */
static bool is_array_of_objects(struct jval v)
{
	if (v.type != JT_ARRAY)
		return false;
	for (struct jiter it = jiter_on(v); jiter_next(&it);)
		if (it.value.type != JT_OBJECT)
			return false;
	return true;
}

/* As view_members with newest first, starting below `before` (NULL = the newest). */
static int members_before(struct store *s, enum view_kind kind, const char *owner, const char *before, size_t max,
			  struct view_ids *ret, struct err *e)
{
	char prefix[VIEW_KEY_MAX], after[VIEW_KEY_MAX];
	struct view_ids_query q = { .kind = kind, .prefix = prefix, .descending = true, .max = max };

	(void)snprintf(prefix, sizeof(prefix), "%s/", owner);
	if (before) {
		(void)snprintf(after, sizeof(after), "%s/%s", owner, before);
		q.after = after;
	}
	return view_ids(s, &q, ret, NULL, e);
}

/* Oldest first. */
static int write_turn_processes(struct store *s, const char *turn, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;

	if (view_members(s, VIEW_TURN_PROCESS, turn, VIEW_NEWEST_FIRST, VIEW_WINDOW, &ids, e) < 0)
		return -1;
	jw_karr(w, "processes");
	for (size_t i = ids.n; i-- > 0;) {
		struct process_doc d;
		int r = view_read(s, &process_schema, ids.id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r > 0)
			continue;
		jw_obj(w);
		view_write_members(w, &process_schema, &d,
				   "processId status statusReason exitCode signal startedAt endedAt");
		jw_obj_end(w);
	}
	jw_arr_end(w);
	return 0;
}

static int write_steps(struct store *s, const char *turn_id, struct jw *w, struct err *e);
static int write_tool_calls(struct store *s, const struct view_ids *turns, struct jw *w, struct err *e);
static int write_queue(struct store *s, const char *thread_id, struct jw *w, struct err *e);

/* `newest`: with its steps. */
static int write_turn(struct store *s, const struct turn_doc *d, bool newest, struct jw *w, struct err *e)
{
	jw_obj(w);
	view_write_members(w, &turn_schema, d, "turnId");
	jw_kstr(w, "status", view_turn_status(s, d));
	view_write_members(w, &turn_schema, d, "statusReason");
	if (view_turn_rolled_back(s, d->threadId, d->turnId))
		jw_kbool(w, "rolledBack", true);
	view_write_members(w, &turn_schema, d, "source preview submittedAt startedAt completedAt outcome");
	if (d->permissionDecision.type == JT_OBJECT)
		view_write_json(w, "permissionState", d->permissionDecision);
	if (d->sandboxProfile.type == JT_OBJECT)
		view_write_json(w, "sandboxProfile", d->sandboxProfile);
	if (view_write_routing(s, d->turnId, true, w, e) < 0 || view_write_cost(s, COST_OF_TURN, d->turnId, w, e) < 0)
		return -1;
	view_write_members(w, &turn_schema, d, "driver phase category message inputRef metadata");
	if (d->executionEnvironment.type == JT_OBJECT)
		view_write_json(w, "executionEnvironment", d->executionEnvironment);
	if (!newest)
		jw_kbool(w, "stepsTruncated", true);
	else if (write_steps(s, d->turnId, w, e) < 0)
		return -1;
	if (write_turn_processes(s, d->turnId, w, e) < 0)
		return -1;
	if (is_array_of_objects(d->outputRefs))
		view_write_json(w, "outputRefs", d->outputRefs);
	view_write_members(w, &turn_schema, d, "hookRuns");
	view_write_members(w, &turn_schema, d, "taskId runId attemptId");
	jw_obj_end(w);
	return 0;
}

/* A turn that did not complete. */
static void write_incident(const struct turn_doc *d, struct jw *w)
{
	jw_obj(w);
	view_write_members(w, &turn_schema, d, "turnId status category message retryable at=completedAt");
	jw_obj_end(w);
}

/* Where the window begins, as a member of VIEW_THREAD_TURN. */
static int window_start(struct store *s, const char *thread, const char *before, char ret[VIEW_TURN_MEMBER_MAX],
			struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc d;
	int r = view_read(s, &turn_schema, before, &text, &d, e);

	if (r < 0)
		return -1;
	if (r > 0 || strcmp(d.threadId, thread) != 0)
		return err_field(e, "window.before", "'%.80s' is not a turn of thread '%.80s'", before, thread);
	view_turn_member(&d, ret);
	return 0;
}

/* The ids of the window's turns, newest first; 1 when there are older ones. */
static int window_turns(struct store *s, const char *thread, const struct view_window *win, struct view_ids *ret,
			struct err *e)
{
	char before[VIEW_TURN_MEMBER_MAX];

	if (!win)
		return view_members(s, VIEW_THREAD_TURN, thread, VIEW_NEWEST_FIRST, VIEW_WINDOW, ret, e);
	if (win->limit < 1 || win->limit > VIEW_TURNS_MAX)
		return err_field(e, "window.limit", "must be 1 to %u", VIEW_TURNS_MAX);
	if (win->before && window_start(s, thread, win->before, before, e) < 0)
		return -1;
	return members_before(s, VIEW_THREAD_TURN, thread, win->before ? before : NULL, win->limit, ret, e);
}

/* `"turns":[…],…,"incidents":[…]`, oldest first unless there is a window; *updated becomes the latest time seen.
 */
static int write_turns(struct store *s, const char *thread, const struct view_window *win, struct jw *w,
		       uint64_t *updated, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT, incidents = BUF_INIT;
	struct jw iw = jw_on(&incidents);
	size_t begin = w->buf->len;
	int more = window_turns(s, thread, win, &ids, e);

	if (more < 0)
		return -1;
	jw_arr(&iw);
	jw_karr(w, "turns");
	for (size_t n = 0; n < ids.n; n++) {
		size_t i = win ? n : ids.n - 1 - n;
		struct turn_doc d;

		/* A page ends early but has at least one turn, or a client could never get past a large one. */
		if (win && n && w->buf->len - begin > VIEW_PAGE_BYTES) {
			ids.n = n;
			more = 1;
			break;
		}
		int r = view_read(s, &turn_schema, ids.id[i], &text, &d, e);

		if (r < 0 || (r == 0 && write_turn(s, &d, i < STEPS_TURNS, w, e) < 0))
			return -1;
		if (r > 0)
			continue;
		if (d.completedAt && strcmp(d.status, "completed") != 0)
			write_incident(&d, &iw);
		if (d.completedAt > *updated)
			*updated = d.completedAt;
	}
	jw_arr_end(w);
	jw_arr_end(&iw);
	if (more) {
		jw_kbool(w, "turnsTruncated", true);
		jw_kstr(w, "historyCursor", ids.id[ids.n - 1]);
	}
	jw_kraw(w, "incidents", incidents.data, incidents.len);
	if (write_tool_calls(s, &ids, w, e) < 0)
		return -1;
	return 0;
}

/* The members of a thread element, without its braces. */
static int write_thread(struct store *s, const struct thread_doc *d, const struct view_window *win, struct jw *w,
			uint64_t *updated, struct err *e)
{
	const char *phase;
	const bool stale = view_thread_is_stale(s, d, &phase);

	jw_kstr(w, "threadId", d->threadId);
	jw_kstr(w, "status", stale ? "stale" : d->status);
	view_write_word(w, "phase", phase ? phase : d->phase);
	jw_kbool(w, "stale", stale);
	view_write_members(w, &thread_schema, d, "reason activeTurnId origin parentThreadId createdAt plan");
	if (d->updatedAt > *updated)
		*updated = d->updatedAt;
	if (write_turns(s, d->threadId, win, w, updated, e) < 0 || view_write_actions(s, d->threadId, w, e) < 0 ||
	    write_queue(s, d->threadId, w, e) < 0 || view_tasks_of_thread(s, d->threadId, w, e) < 0)
		return -1;
	if (view_write_routing(s, d->threadId, false, w, e) < 0 ||
	    view_write_cost(s, COST_OF_THREAD, d->threadId, w, e) < 0 ||
	    view_write_limits(s, (uint32_t)d->uid, w, e) < 0)
		return -1;
	jw_key(w, "subagents");
	if (view_write_subagents(s, NULL, d->threadId, w, e) < 0)
		return -1;
	if (view_write_history(s, d->threadId, w, e) < 0)
		return -1;
	jw_kobj(w, "evidenceSummary");
	if (view_write_evidence(s, d->threadId, true, w, e) < 0)
		return -1;
	jw_obj_end(w);
	return 0;
}

/* Oldest first; `updated` becomes the latest time of any of them. */
static int write_threads(struct store *s, const struct view_ids *ids, struct jw *w, uint64_t *updated, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	const char *phase;
	bool stale = false;

	jw_karr(w, "threads");
	for (size_t i = ids->n; i-- > 0;) {
		struct thread_doc d;
		int r = view_read(s, &thread_schema, ids->id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r > 0)
			continue;
		jw_obj(w);
		if (write_thread(s, &d, NULL, w, updated, e) < 0)
			return -1;
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_karr(w, "activeThreadIds");
	for (size_t i = ids->n; i-- > 0;) {
		struct thread_doc d;

		if (view_read(s, &thread_schema, ids->id[i], &text, &d, e) != 0 || !d.activeTurnId[0])
			continue;
		jw_str(w, d.threadId);
		stale = stale || view_thread_is_stale(s, &d, &phase);
	}
	jw_arr_end(w);
	jw_kbool(w, "stale", stale);
	return 0;
}

/* How many of the session's turns carry a trace id, so that a collector's data can be joined. */
static int write_telemetry(struct store *s, const struct session_doc *d, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	uint64_t turns = view_counted(d->turns), traced = view_counted(d->tracedTurns);
	int more = view_members(s, VIEW_SESSION_TRACE, d->sessionId, VIEW_NEWEST_FIRST, VIEW_WINDOW, &ids, e);

	if (more < 0)
		return -1;
	jw_kobj(w, "telemetrySummary");
	jw_karr(w, "traceIds");
	for (size_t i = ids.n; i-- > 0;)
		jw_str(w, ids.id[i]);
	jw_arr_end(w);
	jw_kstr(w, "joinStatus",
		!turns            ? "not_applicable"
		: traced == turns ? "joined"
		: traced          ? "partial"
				  : "missing_correlation");
	jw_kuint(w, "turns", turns);
	jw_kuint(w, "tracedTurns", traced);
	jw_obj_end(w);
	return 0;
}

/* Members of a session's snapshot after its threads. */
static int write_session_tail(struct store *s, const struct session_doc *d, struct jw *w, struct err *e)
{
	const char *session = d->sessionId;

	if (view_tasks_of_session(s, session, w, e) < 0)
		return -1;
	jw_kobj(w, "subagentJobSummary");
	jw_key(w, "subagents");
	if (view_write_subagents(s, session, NULL, w, e) < 0 || view_jobs_of_session(s, session, w, e) < 0)
		return -1;
	jw_obj_end(w);
	if (write_telemetry(s, d, w, e) < 0 || view_write_artifact_refs(s, session, NULL, w, e) < 0)
		return -1;
	return view_write_evidence(s, session, false, w, e);
}

/* All reads use one store snapshot, so that the parts fit together. */
int view_session(struct store *s, uint32_t uid, const char *session_id, const struct view_window *win, struct buf *out,
		 struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	store_snapshot_auto struct store *held = s;
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	const char *before = win ? win->before : NULL;
	struct jw w = jw_on(&whole);
	struct session_doc d;
	int more;

	store_snapshot_begin(held);
	if (win && (win->limit < 1 || win->limit > VIEW_WINDOW))
		return err_field(e, "window.limit", "must be 1 to %u", VIEW_WINDOW);
	if (before && !id_valid(before, strlen(before)))
		return err_field(e, "window.before", "not an id");
	if (view_read_visible(s, &session_schema, uid, "sessionId", session_id, &text, &d, e) < 0)
		return -1;
	more = members_before(s, VIEW_SESSION_THREAD, session_id, before, win ? win->limit : VIEW_WINDOW, &ids, e);
	if (more < 0)
		return -1;
	if (before && !ids.n)
		return err_field(e, "window.before", "the session has no thread before '%.80s'", before);
	jw_obj(&w);
	jw_kstr(&w, "schemaVersion", store_env(s)->schema_version);
	jw_kstr(&w, "runtimeId", store_runtime_id(s));
	view_write_members(&w, &session_schema, &d, "sessionId kind");
	if (d.title.type == JT_STRING)
		view_write_json(&w, "title", d.title);
	if (d.workspaceId.type == JT_STRING)
		view_write_json(&w, "workspaceId", d.workspaceId);
	view_write_members(&w, &session_schema, &d, "scope createdBy pinnedThreadIds archived permissions createdAt");
	if (write_threads(s, &ids, &w, &d.updatedAt, e) < 0)
		return -1;
	view_write_time(&w, "updatedAt", d.updatedAt);
	jw_key(&w, "routingLimitSummary");
	if (view_routing_summary(s, (uint32_t)d.uid, session_id, NULL, &w, e) < 0)
		return -1;
	jw_key(&w, "channelSummary");
	if (view_channel_summary(s, session_id, &w, e) < 0)
		return -1;
	if (write_session_tail(s, &d, &w, e) < 0)
		return -1;
	jw_kbool(&w, "truncated", more > 0);
	if (more)
		jw_kstr(&w, "historyCursor", ids.id[ids.n - 1]);
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

int view_thread(struct store *s, uint32_t uid, const char *thread_id, const struct view_window *win, struct buf *out,
		struct err *e)
{
	store_snapshot_auto struct store *held = s;
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct thread_doc d;

	store_snapshot_begin(held);
	if (view_read_visible(s, &thread_schema, uid, "threadId", thread_id, &text, &d, e) < 0)
		return -1;
	jw_obj(&w);
	jw_kstr(&w, "schemaVersion", store_env(s)->schema_version);
	jw_kstr(&w, "runtimeId", store_runtime_id(s));
	jw_kstr(&w, "sessionId", d.sessionId);
	if (write_thread(s, &d, win, &w, &d.updatedAt, e) < 0 || view_write_thread_state(s, &d, &w, e) < 0)
		return -1;
	view_write_time(&w, "updatedAt", d.updatedAt);
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

/* ---- thread members ---- */

#define STEPS_SHOWN 100u
#define CALLS_SHOWN 30u
#define ACTIONS_SHOWN 50u

/* ---- steps ---- */

/* The scan runs backwards to find the newest; the documents are collected and written in order. */
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

/* A step that a process and its tool call share is one document. */
static int write_steps(struct store *s, const char *turn_id, struct jw *w, struct err *e)
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

/* A list and its documents change together; a document that cannot be read is left out of the snapshot. */
static void write_document(struct store *s, enum view_kind kind, const char *id, struct jw *w)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;

	if (store_model_get(s, (uint8_t)kind, id, &doc, &e) == 0)
		jw_raw(w, doc.data, doc.len);
}

/* At most CALLS_SHOWN, of the newest turns. */
static int write_tool_calls(struct store *s, const struct view_ids *turns, struct jw *w, struct err *e)
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

/* pendingRequests has the open actions even if they are older than the newest ACTIONS_SHOWN. */
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

/* The order is the queue's. A turn without a document is still listed, so that positions are those of the queue. */
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
			view_write_members(w, &turn_schema, &t, "source driver preview submittedAt");
		}
		jw_obj_end(w);
	}
	return 0;
}

/* resumeState only while turns wait. */
static int write_queue(struct store *s, const char *thread_id, struct jw *w, struct err *e)
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
	if (r == 0) {
		jw_kstr(w, "resumeState", d.resumeState[0] ? d.resumeState : "running");
		view_write_json(w, "queuePolicy", d.policy);
	}
	return 0;
}

int view_queue_snapshot(struct store *s, uint32_t uid, const char *thread_id, struct buf *out, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct thread_doc t;

	if (view_read_visible(s, &thread_schema, uid, "threadId", thread_id, &text, &t, e) < 0)
		return -1;
	jw_obj(&w);
	view_write_members(&w, &thread_schema, &t, "threadId sessionId status activeTurnId");
	if (write_queue(s, thread_id, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}
