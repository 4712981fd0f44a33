#include "runtime/view/projections.h"

#include "runtime/base/mem.h"
#include "runtime/store/store.h"

#include <inttypes.h>

/*
 * What process.started said is kept verbatim, because recovery works from it. Bytes and previews of the outputs are in
 * documents of their own (view_output.c) and joined when a process is read: counting output must not rewrite this one.
 */
static const struct view_field fields[] = {
	VIEW_FIELD(VIEW_ID, process_doc, processId),
	VIEW_FIELD(VIEW_ID, process_doc, status), /* running, completed, failed, terminated, lost */
	VIEW_FIELD(VIEW_ID, process_doc, statusReason),
	VIEW_FIELD(VIEW_ID, process_doc, actionId), /* the question about its permission, if there was one */
	VIEW_FIELD(VIEW_JSON, process_doc, command),
	VIEW_FIELD(VIEW_JSON, process_doc, commandTruncated),
	VIEW_FIELD(VIEW_JSON, process_doc, commandRef),
	VIEW_FIELD(VIEW_JSON, process_doc, commandLine),
	VIEW_FIELD(VIEW_JSON, process_doc, cwd),
	VIEW_FIELD(VIEW_JSON, process_doc, tty),
	VIEW_FIELD(VIEW_JSON, process_doc, pid),
	VIEW_FIELD(VIEW_TIME, process_doc, startedAt),
	VIEW_FIELD(VIEW_TIME, process_doc, endedAt),
	VIEW_FIELD(VIEW_JSON, process_doc, exitCode),
	VIEW_FIELD(VIEW_JSON, process_doc, signal),
	VIEW_FIELD(VIEW_JSON, process_doc, durationMs),
	VIEW_FIELD(VIEW_JSON, process_doc, category),
	VIEW_FIELD(VIEW_JSON, process_doc, stage),
	VIEW_FIELD(VIEW_JSON, process_doc, errnoName),
	VIEW_FIELD(VIEW_JSON, process_doc, message),
	VIEW_FIELD(VIEW_JSON, process_doc, limit), /* which one ended it */
	VIEW_FIELD(VIEW_JSON, process_doc, requestedBy),
	VIEW_FIELD(VIEW_JSON, process_doc, treeEmpty),
	VIEW_FIELD(VIEW_JSON, process_doc, leftBehind),
	VIEW_FIELD(VIEW_JSON, process_doc, usage),
	VIEW_FIELD(VIEW_JSON, process_doc, benignRefusals),
	VIEW_FIELD(VIEW_JSON, process_doc, network), /* what it reached through the proxy */
	VIEW_FIELD(VIEW_JSON, process_doc, autorun), /* autorun files that changed, or why that is not known */
	VIEW_FIELD(VIEW_JSON, process_doc, sandboxProfile),
	VIEW_FIELD(VIEW_JSON, process_doc, planHash),
	VIEW_FIELD(VIEW_JSON, process_doc, cow), /* true: it ran on copies of its write roots */
	VIEW_FIELD(VIEW_JSON, process_doc, limits),
	{ "stdin", VIEW_JSON, offsetof(struct process_doc, stdinMode) },
	{ "stderr", VIEW_JSON, offsetof(struct process_doc, stderrMode) },
	VIEW_FIELD(VIEW_FLAG, process_doc, stdinClosed),
	VIEW_FIELD(VIEW_JSON, process_doc, keepTree),
	VIEW_FIELD(VIEW_JSON, process_doc,
		   commandExited), /* keepTree: how the command ended, while the rest of its tree goes on */
	VIEW_FIELD(VIEW_JSON, process_doc, onDisconnect),
	VIEW_FIELD(VIEW_JSON, process_doc, startTime),
	VIEW_FIELD(VIEW_JSON, process_doc, bootId),
	VIEW_FIELD(VIEW_JSON, process_doc, startedBootNs),
	VIEW_FIELD(VIEW_JSON, process_doc, attempt), /* at starting it */
	VIEW_FIELD(VIEW_JSON, process_doc, ownsTurn),
	VIEW_FIELD(VIEW_JSON, process_doc, owner), /* what it works for, if not for a client */
	VIEW_FIELD(VIEW_JSON, process_doc, outputRefs),
	VIEW_FIELD(VIEW_ID, process_doc, sessionId),
	VIEW_FIELD(VIEW_ID, process_doc, threadId),
	VIEW_FIELD(VIEW_ID, process_doc, turnId),
	VIEW_FIELD(VIEW_ID, process_doc, taskId),
	VIEW_FIELD(VIEW_ID, process_doc, toolCallId),
	VIEW_FIELD(VIEW_ID, process_doc, traceId),
	VIEW_FIELD(VIEW_ID, process_doc, runId),
	VIEW_FIELD(VIEW_ID, process_doc, attemptId),
	VIEW_FIELD(VIEW_ID, process_doc, stepId),
	VIEW_FIELD(VIEW_ID, process_doc, jobId),
	VIEW_FIELD(VIEW_ID, process_doc, jobItemId),
	VIEW_FIELD(VIEW_ID, process_doc, subagentId),
	VIEW_FIELD(VIEW_UINT, process_doc, uid),
	VIEW_FIELD(VIEW_UINT, process_doc, endSequence), /* of its terminal event: what retention goes by */
};
const struct view_schema process_schema = { VIEW_PROCESS, sizeof(struct process_doc), fields, countof(fields) };

void view_ended_owner(uint64_t end_sequence, char ret[VIEW_ENDED_KEY_MAX])
{
	(void)snprintf(ret, VIEW_ENDED_KEY_MAX, "%020" PRIu64, end_sequence);
}

/* The event's process, whose document may be a fresh one. 1 when the event names none. */
static int load(struct models *m, const struct event_view *ev, struct process_doc *d, struct err *e)
{
	char id[VIEW_ID_MAX];

	event_id_copy(ev, ID_PROCESS, id, sizeof(id));
	if (!*id)
		return 1;
	if (view_load(m, &process_schema, id, d, e) < 0)
		return -1;
	if (!d->processId[0]) {
		view_set_string(d->processId, id);
		view_set_string(d->status, "running");
		event_id_copy(ev, ID_SESSION, d->sessionId, sizeof(d->sessionId));
		event_id_copy(ev, ID_THREAD, d->threadId, sizeof(d->threadId));
		event_id_copy(ev, ID_TURN, d->turnId, sizeof(d->turnId));
		event_id_copy(ev, ID_TASK, d->taskId, sizeof(d->taskId));
		event_id_copy(ev, ID_TOOL_CALL, d->toolCallId, sizeof(d->toolCallId));
		d->uid = ev->uid;
	}
	return 0;
}

static int list_everywhere(struct models *m, const struct process_doc *d, struct err *e)
{
	if (view_list_put(m, VIEW_SESSION_PROCESS, d->sessionId, d->processId, e) < 0)
		return -1;
	return view_list_put(m, VIEW_TURN_PROCESS, d->turnId, d->processId, e);
}

int view_process_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct process_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (process_doc_ended(&d))
		return 0;
	view_copy_members(&process_schema, &d, payload);
	event_id_copy(ev, ID_TRACE, d.traceId, sizeof(d.traceId));
	event_id_copy(ev, ID_RUN, d.runId, sizeof(d.runId));
	event_id_copy(ev, ID_ATTEMPT, d.attemptId, sizeof(d.attemptId));
	event_id_copy(ev, ID_STEP, d.stepId, sizeof(d.stepId));
	event_id_copy(ev, ID_JOB, d.jobId, sizeof(d.jobId));
	event_id_copy(ev, ID_JOB_ITEM, d.jobItemId, sizeof(d.jobItemId));
	event_id_copy(ev, ID_SUBAGENT, d.subagentId, sizeof(d.subagentId));
	d.sandboxProfile = jval_get(payload, "profile");
	view_set_string(d.status, "running");
	d.startedAt = ev->real_us;
	bool cow = jval_bool(d.cow, false);
	if (view_save(m, &process_schema, d.processId, &d, e) < 0 || list_everywhere(m, &d, e) < 0)
		return -1;
	if (cow && view_list_put(m, VIEW_COW_PROCESS, d.processId, NULL, e) < 0)
		return -1;
	return view_list_put(m, VIEW_LIVE_PROCESS, d.processId, NULL, e);
}

/* It waits for a person; what it would run is known. */
int view_process_on_requested(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct process_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (process_doc_ended(&d))
		return 0;
	view_copy_members(&process_schema, &d, payload);
	d.sandboxProfile = jval_get(payload, "profile");
	view_set_string(d.status, "waiting_permission");
	event_id_copy(ev, ID_ACTION, d.actionId, sizeof(d.actionId));
	return view_save(m, &process_schema, d.processId, &d, e) < 0 ? -1 : list_everywhere(m, &d, e);
}

/* The end of a copy-on-write run, or of its changes: nothing of it is kept any more. */
int view_process_on_artifact(struct models *m, const struct event_view *ev, struct err *e)
{
	char id[VIEW_ID_MAX];

	event_id_copy(ev, ID_PROCESS, id, sizeof(id));
	if (!*id || event_from_client(ev) || jval_bool(jval_get(event_payload(ev), "kept"), true))
		return 0;
	return view_list_del(m, VIEW_COW_PROCESS, id, NULL, e);
}

/* A terminal's input goes on after an end of file; what changes is its size. */
int view_process_on_input(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev), kind = jval_get(payload, "kind");
	bool resized = jval_is_str(kind, "resize");
	struct process_doc d;
	char tty[64];
	int r;

	if (!resized && !jval_is_str(kind, "eof"))
		return 0;
	r = load(m, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	if (d.tty.type == JT_OBJECT && !resized)
		return 0;
	if (resized) {
		int n = snprintf(tty, sizeof(tty), "{\"rows\":%" PRIu64 ",\"cols\":%" PRIu64 "}",
				 jval_uint(jval_get(payload, "rows"), 0), jval_uint(jval_get(payload, "cols"), 0));
		d.tty = jval_of(tty, (size_t)n);
	} else {
		d.stdinClosed = true;
	}
	return view_save(m, &process_schema, d.processId, &d, e);
}

int view_process_on_command_exited(struct models *m, const struct event_view *ev, struct err *e)
{
	struct process_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (process_doc_ended(&d))
		return 0;
	d.commandExited = jval_get(event_payload(ev), "commandExited");
	return view_save(m, &process_schema, d.processId, &d, e);
}

static void set_end(const struct event_view *ev, struct process_doc *d)
{
	struct jval payload = event_payload(ev);

	view_copy_members(&process_schema, d, payload);
	if (jval_get(payload, "profile").type == JT_STRING)
		d->sandboxProfile = jval_get(payload, "profile");
	view_copy_string(d->statusReason, event_member(ev, "statusReason"));
	switch (ev->type) {
	case EVENT_PROCESS_COMPLETED: view_set_string(d->status, "completed"); break;
	case EVENT_PROCESS_TERMINATED:
		view_set_string(d->status, "terminated");
		if (!d->statusReason[0])
			view_copy_string(d->statusReason, jval_get(payload, "reason"));
		break;
	default: {
		struct jval status = event_member(ev, "status");

		view_set_string(d->status, jval_is_str(status, "lost") ? "lost" : "failed");
		if (!d->statusReason[0] && jval_is_str(status, "timed_out"))
			view_set_string(d->statusReason, "timed_out");
	}
	}
	d->endedAt = ev->real_us;
	d->endSequence = ev->sequence;
}

/* Whether it leaves anything behind that retention removes. */
static bool has_outputs(const struct process_doc *d)
{
	struct jiter it = jiter_on(d->outputRefs);

	return d->commandRef.type == JT_STRING || jiter_next(&it);
}

int view_process_on_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	char owner[VIEW_ENDED_KEY_MAX] = "";
	struct process_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (process_doc_ended(&d))
		return 0;
	set_end(ev, &d);
	if (has_outputs(&d))
		view_ended_owner(d.endSequence, owner);
	if (view_save(m, &process_schema, d.processId, &d, e) < 0 || list_everywhere(m, &d, e) < 0 ||
	    view_list_put(m, VIEW_ENDED_PROCESS, owner, d.processId, e) < 0)
		return -1;
	return view_list_del(m, VIEW_LIVE_PROCESS, d.processId, NULL, e);
}

/* The outputs of a process expire together, so the first one takes it from the list. */
int view_process_on_output_expired(struct models *m, const struct event_view *ev, struct err *e)
{
	char owner[VIEW_ENDED_KEY_MAX];
	struct process_doc d;
	int r = load(m, ev, &d, e);

	if (r || d.endSequence == VIEW_ABSENT)
		return r < 0 ? -1 : 0;
	view_ended_owner(d.endSequence, owner);
	return view_list_del(m, VIEW_ENDED_PROCESS, owner, d.processId, e);
}
