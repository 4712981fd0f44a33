#include "runtime/view/projections.h"

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"

#include <inttypes.h>

static const struct view_field fields[] = {
	VIEW_FIELD(VIEW_ID, action_doc, actionId),
	VIEW_FIELD(VIEW_ID, action_doc, actionType),
	VIEW_FIELD(VIEW_ID, action_doc, status), /* pending, resolved, timed_out, cancelled */
	VIEW_FIELD(VIEW_ID, action_doc, kind),   /* what goes on when it is answered (action_kinds.def) */
	VIEW_FIELD(VIEW_JSON, action_doc, prompt),
	VIEW_FIELD(VIEW_JSON, action_doc, schema),
	VIEW_FIELD(VIEW_JSON, action_doc, decisions),
	VIEW_FIELD(VIEW_JSON, action_doc, scope),
	VIEW_FIELD(VIEW_JSON, action_doc, policy),
	VIEW_FIELD(VIEW_ID, action_doc, defaultDecision),
	VIEW_FIELD(VIEW_TIME, action_doc, expiresAt),
	VIEW_FIELD(VIEW_TIME, action_doc, createdAt),
	VIEW_FIELD(VIEW_TIME, action_doc, resolvedAt),
	VIEW_FIELD(VIEW_ID, action_doc, decision),
	VIEW_FIELD(VIEW_ID, action_doc, source),
	VIEW_FIELD(VIEW_JSON, action_doc, resolver),
	VIEW_FIELD(VIEW_JSON, action_doc, note),
	VIEW_FIELD(VIEW_JSON, action_doc, response),
	VIEW_FIELD(VIEW_JSON, action_doc, resolvedScope),
	VIEW_FIELD(VIEW_JSON, action_doc, requestedBy),
	VIEW_FIELD(VIEW_JSON, action_doc, continuation), /* its kind's own */
	VIEW_FIELD(VIEW_ID, action_doc, sessionId),
	VIEW_FIELD(VIEW_ID, action_doc, threadId),
	VIEW_FIELD(VIEW_ID, action_doc, turnId),
	VIEW_FIELD(VIEW_ID, action_doc, stepId),
	VIEW_FIELD(VIEW_ID, action_doc, taskId),
	VIEW_FIELD(VIEW_ID, action_doc, processId),
	VIEW_FIELD(VIEW_ID, action_doc, toolCallId),
	VIEW_FIELD(VIEW_UINT, action_doc, uid),
};
const struct view_schema action_schema = { VIEW_ACTION, sizeof(struct action_doc), fields, countof(fields) };

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

void view_timed_owner(uint64_t real_us, char ret[VIEW_ENDED_KEY_MAX])
{
	(void)snprintf(ret, VIEW_ENDED_KEY_MAX, "%020" PRIu64, real_us);
}

static int load(struct models *m, const struct event_view *ev, struct action_doc *d, struct err *e)
{
	static const struct {
		enum id_field id;
		size_t offset;
	} ids[] = {
		{ ID_SESSION, offsetof(struct action_doc, sessionId) },
		{ ID_THREAD, offsetof(struct action_doc, threadId) },
		{ ID_TURN, offsetof(struct action_doc, turnId) },
		{ ID_STEP, offsetof(struct action_doc, stepId) },
		{ ID_TASK, offsetof(struct action_doc, taskId) },
		{ ID_PROCESS, offsetof(struct action_doc, processId) },
		{ ID_TOOL_CALL, offsetof(struct action_doc, toolCallId) },
	};
	char id[VIEW_ID_MAX];

	event_id_copy(ev, ID_ACTION, id, sizeof(id));
	if (!*id)
		return 1;
	if (view_load(m, &action_schema, id, d, e) < 0)
		return -1;
	if (d->actionId[0])
		return 0;
	view_set_string(d->actionId, id);
	view_set_string(d->status, "pending");
	for (size_t i = 0; i < countof(ids); i++)
		event_id_copy(ev, ids[i].id, (char *)d + ids[i].offset, VIEW_ID_MAX);
	d->uid = ev->uid;
	d->createdAt = ev->real_us;
	return 0;
}

int view_action_on_required(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	char expires[CLOCK_TEXT_MAX] = "", due[VIEW_ENDED_KEY_MAX];
	struct action_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&action_schema, &d, payload);
	view_copy_string(d.actionType, jval_get(payload, "actionType"));
	view_copy_string(d.kind, jval_get(payload, "kind"));
	view_copy_string(d.defaultDecision, jval_get(payload, "defaultDecision"));
	if (jval_str(jval_get(payload, "expiresAt"), expires, sizeof(expires)) < sizeof(expires))
		(void)clock_parse(expires, &d.expiresAt);
	if (view_save(m, &action_schema, d.actionId, &d, e) < 0 ||
	    view_list_put(m, VIEW_THREAD_ACTION, d.threadId, d.actionId, e) < 0 ||
	    view_list_put(m, VIEW_OPEN_ACTION, d.threadId, d.actionId, e) < 0 ||
	    view_list_put(m, VIEW_TURN_OPEN_ACTION, d.turnId, d.actionId, e) < 0)
		return -1;
	if (!d.expiresAt)
		return 0;
	view_timed_owner(d.expiresAt, due);
	return view_list_put(m, VIEW_TIMED_ACTION, due, d.actionId, e);
}

int view_action_on_resolved(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev), status = event_member(ev, "status"),
		    scope = jval_get(payload, "scope");
	char due[VIEW_ENDED_KEY_MAX];
	struct action_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	d.resolver = jval_get(payload, "resolver");
	d.note = jval_get(payload, "note");
	d.response = jval_get(payload, "response");
	d.resolvedScope = scope;
	view_copy_string(d.decision, jval_get(payload, "decision"));
	view_copy_string(d.source, jval_get(payload, "source"));
	view_set_string(d.status, "resolved");
	view_copy_string(d.status, status);
	d.resolvedAt = ev->real_us;
	if (view_save(m, &action_schema, d.actionId, &d, e) < 0 ||
	    view_list_del(m, VIEW_OPEN_ACTION, d.threadId, d.actionId, e) < 0 ||
	    view_list_del(m, VIEW_TURN_OPEN_ACTION, d.turnId, d.actionId, e) < 0)
		return -1;
	if (!d.expiresAt)
		return 0;
	view_timed_owner(d.expiresAt, due);
	return view_list_del(m, VIEW_TIMED_ACTION, due, d.actionId, e);
}
