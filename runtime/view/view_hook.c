#include "runtime/view/projections.h"

#include "runtime/base/mem.h"

/* A hook that runs; it is nobody's any more when it has ended. What it said is in its events. */
static const struct view_field fields[] = {
	VIEW_FIELD(VIEW_ID, hook_doc, processId), /* its own, which is its name */
	VIEW_FIELD(VIEW_ID, hook_doc, hookPoint),
	VIEW_FIELD(VIEW_JSON, hook_doc, handlerRef),
	VIEW_FIELD(VIEW_JSON, hook_doc, handler),
	VIEW_FIELD(VIEW_JSON, hook_doc, layer),
	VIEW_FIELD(VIEW_FLAG, hook_doc, failsClosed),
	VIEW_FIELD(VIEW_FLAG, hook_doc, ownsTurn), /* the turn is the process's that waits for it, and ends with that */
	VIEW_FIELD(VIEW_ID, hook_doc, waits),      /* what does: process, turn, stop; absent = nothing */
	VIEW_FIELD(VIEW_ID, hook_doc, ownerKind),  /* of that process */
	VIEW_FIELD(VIEW_ID, hook_doc, subjectId),  /* the process it is about */
	VIEW_FIELD(VIEW_ID, hook_doc, toolCallId),
	VIEW_FIELD(VIEW_ID, hook_doc, taskId),
	VIEW_FIELD(VIEW_ID, hook_doc, traceId),
	VIEW_FIELD(VIEW_ID, hook_doc, sessionId),
	VIEW_FIELD(VIEW_ID, hook_doc, threadId),
	VIEW_FIELD(VIEW_ID, hook_doc, turnId),
	VIEW_FIELD(VIEW_TIME, hook_doc, startedAt),
	VIEW_FIELD(VIEW_UINT, hook_doc, uid),
};
const struct view_schema hook_schema = { VIEW_HOOK, sizeof(struct hook_doc), fields, countof(fields) };

int view_hook_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct hook_doc d;
	char id[VIEW_ID_MAX] = "";

	view_copy_string(id, jval_get(payload, "processId"));
	if (!*id)
		return 0;
	view_clear(&hook_schema, &d);
	view_copy_members(&hook_schema, &d, payload);
	view_set_string(d.processId, id);
	view_copy_string(d.hookPoint, jval_get(payload, "hookPoint"));
	view_copy_string(d.waits, jval_get(payload, "waits"));
	view_copy_string(d.ownerKind, jval_get(payload, "ownerKind"));
	d.failsClosed = jval_bool(jval_get(payload, "failsClosed"), false);
	d.ownsTurn = jval_bool(jval_get(payload, "ownsTurn"), false);
	event_id_copy(ev, ID_PROCESS, d.subjectId, sizeof(d.subjectId));
	event_id_copy(ev, ID_TOOL_CALL, d.toolCallId, sizeof(d.toolCallId));
	event_id_copy(ev, ID_TASK, d.taskId, sizeof(d.taskId));
	event_id_copy(ev, ID_TRACE, d.traceId, sizeof(d.traceId));
	event_id_copy(ev, ID_SESSION, d.sessionId, sizeof(d.sessionId));
	event_id_copy(ev, ID_THREAD, d.threadId, sizeof(d.threadId));
	event_id_copy(ev, ID_TURN, d.turnId, sizeof(d.turnId));
	d.startedAt = ev->real_us;
	d.uid = ev->uid;
	return view_save(m, &hook_schema, id, &d, e);
}

int view_hook_on_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	char id[VIEW_ID_MAX] = "";

	view_copy_string(id, jval_get(event_payload(ev), "processId"));
	return *id ? view_list_del(m, VIEW_HOOK, id, NULL, e) : 0;
}

/* A turn that was not let go, and what a session was told at its beginning. */
int view_turn_on_hook(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct turn_doc d;
	char id[VIEW_ID_MAX];

	event_id_copy(ev, ID_TURN, id, sizeof(id));
	if (!*id || !jval_is_str(jval_get(payload, "hookPoint"), "stop") ||
	    !jval_is_str(jval_get(payload, "decision"), "block"))
		return 0;
	if (view_load(m, &turn_schema, id, &d, e) < 0)
		return -1;
	if (!d.turnId[0])
		return 0;
	d.stopBlocked = true;
	return view_save(m, &turn_schema, id, &d, e);
}

int view_session_on_hook(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev), refs = jval_get(payload, "additionalContextRefs");
	struct session_doc d;
	char id[VIEW_ID_MAX];

	event_id_copy(ev, ID_SESSION, id, sizeof(id));
	if (!*id || refs.type != JT_ARRAY || !jval_is_str(jval_get(payload, "hookPoint"), "session_start"))
		return 0;
	if (view_load(m, &session_schema, id, &d, e) < 0)
		return -1;
	if (!d.sessionId[0])
		return 0;
	d.hookContextRefs = refs;
	return view_save(m, &session_schema, id, &d, e);
}
