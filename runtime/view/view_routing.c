#include "runtime/view/view_cost.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_write.h"

static const struct view_field routing_fields[] = {
	VIEW_FIELD(VIEW_ID, routing_doc, turnId),
	VIEW_FIELD(VIEW_ID, routing_doc, modelRequestId), /* the failed one that the last fallback answered */
	VIEW_FIELD(VIEW_JSON, routing_doc, taskProfile),
	VIEW_FIELD(VIEW_JSON, routing_doc, candidateModelSet),
	VIEW_FIELD(VIEW_JSON, routing_doc, routingDecision),
	VIEW_FIELD(VIEW_UINT, routing_doc, fallbacks),
	VIEW_FIELD(VIEW_TIME, routing_doc, decidedAt),
};
const struct view_schema routing_schema = { VIEW_ROUTING, sizeof(struct routing_doc), routing_fields,
					    countof(routing_fields) };

static const struct view_field request_fields[] = {
	VIEW_FIELD(VIEW_ID, model_request_doc, modelRequestId),
	VIEW_FIELD(VIEW_ID, model_request_doc, turnId),
	VIEW_FIELD(VIEW_ID, model_request_doc, status),
	VIEW_FIELD(VIEW_JSON, model_request_doc, provider),
	VIEW_FIELD(VIEW_JSON, model_request_doc, model),
	VIEW_FIELD(VIEW_JSON, model_request_doc, usage),
	VIEW_FIELD(VIEW_JSON, model_request_doc, stopReason),
	VIEW_FIELD(VIEW_JSON, model_request_doc, latencyMs),
	VIEW_FIELD(VIEW_JSON, model_request_doc, timeToFirstTokenMs),
	VIEW_FIELD(VIEW_JSON, model_request_doc, category),
	VIEW_FIELD(VIEW_UINT, model_request_doc, deltas),
	VIEW_FIELD(VIEW_UINT, model_request_doc, uid),
	VIEW_FIELD(VIEW_TIME, model_request_doc, startedAt),
	VIEW_FIELD(VIEW_TIME, model_request_doc, endedAt),
};
const struct view_schema model_request_schema = { VIEW_MODEL_REQUEST, sizeof(struct model_request_doc), request_fields,
						  countof(request_fields) };

/* ---- routing ---- */

/* One member of a routing event, into the documents of its turn and its thread. */
static int take(struct models *m, const struct event_view *ev, const char *member, size_t offset, struct err *e)
{
	static const enum id_field owners[] = { ID_TURN, ID_THREAD };
	struct jval v = jval_get(event_payload(ev), member);

	for (size_t i = 0; i < countof(owners); i++) {
		char id[VIEW_ID_MAX];
		struct routing_doc d;

		event_id_copy(ev, owners[i], id, sizeof id);
		if (!*id)
			continue;
		if (view_load(m, &routing_schema, id, &d, e) < 0)
			return -1;
		event_id_copy(ev, ID_TURN, d.turnId, sizeof d.turnId);
		if (v.type != JT_NONE)
			*(struct jval *)((char *)&d + offset) = v;
		d.decidedAt = ev->real_us;
		if (ev->type == EVENT_ROUTING_FALLBACK_APPLIED) {
			d.fallbacks = (d.fallbacks == VIEW_ABSENT ? 0 : d.fallbacks) + 1;
			event_id_copy(ev, ID_MODEL_REQUEST, d.modelRequestId, sizeof d.modelRequestId);
		}
		if (view_save(m, &routing_schema, id, &d, e) < 0)
			return -1;
	}
	return 0;
}

int view_routing_on_profile(struct models *m, const struct event_view *ev, struct err *e)
{
	return take(m, ev, "taskProfile", offsetof(struct routing_doc, taskProfile), e);
}

int view_routing_on_candidates(struct models *m, const struct event_view *ev, struct err *e)
{
	return take(m, ev, "candidateModelSet", offsetof(struct routing_doc, candidateModelSet), e);
}

int view_routing_on_decided(struct models *m, const struct event_view *ev, struct err *e)
{
	return take(m, ev, "routingDecision", offsetof(struct routing_doc, routingDecision), e);
}

/* ---- requests to providers ---- */

void view_model_request_key(const char *session_id, const char *request_id, char key[VIEW_REQUEST_KEY_MAX])
{
	(void)snprintf(key, VIEW_REQUEST_KEY_MAX, "%s/%s", session_id, request_id);
}

static int load_request(struct models *m, const struct event_view *ev, char key[VIEW_REQUEST_KEY_MAX],
			struct model_request_doc *d, struct err *e)
{
	char id[VIEW_ID_MAX], session[VIEW_ID_MAX];

	event_id_copy(ev, ID_MODEL_REQUEST, id, sizeof id);
	event_id_copy(ev, ID_SESSION, session, sizeof session);
	if (!*id)
		return 1;
	view_model_request_key(session, id, key);
	if (view_load(m, &model_request_schema, key, d, e) < 0)
		return -1;
	if (!d->modelRequestId[0]) {
		view_set_string(d->modelRequestId, id);
		view_set_string(d->status, "open");
		event_id_copy(ev, ID_TURN, d->turnId, sizeof d->turnId);
		d->uid = ev->uid;
		d->startedAt = ev->real_us;
	}
	return 0;
}

int view_model_request_on(struct models *m, const struct event_view *ev, struct err *e)
{
	char key[VIEW_REQUEST_KEY_MAX];
	struct model_request_doc d;
	int r = load_request(m, ev, key, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (ev->type == EVENT_MODEL_DELTA) {
		d.deltas = (d.deltas == VIEW_ABSENT ? 0 : d.deltas) + 1;
	} else {
		view_copy_members(&model_request_schema, &d, event_payload(ev));
		if (ev->type != EVENT_MODEL_REQUESTED) {
			view_set_string(d.status, ev->type == EVENT_MODEL_COMPLETED ? "completed" : "failed");
			d.endedAt = ev->real_us;
		}
	}
	if (view_save(m, &model_request_schema, key, &d, e) < 0)
		return -1;
	if (ev->type == EVENT_MODEL_DELTA)
		return 0;
	return ev->type == EVENT_MODEL_REQUESTED
		       ? view_list_put(m, VIEW_TURN_OPEN_REQUEST, d.turnId, d.modelRequestId, e)
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
		jw_kuint(w, "fallbacks", d.fallbacks == VIEW_ABSENT ? 0 : d.fallbacks);
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
