/*
 * Sessions, threads and what belongs to them: the runtime's own document, actions, tool calls and hooks. Most of
 * their projections are rows of projections.def; here is what a row cannot say.
 */

#include "runtime/base/mem.h"
#include "runtime/event/payloads.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_write.h"

#include <inttypes.h>

/* The first thread is the one that requests without a thread id use. */
bool session_on_thread(struct projection *p, void *doc)
{
	struct session_doc *d = doc;
	char thread[ID_SIZE];

	event_id_copy(p->event, ID_THREAD, thread, sizeof(thread));
	if (!d->firstThreadId[0])
		id_copy(d->firstThreadId, thread);
	projection_list(p, true, VIEW_SESSION_THREAD, d->sessionId, thread);
	return true;
}

/* A turn was submitted. The system turn only carries facts and is not counted. */
bool session_on_turn(struct projection *p, void *doc)
{
	struct session_doc *d = doc;
	char trace[ID_SIZE];

	event_id_copy(p->event, ID_TRACE, trace, sizeof(trace));
	if (!jval_is_str(event_payload_member(p->event, "source"), "system")) {
		d->turns = view_add(d->turns, 1);
		d->tracedTurns = view_add(d->tracedTurns, trace[0] != '\0');
	} else if (!d->systemTurnId[0]) {
		event_id_copy(p->event, ID_TURN, d->systemTurnId, sizeof(d->systemTurnId));
	}
	projection_list(p, true, VIEW_SESSION_TRACE, d->sessionId, trace);
	return true;
}

/* set_permission_mode, and the session's own rules; an empty object removes these. */
bool session_on_policy(struct projection *p, void *doc)
{
	struct jval mode = event_payload_member(p->event, "mode"),
		    rules = event_payload_member(p->event, "permissions");
	struct session_doc *d = doc;

	if (mode.type != JT_STRING && rules.type != JT_OBJECT)
		return false;
	view_copy_string(d->permissionMode, mode);
	if (rules.type == JT_OBJECT) {
		struct jiter it = jiter_on(rules);

		d->permissions = jiter_next(&it) ? rules : (struct jval){ 0 };
	}
	return true;
}

/* An approval for the whole session. */
int view_session_on_permission(struct models *m, const struct event_view *ev, struct err *e)
{
	char session[ID_SIZE], binding[ID_SIZE];

	if (!jval_is_str(event_payload_member(ev, "outcome"), "allowed") ||
	    (!jval_is_str(event_payload_member(ev, "scope"), "session") &&
	     !jval_is_str(event_payload_member(ev, "scope"), "always")))
		return 0;
	event_id_copy(ev, ID_SESSION, session, sizeof(session));
	jval_str(event_payload_member(ev, "binding"), binding, sizeof(binding));
	return *session && *binding ? view_list_put(m, VIEW_SESSION_GRANT, session, binding, e) : 0;
}

/* ---- thread ---- */

/* Statuses that clients and the engine report, and the specification's thread status that each of them means. */
static const struct {
	const char *from, *to;
} statuses[] = {
	{ "idle", "idle" },           { "queued", "queued" },       { "running", "running" },
	{ "blocked", "blocked" },     { "completed", "completed" }, { "failed", "failed" },
	{ "cancelled", "cancelled" }, { "stale", "stale" },         { "accepted", "running" },
	{ "preparing", "running" },   { "streaming", "running" },   { "retrying", "running" },
	{ "timed_out", "failed" },    { "paused", "idle" },
};

/* The specification's thread status for a reported status. */
static const char *view_thread_status(const char *status)
{
	for (size_t i = 0; i < countof(statuses); i++)
		if (strcmp(status, statuses[i].from) == 0)
			return statuses[i].to;
	return strncmp(status, "waiting_", 8) == 0 ? "blocked" : "unknown";
}

/* A status that the specification does not know for threads is kept as the phase. */
bool thread_on_updated(struct projection *p, void *doc)
{
	struct thread_doc *d = doc;
	char status[ID_SIZE] = "";

	view_copy_string(status, event_payload_member(p->event, "status"));
	if (*status) {
		id_copy(d->status, view_thread_status(status));
		id_copy(d->phase, strcmp(d->status, status) == 0 ? "" : status);
	}
	return true;
}

int view_thread_next_turn(struct models *m, const struct event_view *ev, uint64_t *ret, struct err *e)
{
	struct thread_doc d;
	int r = view_open_event(m, &thread_schema, ev, &d, e);

	if (r)
		return r;
	*ret = d.turnNumber = view_add(d.turnNumber, 1);
	return view_save(m, &thread_schema, d.threadId, &d, e);
}

#define WARNINGS_KEPT 10u
#define HOOK_RUNS_KEPT 20u

/* Begins an array with the latest members of `old`, so that with one more there are at most `most`. */
static void begin_latest(struct jw *w, struct jval old, size_t most)
{
	size_t n = 0;

	for (struct jiter it = jiter_on(old); jiter_next(&it);)
		n++;
	jw_arr(w);
	for (struct jiter it = jiter_on(old); jiter_next(&it);)
		if (n-- < most)
			jw_raw(w, it.value.text, it.value.len);
}

/* A thread keeps its latest warnings; the log has all of them. */
int view_thread_on_warning(struct models *m, const struct event_view *ev, struct err *e)
{
	buf_auto struct buf list = BUF_INIT;
	struct jw w = jw_on(&list);
	struct thread_doc d;
	int r = view_open_event(m, &thread_schema, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	begin_latest(&w, d.warnings, WARNINGS_KEPT);
	jw_obj(&w);
	view_write_json(&w, "code", event_payload_member(ev, "code"));
	view_write_json(&w, "detail", event_payload_member(ev, "detail"));
	view_write_json(&w, "advice", event_payload_member(ev, "advice"));
	view_write_json(&w, "turnId", event_member(ev, "turnId"));
	view_write_json(&w, "at", event_member(ev, "timestamp"));
	jw_obj_end(&w);
	jw_arr_end(&w);
	d.warnings = jval_of(list.data, list.len);
	d.warningCount = view_add(d.warningCount, 1);
	return view_save(m, &thread_schema, d.threadId, &d, e);
}

#define CONTEXT_MAX 4096u

/* What was selected for the thread last. A longer one is only in the log. */
bool thread_on_context(struct projection *p, void *doc)
{
	static const char longer[] = "{\"status\":\"truncated\"}";
	struct thread_doc *d = doc;
	struct jval payload = event_payload(p->event), refs = event_payload_member(p->event, "refs");
	bool of_loop = jval_get(refs, "instructions").text || jval_get(refs, "hookContext").text;
	struct jval *kept = event_from_client(p->event) ? &d->clientContext
			    : of_loop                   ? &d->loopContext
							: &d->turnContext;

	*kept = payload.len <= CONTEXT_MAX ? payload : jval_of(longer, sizeof longer - 1);
	return true;
}

/* Turns can end in any order: only the end of the active one clears it. */
bool thread_on_turn_ended(struct projection *p, void *doc)
{
	struct thread_doc *d = doc;
	char turn[ID_SIZE];

	event_id_copy(p->event, ID_TURN, turn, sizeof(turn));
	if (strcmp(turn, d->activeTurnId) == 0)
		d->activeTurnId[0] = '\0';
	return true;
}

/* The event has the whole order, so the document is replaced; an empty queue has none. */
int view_queue_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	struct queue_doc d;

	view_create(&queue_schema, ev, &d);
	view_copy_payload(&queue_schema, &d, ev);
	if (jval_is_str(event_payload_member(ev, "resumeState"), "held"))
		id_copy(d.resumeState, "held");
	struct jiter it = jiter_on(d.order);
	if (!jiter_next(&it))
		return view_list_del(m, VIEW_QUEUE, d.threadId, NULL, e);
	return d.threadId[0] ? view_save(m, &queue_schema, d.threadId, &d, e) : 0;
}

/* ---- runtime ---- */

/* There is one system session; the first one stays. */
int view_runtime_on_session_created(struct models *m, const struct event_view *ev, struct err *e)
{
	struct runtime_doc d;

	if (!jval_is_str(event_payload_member(ev, "kind"), "system"))
		return 0;
	if (view_load(m, &runtime_schema, VIEW_RUNTIME_ID, &d, e) < 0)
		return -1;
	if (d.systemSessionId[0])
		return 0;
	event_id_copy(ev, ID_SESSION, d.systemSessionId, sizeof(d.systemSessionId));
	return view_save(m, &runtime_schema, VIEW_RUNTIME_ID, &d, e);
}

static uint64_t count_elements(struct jval list)
{
	uint64_t n = 0;

	for (struct jiter it = jiter_on(list); jiter_next(&it);)
		n++;
	return n;
}

/* Counts only; the ids are in the event. */
int view_runtime_on_reconstructed(struct models *m, const struct event_view *ev, struct err *e)
{
	struct runtime_doc d;

	if (view_load(m, &runtime_schema, VIEW_RUNTIME_ID, &d, e) < 0)
		return -1;
	view_copy_payload(&runtime_schema, &d, ev);
	d.reconstructions = view_add(d.reconstructions, 1);
	d.reconstructedAt = ev->real_us;
	d.alive = count_elements(event_payload_member(ev, "alive"));
	d.exited = count_elements(event_payload_member(ev, "exited"));
	d.lost = count_elements(event_payload_member(ev, "lost"));
	return view_save(m, &runtime_schema, VIEW_RUNTIME_ID, &d, e);
}

/* ---- action ---- */

/* Everything that is not a decision or a resource waits for input from a person. */
const char *view_action_waiting(struct jval type)
{
	static const struct {
		const char *type, *status;
	} rows[] = {
		{ "permission", "waiting_permission" },
		{ "approval", "waiting_permission" },
		{ "plan", "waiting_permission" },
		{ "resource", "waiting_resource" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		if (jval_is_str(type, rows[i].type))
			return rows[i].status;
	return "waiting_input";
}

void view_order_key(uint64_t n, char ret[VIEW_ORDER_KEY_MAX])
{
	(void)snprintf(ret, VIEW_ORDER_KEY_MAX, "%020" PRIu64, n);
}

/* VIEW_TIMED_ACTION sorts by expiry: the engine scans it up to the present time (action.c). */
static void list_expiry(struct projection *p, bool put, const struct action_doc *d)
{
	char due[VIEW_ORDER_KEY_MAX];

	if (!d->expiresAt)
		return;
	view_order_key(d->expiresAt, due);
	projection_list(p, put, VIEW_TIMED_ACTION, due, d->actionId);
}

bool action_on_required(struct projection *p, void *doc)
{
	list_expiry(p, true, doc);
	return true;
}

bool action_on_resolved(struct projection *p, void *doc)
{
	list_expiry(p, false, doc);
	return true;
}

/* ---- tool call ---- */

/* The connection whose client executes the call: if it closes, the call fails (tool_owner_disconnected). */
bool tool_call_on_started(struct projection *p, void *doc)
{
	struct tool_call_doc *d = doc;

	d->connection = jval_uint(jval_get(event_payload_member(p->event, "owner"), "connection"), VIEW_ABSENT);
	return true;
}

bool tool_call_on_progress(struct projection *p, void *doc)
{
	struct jval preview = event_payload_member(p->event, "preview");

	((struct tool_call_doc *)doc)->displayPreview = preview;
	return preview.type == JT_STRING;
}

/* A call that was denied before it started (`stage`) is first seen here. */
bool tool_call_on_ended(struct projection *p, void *doc)
{
	struct tool_call_doc *d = doc;

	if (!d->startedAt && event_payload_member(p->event, "stage").type == JT_STRING) {
		view_copy_string(d->toolName, event_payload_member(p->event, "toolName"));
		d->part = jval_uint(event_payload_member(p->event, "part"), VIEW_ABSENT);
		projection_list(p, true, VIEW_TURN_TOOL_CALL, d->turnId, d->toolCallId);
	}
	return true;
}

/* The process that runs the call. Only the runtime's own: start_process accepts any tool call id. */
int view_tool_call_on_process(struct models *m, const struct event_view *ev, struct err *e)
{
	static const struct projection_op ops[] = {
		{ OP_EVENT_ID, offsetof(struct tool_call_doc, processId), .id = ID_PROCESS },
		{ OP_END },
	};

	if (!jval_is_str(jval_get(event_payload_member(ev, "owner"), "kind"), "tool"))
		return 0;
	return projection_run(m, ev, &tool_call_schema, ops, NULL, e);
}

/* A hook ran after the call. Its answer stays until another hook gives one. */
bool tool_call_on_hook(struct projection *p, void *doc)
{
	struct jval refs = event_payload_member(p->event, "additionalContextRefs"),
		    point = event_payload_member(p->event, "hookPoint");
	struct jval reason = event_payload_member(p->event, "reason"),
		    output = event_payload_member(p->event, "updatedToolOutputRef");
	struct tool_call_doc *d = doc;

	if (!jval_is_str(point, "post_tool_use") && !jval_is_str(point, "post_tool_failure"))
		return false;
	if (refs.type == JT_ARRAY && refs.len > 2)
		d->hookContextRefs = refs;
	if (reason.type == JT_STRING)
		d->hookReason = reason;
	if (output.type == JT_STRING)
		d->updatedOutputRef = output;
	return true;
}

/* ---- hook ---- */

/* A hook has a document while it runs; what it answered is in its events. */
int view_hook_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct hook_started_json started;
	struct hook_doc d;

	read_hook_started(ev, &started);
	view_create(&hook_schema, ev, &d);
	view_copy_payload(&hook_schema, &d, ev);
	view_copy_string(d.processId, started.processId);
	view_copy_string(d.hookPoint, started.hookPoint);
	view_copy_string(d.waits, started.waits);
	view_copy_string(d.ownerKind, started.ownerKind);
	d.failsClosed = jval_bool(started.failsClosed, false);
	d.ownsTurn = jval_bool(started.ownsTurn, false);
	return d.processId[0] ? view_save(m, &hook_schema, d.processId, &d, e) : 0;
}

int view_hook_on_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	char id[ID_SIZE] = "";

	view_copy_string(id, event_payload_member(ev, "processId"));
	return view_list_del(m, VIEW_HOOK, id, NULL, e);
}

/* A turn keeps the outcomes of its latest hooks; the log has all of them. A stop hook may have continued it. */
int view_turn_on_hook(struct models *m, const struct event_view *ev, struct err *e)
{
	static const char *const members[] = { "hookPoint", "handlerRef", "processId",  "decision",
					       "reason",    "category",   "failedOpen", "durationMs" };
	buf_auto struct buf list = BUF_INIT;
	struct jw w = jw_on(&list);
	struct turn_doc d;
	char id[ID_SIZE];

	event_id_copy(ev, ID_TURN, id, sizeof(id));
	int r = *id ? view_load(m, &turn_schema, id, &d, e) : 1;
	if (r)
		return r < 0 ? -1 : 0;
	if (jval_is_str(event_payload_member(ev, "hookPoint"), "stop") &&
	    jval_is_str(event_payload_member(ev, "decision"), "block"))
		d.stopBlocked = true;
	begin_latest(&w, d.hookRuns, HOOK_RUNS_KEPT);
	jw_obj(&w);
	jw_kstr(&w, "status", ev->type == EVENT_HOOK_FAILED ? "failed" : "completed");
	for (size_t i = 0; i < countof(members); i++)
		view_write_json(&w, members[i], event_payload_member(ev, members[i]));
	jw_obj_end(&w);
	jw_arr_end(&w);
	d.hookRuns = jval_of(list.data, list.len);
	return view_save(m, &turn_schema, id, &d, e);
}

/* Context that a hook added when the session started. */
int view_session_on_hook(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval refs = event_payload_member(ev, "additionalContextRefs");
	struct session_doc d;
	char id[ID_SIZE];

	event_id_copy(ev, ID_SESSION, id, sizeof(id));
	if (!*id || refs.type != JT_ARRAY || !jval_is_str(event_payload_member(ev, "hookPoint"), "session_start"))
		return 0;
	int r = view_load(m, &session_schema, id, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	d.hookContextRefs = refs;
	return view_save(m, &session_schema, id, &d, e);
}
