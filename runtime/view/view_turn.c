#include "runtime/view/projections.h"

#include "runtime/base/mem.h"

static const struct view_field fields[] = {
	VIEW_FIELD(VIEW_ID, turn_doc, turnId),
	VIEW_FIELD(VIEW_ID, turn_doc, status), /* accepted, running, completed, failed, cancelled, timed_out, lost */
	VIEW_FIELD(VIEW_JSON, turn_doc, statusReason),
	VIEW_FIELD(VIEW_JSON, turn_doc, source),
	VIEW_FIELD(VIEW_JSON, turn_doc, driver),
	VIEW_FIELD(VIEW_JSON, turn_doc, preview),
	VIEW_FIELD(VIEW_UINT, turn_doc,
		   number), /* its place in the thread: the order of submission, or of start where it was queued */
	VIEW_FIELD(VIEW_TIME, turn_doc, submittedAt),
	VIEW_FIELD(VIEW_TIME, turn_doc, startedAt),
	VIEW_FIELD(VIEW_TIME, turn_doc, completedAt), /* its end, whatever that was */
	VIEW_FIELD(VIEW_JSON, turn_doc, outcome),
	VIEW_FIELD(VIEW_JSON, turn_doc, category),
	VIEW_FIELD(VIEW_JSON, turn_doc, message),
	VIEW_FIELD(VIEW_JSON, turn_doc, retryable),
	VIEW_FIELD(VIEW_JSON, turn_doc, outputRefs),
	VIEW_FIELD(VIEW_JSON, turn_doc, permissionDecision), /* the last one of its processes and tools */
	VIEW_FIELD(VIEW_JSON, turn_doc, sandboxProfile),
	VIEW_FIELD(VIEW_ID, turn_doc, sessionId),
	VIEW_FIELD(VIEW_ID, turn_doc, threadId),
	VIEW_FIELD(VIEW_ID, turn_doc, taskId),
	VIEW_FIELD(VIEW_ID, turn_doc, runId),
	VIEW_FIELD(VIEW_ID, turn_doc, attemptId),
	VIEW_FIELD(VIEW_ID, turn_doc, toolCallId),
	VIEW_FIELD(VIEW_UINT, turn_doc, uid),
	VIEW_FIELD(VIEW_ID, turn_doc, phase),    /* as run.status told it last */
	VIEW_FIELD(VIEW_ID, turn_doc, inputRef), /* its parts, as they were submitted */
	VIEW_FIELD(VIEW_ID, turn_doc, inputHash),
	VIEW_FIELD(VIEW_UINT, turn_doc, parts),        /* of the input */
	VIEW_FIELD(VIEW_UINT, turn_doc, partsStarted), /* how far the execution loop is; texts are passed over */
	VIEW_FIELD(VIEW_UINT, turn_doc, partsEnded),
	VIEW_FIELD(VIEW_UINT, turn_doc, partsFailed),
	VIEW_FIELD(VIEW_ID, turn_doc, failedCallId), /* the first part that failed */
	VIEW_FIELD(VIEW_UINT, turn_doc, openCalls),
	VIEW_FIELD(VIEW_UINT, turn_doc, openActions),
	VIEW_FIELD(VIEW_FLAG, turn_doc, catalog),     /* its tools were told */
	VIEW_FIELD(VIEW_FLAG, turn_doc, stopBlocked), /* a stop hook has sent it back */
	VIEW_FIELD(VIEW_JSON, turn_doc, options),
	VIEW_FIELD(VIEW_JSON, turn_doc, metadata),
	VIEW_FIELD(VIEW_JSON, turn_doc, requestedBy),
	VIEW_FIELD(VIEW_JSON, turn_doc, executionEnvironment),
	VIEW_FIELD(VIEW_JSON, turn_doc, ending), /* its end was decided, and waits for what still runs */
	VIEW_FIELD(VIEW_JSON, turn_doc, usage),
	VIEW_FIELD(VIEW_ID, turn_doc, traceId),
};
const struct view_schema turn_schema = { VIEW_TURN, sizeof(struct turn_doc), fields, countof(fields) };

/* The event's turn, whose document may be a fresh one. 1 when the event names none. */
static int load(struct models *m, const struct event_view *ev, struct turn_doc *d, struct err *e)
{
	char id[VIEW_ID_MAX];

	event_id_copy(ev, ID_TURN, id, sizeof(id));
	if (!*id)
		return 1;
	if (view_load(m, &turn_schema, id, d, e) < 0)
		return -1;
	if (!d->turnId[0]) {
		view_set_string(d->turnId, id);
		view_set_string(d->status, "accepted");
		event_id_copy(ev, ID_SESSION, d->sessionId, sizeof(d->sessionId));
		event_id_copy(ev, ID_THREAD, d->threadId, sizeof(d->threadId));
		d->uid = ev->uid;
	}
	return 0;
}

/*
 * A number and not the id orders a thread's turns: callers choose ids. It is counted in the thread's document, because
 * the sequence of an event is not known when it is folded ahead of its commit.
 *
 * '~' sorts behind every character of an id. Members without a number come from folds before VIEW_VERSION 5 and are
 * left in a store only where retention has removed the turn's submission: those turns are older than all that have a
 * number.
 */
void view_turn_member(const struct turn_doc *d, char ret[VIEW_TURN_MEMBER_MAX])
{
	if (d->number == VIEW_ABSENT)
		(void)snprintf(ret, VIEW_TURN_MEMBER_MAX, "%s", d->turnId);
	else
		(void)snprintf(ret, VIEW_TURN_MEMBER_MAX, "~%020llu/%s", (unsigned long long)d->number, d->turnId);
}

int view_turn_on_submitted(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	char member[VIEW_TURN_MEMBER_MAX];
	struct turn_doc d;
	uint64_t number = VIEW_ABSENT;
	bool by_runtime;
	int r = view_thread_next_turn(m, ev, &number, e);

	if (r == 0)
		r = load(m, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	d.number = number;
	view_copy_members(&turn_schema, &d, payload);
	view_copy_string(d.status, jval_get(payload, "status"));
	event_id_copy(ev, ID_TASK, d.taskId, sizeof(d.taskId));
	event_id_copy(ev, ID_RUN, d.runId, sizeof(d.runId));
	event_id_copy(ev, ID_ATTEMPT, d.attemptId, sizeof(d.attemptId));
	event_id_copy(ev, ID_TOOL_CALL, d.toolCallId, sizeof(d.toolCallId));
	event_id_copy(ev, ID_TRACE, d.traceId, sizeof(d.traceId));
	view_copy_string(d.inputRef, jval_get(payload, "inputRef"));
	view_copy_string(d.inputHash, jval_get(payload, "inputHash"));
	d.parts = jval_uint(jval_get(payload, "parts"), VIEW_ABSENT);
	d.submittedAt = ev->real_us;
	by_runtime = jval_is_str(d.source, "system");
	view_turn_member(&d, member);
	if (view_save(m, &turn_schema, d.turnId, &d, e) < 0 ||
	    view_list_put(m, VIEW_THREAD_TURN, d.threadId, member, e) < 0)
		return -1;
	/* A system turn only carries facts; it never ends and nothing is recovered of it. */
	return by_runtime ? 0 : view_list_put(m, VIEW_LIVE_TURN, d.turnId, NULL, e);
}

/* One that waited in the queue: others may have been let in before it, so it takes its place in the thread now. */
static int leave_queue(struct models *m, const struct event_view *ev, struct turn_doc *d, struct err *e)
{
	char before[VIEW_TURN_MEMBER_MAX], after[VIEW_TURN_MEMBER_MAX];
	uint64_t number;

	view_turn_member(d, before);
	int r = view_thread_next_turn(m, ev, &number, e);
	if (r)
		return r;
	d->number = number;
	view_turn_member(d, after);
	if (view_list_del(m, VIEW_THREAD_TURN, d->threadId, before, e) < 0 ||
	    view_list_put(m, VIEW_THREAD_TURN, d->threadId, after, e) < 0)
		return -1;
	r = load(m, ev, d, e); /* what it held of the document was valid until the calls above */
	d->number = number;
	return r;
}

int view_turn_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct turn_doc d;
	int r = load(m, ev, &d, e);

	if (r == 0 && strcmp(d.status, "queued") == 0)
		r = leave_queue(m, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&turn_schema, &d, event_payload(ev));
	view_set_string(d.status, "running");
	d.startedAt = ev->real_us;
	return view_save(m, &turn_schema, d.turnId, &d, e);
}

int view_turn_on_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval reason = event_member(ev, "statusReason");
	struct turn_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&turn_schema, &d, event_payload(ev));
	view_set_string(d.status, ev->type == EVENT_TURN_COMPLETED ? "completed" : "failed");
	if (ev->type == EVENT_TURN_FAILED)
		view_copy_string(d.status, event_member(ev, "status"));
	if (reason.type == JT_STRING)
		d.statusReason = reason;
	d.completedAt = ev->real_us;
	if (view_save(m, &turn_schema, d.turnId, &d, e) < 0)
		return -1;
	return view_list_del(m, VIEW_LIVE_TURN, d.turnId, NULL, e);
}

/* One member of the payload that belongs to the turn as a whole. */
static int take_one(struct models *m, const struct event_view *ev, const char *member, size_t offset, struct err *e)
{
	struct jval v = jval_get(event_payload(ev), member);
	struct turn_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (v.type != JT_OBJECT)
		return 0;
	*(struct jval *)((char *)&d + offset) = v;
	return view_save(m, &turn_schema, d.turnId, &d, e);
}

int view_turn_on_permission(struct models *m, const struct event_view *ev, struct err *e)
{
	if (jval_bool(jval_get(event_payload(ev), "dryRun"), false))
		return 0;
	return take_one(m, ev, "permissionDecision", offsetof(struct turn_doc, permissionDecision), e);
}

int view_turn_on_sandbox(struct models *m, const struct event_view *ev, struct err *e)
{
	return take_one(m, ev, "sandboxProfile", offsetof(struct turn_doc, sandboxProfile), e);
}

/* ---- how far its work is ---- */

static uint64_t moved(uint64_t count, int by)
{
	uint64_t now = (count == VIEW_ABSENT ? 0 : count) + (uint64_t)(int64_t)by;

	return now > INT64_MAX ? 0 : now; /* never below nothing */
}

/* Only the runtime's own: what a client says of its phases changes no status. */
int view_turn_on_run_status(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev), ending = jval_get(payload, "ending");
	struct turn_doc d;
	int r = event_from_client(ev) ? 1 : load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_string(d.phase, jval_get(payload, "phase"));
	if (ending.type == JT_OBJECT)
		d.ending = ending;
	return view_save(m, &turn_schema, d.turnId, &d, e);
}

int view_turn_on_catalog(struct models *m, const struct event_view *ev, struct err *e)
{
	struct turn_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	d.catalog = true;
	return view_save(m, &turn_schema, d.turnId, &d, e);
}

int view_turn_on_tool_started(struct models *m, const struct event_view *ev, struct err *e)
{
	uint64_t part = jval_uint(jval_get(event_payload(ev), "part"), VIEW_ABSENT);
	struct turn_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	d.openCalls = moved(d.openCalls, 1);
	if (part != VIEW_ABSENT)
		d.partsStarted = part + 1;
	return view_save(m, &turn_schema, d.turnId, &d, e);
}

int view_turn_on_tool_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	uint64_t part = jval_uint(jval_get(event_payload(ev), "part"), VIEW_ABSENT);
	struct turn_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	/* One that was refused before it began was never open. */
	if (jval_get(event_payload(ev), "stage").type == JT_STRING) {
		if (part != VIEW_ABSENT && (d.partsStarted == VIEW_ABSENT || d.partsStarted <= part))
			d.partsStarted = part + 1;
	} else {
		d.openCalls = moved(d.openCalls, -1);
	}
	if (part != VIEW_ABSENT) {
		d.partsEnded = moved(d.partsEnded, 1);
		if (ev->type == EVENT_TOOL_FAILED) {
			d.partsFailed = moved(d.partsFailed, 1);
			if (!d.failedCallId[0])
				event_id_copy(ev, ID_TOOL_CALL, d.failedCallId, sizeof(d.failedCallId));
		}
	}
	return view_save(m, &turn_schema, d.turnId, &d, e);
}

int view_turn_on_action_required(struct models *m, const struct event_view *ev, struct err *e)
{
	struct turn_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	d.openActions = moved(d.openActions, 1);
	if (!turn_doc_ended(&d) && d.startedAt)
		view_set_string(d.status, view_action_waiting(jval_get(event_payload(ev), "actionType")));
	return view_save(m, &turn_schema, d.turnId, &d, e);
}

int view_turn_on_action_resolved(struct models *m, const struct event_view *ev, struct err *e)
{
	struct turn_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	d.openActions = moved(d.openActions, -1);
	if (!turn_doc_ended(&d) && d.startedAt && !d.openActions)
		view_set_string(d.status, "running");
	return view_save(m, &turn_schema, d.turnId, &d, e);
}
