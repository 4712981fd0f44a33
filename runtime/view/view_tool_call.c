#include "runtime/view/projections.h"

#include "runtime/base/mem.h"

static const struct view_field fields[] = {
	VIEW_FIELD(VIEW_ID, tool_call_doc, toolCallId),
	VIEW_FIELD(VIEW_ID, tool_call_doc, stepId),
	VIEW_FIELD(VIEW_ID, tool_call_doc, toolName),
	VIEW_FIELD(VIEW_ID, tool_call_doc, status), /* running, completed, failed, cancelled, timed_out, lost */
	VIEW_FIELD(VIEW_JSON, tool_call_doc, statusReason),
	VIEW_FIELD(VIEW_ID, tool_call_doc, runner), /* runtime, external (a registered tool), client (its own doing) */
	VIEW_FIELD(VIEW_JSON, tool_call_doc, owner),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, flags),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, policy),
	VIEW_FIELD(VIEW_UINT, tool_call_doc, part), /* of its turn's input; absent when it was invoked */
	VIEW_FIELD(VIEW_JSON, tool_call_doc, safeArgs),
	VIEW_FIELD(VIEW_JSON, tool_call_doc,
		   argumentsHash), /* of what was asked for, before hooks: the same id with others is another call */
	VIEW_FIELD(VIEW_ID, tool_call_doc, inputRef),
	VIEW_FIELD(VIEW_ID, tool_call_doc, updatedInputRef),
	VIEW_FIELD(VIEW_ID, tool_call_doc, processId),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, rawOutputRef),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, structuredContentRef),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, displayPreview),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, artifactRefs),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, permissionRef),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, sandboxRef),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, hookRefs),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, hookContextRefs), /* what hooks said to its end */
	VIEW_FIELD(VIEW_JSON, tool_call_doc, hookReason),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, updatedOutputRef),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, exitCode),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, category),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, message),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, retryable),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, advice),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, errorRef),
	VIEW_FIELD(VIEW_TIME, tool_call_doc, startedAt),
	VIEW_FIELD(VIEW_TIME, tool_call_doc, endedAt),
	VIEW_FIELD(VIEW_ID, tool_call_doc, sessionId),
	VIEW_FIELD(VIEW_ID, tool_call_doc, threadId),
	VIEW_FIELD(VIEW_ID, tool_call_doc, turnId),
	VIEW_FIELD(VIEW_ID, tool_call_doc, taskId),
	VIEW_FIELD(VIEW_ID, tool_call_doc, traceId),
	VIEW_FIELD(VIEW_JSON, tool_call_doc, requestedBy),
	VIEW_FIELD(VIEW_UINT, tool_call_doc, connection), /* of the owner of an external tool */
	VIEW_FIELD(VIEW_UINT, tool_call_doc, uid),
};
const struct view_schema tool_call_schema = { VIEW_TOOL_CALL, sizeof(struct tool_call_doc), fields, countof(fields) };

/* The event's call, whose document may be a fresh one. 1 when the event names none. */
static int load(struct models *m, const struct event_view *ev, struct tool_call_doc *d, struct err *e)
{
	char id[VIEW_ID_MAX];

	event_id_copy(ev, ID_TOOL_CALL, id, sizeof(id));
	if (!*id)
		return 1;
	if (view_load(m, &tool_call_schema, id, d, e) < 0)
		return -1;
	if (!d->toolCallId[0]) {
		view_set_string(d->toolCallId, id);
		view_set_string(d->status, "running");
		event_id_copy(ev, ID_SESSION, d->sessionId, sizeof(d->sessionId));
		event_id_copy(ev, ID_THREAD, d->threadId, sizeof(d->threadId));
		event_id_copy(ev, ID_TURN, d->turnId, sizeof(d->turnId));
		event_id_copy(ev, ID_STEP, d->stepId, sizeof(d->stepId));
		event_id_copy(ev, ID_TASK, d->taskId, sizeof(d->taskId));
		event_id_copy(ev, ID_TRACE, d->traceId, sizeof(d->traceId));
		d->uid = ev->uid;
	}
	return 0;
}

int view_tool_call_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct tool_call_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&tool_call_schema, &d, payload);
	view_copy_string(d.toolName, jval_get(payload, "toolName"));
	view_copy_string(d.runner, jval_get(payload, "runner"));
	d.part = jval_uint(jval_get(payload, "part"), VIEW_ABSENT);
	d.connection = jval_uint(jval_get(jval_get(payload, "owner"), "connection"), VIEW_ABSENT);
	d.startedAt = ev->real_us;
	if (view_save(m, &tool_call_schema, d.toolCallId, &d, e) < 0 ||
	    view_list_put(m, VIEW_TURN_TOOL_CALL, d.turnId, d.toolCallId, e) < 0 ||
	    view_list_put(m, VIEW_TURN_OPEN_CALL, d.turnId, d.toolCallId, e) < 0)
		return -1;
	return view_list_put(m, VIEW_LIVE_TOOL_CALL, d.toolCallId, NULL, e);
}

int view_tool_call_on_args(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct tool_call_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&tool_call_schema, &d, payload);
	view_copy_string(d.inputRef, jval_get(payload, "inputRef"));
	view_copy_string(d.updatedInputRef, jval_get(payload, "updatedInputRef"));
	return view_save(m, &tool_call_schema, d.toolCallId, &d, e);
}

int view_tool_call_on_progress(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval preview = jval_get(event_payload(ev), "preview");
	struct tool_call_doc d;
	int r = load(m, ev, &d, e);

	if (r || preview.type != JT_STRING)
		return r < 0 ? -1 : 0;
	d.displayPreview = preview;
	return view_save(m, &tool_call_schema, d.toolCallId, &d, e);
}

int view_tool_call_on_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval reason = event_member(ev, "statusReason");
	struct tool_call_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&tool_call_schema, &d, event_payload(ev));
	view_set_string(d.status, ev->type == EVENT_TOOL_RESULT ? "completed" : "failed");
	if (ev->type == EVENT_TOOL_FAILED)
		view_copy_string(d.status, event_member(ev, "status"));
	if (!d.startedAt && jval_get(event_payload(ev), "stage").type == JT_STRING) {
		view_copy_string(d.toolName, jval_get(event_payload(ev), "toolName"));
		d.part = jval_uint(jval_get(event_payload(ev), "part"), VIEW_ABSENT);
		if (view_list_put(m, VIEW_TURN_TOOL_CALL, d.turnId, d.toolCallId, e) < 0)
			return -1;
	}
	if (reason.type == JT_STRING)
		d.statusReason = reason;
	d.endedAt = ev->real_us;
	if (view_save(m, &tool_call_schema, d.toolCallId, &d, e) < 0 ||
	    view_list_del(m, VIEW_TURN_OPEN_CALL, d.turnId, d.toolCallId, e) < 0)
		return -1;
	return view_list_del(m, VIEW_LIVE_TOOL_CALL, d.toolCallId, NULL, e);
}

/* Which process does it: only calls that are known, since start_process takes any call's id. */
int view_tool_call_on_process(struct models *m, const struct event_view *ev, struct err *e)
{
	struct tool_call_doc d;
	int r;

	if (!jval_is_str(jval_get(jval_get(event_payload(ev), "owner"), "kind"), "tool"))
		return 0;
	r = load(m, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	event_id_copy(ev, ID_PROCESS, d.processId, sizeof(d.processId));
	return view_save(m, &tool_call_schema, d.toolCallId, &d, e);
}

/* A hook looked at how it ended. What one says stands until another says something. */
int view_tool_call_on_hook(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev), refs = jval_get(payload, "additionalContextRefs"),
		    point = jval_get(payload, "hookPoint");
	struct jval reason = jval_get(payload, "reason"), output = jval_get(payload, "updatedToolOutputRef");
	struct tool_call_doc d;
	int r;

	if (!jval_is_str(point, "post_tool_use") && !jval_is_str(point, "post_tool_failure"))
		return 0;
	r = load(m, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	if (refs.type == JT_ARRAY && refs.len > 2)
		d.hookContextRefs = refs;
	if (reason.type == JT_STRING)
		d.hookReason = reason;
	if (output.type == JT_STRING)
		d.updatedOutputRef = output;
	return view_save(m, &tool_call_schema, d.toolCallId, &d, e);
}
