#include "runtime/event/payloads.h"
#include "runtime/view/projections.h"

/* A hook has a document while it runs; what it answered is in its events. */
int view_hook_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct hook_started_json started;
	struct hook_doc d;

	read_hook_started(ev, &started);
	view_create(&hook_schema, ev, &d);
	view_copy_members(&hook_schema, &d, event_payload(ev));
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

	view_copy_string(id, jval_get(event_payload(ev), "processId"));
	return view_list_del(m, VIEW_HOOK, id, NULL, e);
}

/* A stop hook continued the turn. */
int view_turn_on_hook(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct turn_doc d;
	char id[ID_SIZE];

	event_id_copy(ev, ID_TURN, id, sizeof(id));
	if (!*id || !jval_is_str(jval_get(payload, "hookPoint"), "stop") ||
	    !jval_is_str(jval_get(payload, "decision"), "block"))
		return 0;
	int r = view_load(m, &turn_schema, id, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	d.stopBlocked = true;
	return view_save(m, &turn_schema, id, &d, e);
}

/* Context that a hook added when the session started. */
int view_session_on_hook(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev), refs = jval_get(payload, "additionalContextRefs");
	struct session_doc d;
	char id[ID_SIZE];

	event_id_copy(ev, ID_SESSION, id, sizeof(id));
	if (!*id || refs.type != JT_ARRAY || !jval_is_str(jval_get(payload, "hookPoint"), "session_start"))
		return 0;
	int r = view_load(m, &session_schema, id, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	d.hookContextRefs = refs;
	return view_save(m, &session_schema, id, &d, e);
}
