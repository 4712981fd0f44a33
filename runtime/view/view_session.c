#include "runtime/view/projections.h"

#include "runtime/base/mem.h"

static const struct view_field fields[] = {
	VIEW_FIELD(VIEW_ID, session_doc, sessionId),
	VIEW_FIELD(VIEW_ID, session_doc, kind), /* user, system */
	VIEW_FIELD(VIEW_JSON, session_doc, title),
	VIEW_FIELD(VIEW_JSON, session_doc, workspaceId),
	VIEW_FIELD(VIEW_JSON, session_doc, scope),
	VIEW_FIELD(VIEW_JSON, session_doc, createdBy),
	VIEW_FIELD(VIEW_JSON, session_doc, pinnedThreadIds),
	VIEW_FIELD(VIEW_JSON, session_doc, archived),
	VIEW_FIELD(VIEW_JSON, session_doc, hookContextRefs), /* what hooks added at its beginning */
	VIEW_FIELD(VIEW_ID, session_doc, firstThreadId),
	VIEW_FIELD(VIEW_ID, session_doc, systemTurnId),   /* what facts without a turn hang on */
	VIEW_FIELD(VIEW_ID, session_doc, permissionMode), /* set_permission_mode's; absent = the policy's */
	VIEW_FIELD(VIEW_JSON, session_doc, permissions),  /* its own rules; absent = none */
	VIEW_FIELD(VIEW_UINT, session_doc, turns),        /* submitted, without the runtime's own */
	VIEW_FIELD(VIEW_UINT, session_doc, tracedTurns),  /* of these, with a trace context */
	VIEW_FIELD(VIEW_UINT, session_doc, uid),
	VIEW_FIELD(VIEW_TIME, session_doc, createdAt),
	VIEW_FIELD(VIEW_TIME, session_doc, updatedAt), /* when a thread or turn of it last began or ended */
};
const struct view_schema session_schema = { VIEW_SESSION, sizeof(struct session_doc), fields, countof(fields) };

/* The event's session, whose document may be a fresh one. 1 when the event names none. */
static int load(struct models *m, const struct event_view *ev, struct session_doc *d, struct err *e)
{
	char id[VIEW_ID_MAX];

	event_id_copy(ev, ID_SESSION, id, sizeof(id));
	if (!*id)
		return 1;
	if (view_load(m, &session_schema, id, d, e) < 0)
		return -1;
	if (!d->sessionId[0]) {
		view_set_string(d->sessionId, id);
		view_set_string(d->kind, "user");
		d->uid = ev->uid;
		d->createdAt = ev->real_us;
	}
	d->updatedAt = ev->real_us;
	return 0;
}

int view_session_on_created(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct session_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&session_schema, &d, payload);
	view_copy_string(d.kind, jval_get(payload, "kind"));
	event_id_copy(ev, ID_THREAD, d.firstThreadId, sizeof(d.firstThreadId));
	return view_save(m, &session_schema, d.sessionId, &d, e);
}

int view_session_on_updated(struct models *m, const struct event_view *ev, struct err *e)
{
	struct session_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&session_schema, &d, event_payload(ev));
	return view_save(m, &session_schema, d.sessionId, &d, e);
}

int view_session_on_thread(struct models *m, const struct event_view *ev, struct err *e)
{
	char thread[VIEW_ID_MAX];
	struct session_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	event_id_copy(ev, ID_THREAD, thread, sizeof(thread));
	if (!d.firstThreadId[0])
		view_set_string(d.firstThreadId, thread);
	if (view_save(m, &session_schema, d.sessionId, &d, e) < 0)
		return -1;
	return view_list_put(m, VIEW_SESSION_THREAD, d.sessionId, thread, e);
}

int view_session_on_turn(struct models *m, const struct event_view *ev, struct err *e)
{
	struct session_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (ev->type != EVENT_TURN_SUBMITTED)
		return view_save(m, &session_schema, d.sessionId, &d, e);
	bool own = jval_is_str(jval_get(event_payload(ev), "source"), "system");
	char trace[VIEW_ID_MAX];
	event_id_copy(ev, ID_TRACE, trace, sizeof(trace));
	if (own && !d.systemTurnId[0])
		event_id_copy(ev, ID_TURN, d.systemTurnId, sizeof(d.systemTurnId));
	if (!own) {
		d.turns = (d.turns == VIEW_ABSENT ? 0 : d.turns) + 1;
		d.tracedTurns = (d.tracedTurns == VIEW_ABSENT ? 0 : d.tracedTurns) + (trace[0] != '\0');
	}
	if (view_save(m, &session_schema, d.sessionId, &d, e) < 0)
		return -1;
	return view_list_put(m, VIEW_SESSION_TRACE, d.sessionId, trace, e);
}

/* set_permission_mode, and the session's own rules. */
int view_session_on_policy(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval mode = jval_get(event_payload(ev), "mode"), rules = jval_get(event_payload(ev), "permissions");
	struct session_doc d;
	int r;

	if (mode.type != JT_STRING && rules.type != JT_OBJECT)
		return 0;
	r = load(m, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	view_copy_string(d.permissionMode, mode);
	if (rules.type == JT_OBJECT) {
		struct jiter it = jiter_on(rules);

		d.permissions = jiter_next(&it) ? rules : (struct jval){ 0 };
	}
	return view_save(m, &session_schema, d.sessionId, &d, e);
}

/* An answer that holds for the session. */
int view_session_on_permission(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	char session[VIEW_ID_MAX], binding[VIEW_ID_MAX];

	if (!jval_is_str(jval_get(payload, "outcome"), "allowed") ||
	    (!jval_is_str(jval_get(payload, "scope"), "session") && !jval_is_str(jval_get(payload, "scope"), "always")))
		return 0;
	event_id_copy(ev, ID_SESSION, session, sizeof(session));
	jval_str(jval_get(payload, "binding"), binding, sizeof(binding));
	return *session && *binding ? view_list_put(m, VIEW_SESSION_GRANT, session, binding, e) : 0;
}
