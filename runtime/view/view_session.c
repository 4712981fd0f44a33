#include "runtime/view/projections.h"

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
	if (!jval_is_str(jval_get(p->payload, "source"), "system")) {
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
	struct jval mode = jval_get(p->payload, "mode"), rules = jval_get(p->payload, "permissions");
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
	struct jval payload = event_payload(ev);
	char session[ID_SIZE], binding[ID_SIZE];

	if (!jval_is_str(jval_get(payload, "outcome"), "allowed") ||
	    (!jval_is_str(jval_get(payload, "scope"), "session") && !jval_is_str(jval_get(payload, "scope"), "always")))
		return 0;
	event_id_copy(ev, ID_SESSION, session, sizeof(session));
	jval_str(jval_get(payload, "binding"), binding, sizeof(binding));
	return *session && *binding ? view_list_put(m, VIEW_SESSION_GRANT, session, binding, e) : 0;
}
