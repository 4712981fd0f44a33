#include "runtime/view/view_cost.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_write.h"

/* ---- routing ---- */

/* One member of a routing event, into the documents of its turn and its thread. */
int view_routing_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	static const enum id_field owners[] = { ID_TURN, ID_THREAD };
	bool fallback = ev->type == EVENT_ROUTING_FALLBACK_APPLIED;
	const char *member = ev->type == EVENT_TASK_PROFILE_RESOLVED         ? "taskProfile"
			     : ev->type == EVENT_ROUTING_CANDIDATES_RESOLVED ? "candidateModelSet"
									     : "routingDecision";
	struct jval v = jval_get(event_payload(ev), member);

	for (size_t i = 0; i < countof(owners); i++) {
		char id[ID_SIZE];
		struct routing_doc d;

		event_id_copy(ev, owners[i], id, sizeof id);
		if (!*id)
			continue;
		if (view_load(m, &routing_schema, id, &d, e) < 0)
			return -1;
		event_id_copy(ev, ID_TURN, d.turnId, sizeof d.turnId);
		if (v.type != JT_NONE)
			*(ev->type == EVENT_TASK_PROFILE_RESOLVED         ? &d.taskProfile
			  : ev->type == EVENT_ROUTING_CANDIDATES_RESOLVED ? &d.candidateModelSet
									  : &d.routingDecision) = v;
		d.decidedAt = ev->real_us;
		if (fallback) {
			d.fallbacks = view_add(d.fallbacks, 1);
			event_id_copy(ev, ID_MODEL_REQUEST, d.modelRequestId, sizeof d.modelRequestId);
		}
		if (view_save(m, &routing_schema, id, &d, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- requests to providers ---- */

void view_model_request_key(const char *session_id, const char *request_id, char key[VIEW_REQUEST_KEY_MAX])
{
	(void)snprintf(key, VIEW_REQUEST_KEY_MAX, "%s/%s", session_id, request_id);
}

int view_model_request_on_event(struct models *m, const struct event_view *ev, struct err *e)
{
	char id[ID_SIZE], session[ID_SIZE], key[VIEW_REQUEST_KEY_MAX];
	bool delta = ev->type == EVENT_MODEL_DELTA, requested = ev->type == EVENT_MODEL_REQUESTED;
	struct model_request_doc d;

	event_id_copy(ev, ID_MODEL_REQUEST, id, sizeof id);
	event_id_copy(ev, ID_SESSION, session, sizeof session);
	if (!*id)
		return 0;
	view_model_request_key(session, id, key);
	if (view_open(m, &model_request_schema, ev, key, &d, e) < 0)
		return -1;
	if (delta)
		d.deltas = view_add(d.deltas, 1);
	else
		view_copy_members(&model_request_schema, &d, event_payload(ev));
	if (!delta && !requested) {
		id_copy(d.status, ev->type == EVENT_MODEL_COMPLETED ? "completed" : "failed");
		d.endedAt = ev->real_us;
	}
	if (view_save(m, &model_request_schema, key, &d, e) < 0)
		return -1;
	if (delta)
		return 0;
	return requested ? view_list_put(m, VIEW_TURN_OPEN_REQUEST, d.turnId, d.modelRequestId, e)
			 : view_list_del(m, VIEW_TURN_OPEN_REQUEST, d.turnId, d.modelRequestId, e);
}

/* ---- for snapshots ---- */

int view_write_routing(struct store *s, const char *id, bool of_turn, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct routing_doc d;
	int r = view_read(s, &routing_schema, id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (!of_turn) {
		jw_kobj(w, "modelRouting");
		jw_kstr(w, "turnId", d.turnId);
	}
	view_write_json(w, "taskProfile", d.taskProfile);
	view_write_json(w, "routingDecision", d.routingDecision);
	view_write_json(w, "candidateModelSet", d.candidateModelSet);
	if (!of_turn) {
		jw_kuint(w, "fallbacks", view_counted(d.fallbacks));
		jw_obj_end(w);
	}
	return 0;
}

int view_routing_summary(struct store *s, uint32_t uid, const char *session_id, const char *thread_id, struct jw *w,
			 struct err *e)
{
	jw_obj(w);
	if (thread_id && view_write_routing(s, thread_id, false, w, e) < 0)
		return -1;
	if (view_write_cost(s, thread_id ? COST_OF_THREAD : COST_OF_SESSION, thread_id ? thread_id : session_id, w, e) <
	    0)
		return -1;
	if (view_write_limits(s, uid, w, e) < 0)
		return -1;
	jw_obj_end(w);
	return 0;
}
