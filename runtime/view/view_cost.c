/*
 * Costs, limits, routing and model requests. A cost is added to one document for each scope: session, thread, turn,
 * task, model, and the user's total, day and month. A budget check or a snapshot then reads one document instead of
 * summing events. Days and months are UTC. Amounts are whole millionths of a dollar, so that sums are
 * exact.
 */

#include "runtime/view/view_cost.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/event/payloads.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

void cost_key(enum cost_of of, const char *a, uint32_t uid, uint64_t real_us, char ret[VIEW_COST_KEY])
{
	char day[CLOCK_TEXT_MAX];

	switch (of) {
	case COST_OF_SESSION: snprintf(ret, VIEW_COST_KEY, "session/%.80s", a); break;
	case COST_OF_TURN: snprintf(ret, VIEW_COST_KEY, "turn/%.80s", a); break;
	case COST_OF_THREAD: snprintf(ret, VIEW_COST_KEY, "thread/%.80s", a); break;
	case COST_OF_TASK: snprintf(ret, VIEW_COST_KEY, "task/%.80s", a); break;
	case COST_OF_USER: snprintf(ret, VIEW_COST_KEY, "user/%u", uid); break;
	case COST_OF_USER_DAY:
		clock_format(real_us, day);
		snprintf(ret, VIEW_COST_KEY, "user/%u/day/%.10s", uid, day);
		break;
	case COST_OF_USER_MONTH:
		clock_format(real_us, day);
		snprintf(ret, VIEW_COST_KEY, "user/%u/month/%.7s", uid, day);
		break;
	case COST_OF_MODEL: snprintf(ret, VIEW_COST_KEY, "model/%u/%.160s", uid, a); break;
	}
}

void limit_key(uint32_t uid, const char *kind, const char *provider, const char *model, char ret[VIEW_COST_KEY])
{
	snprintf(ret, VIEW_COST_KEY, "%u/%.20s/%.80s/%.80s", uid, kind, provider, model && *model ? model : "*");
}

/* ---- projections ---- */

/* Clients report either microUsd or a decimal amount. Amounts that are not positive or absurdly large count as 0. */
static uint64_t micro_usd_of(struct jval payload)
{
	struct jval micro = jval_get(payload, "microUsd"), amount = jval_get(payload, "amount");
	char text[40];

	if (micro.type == JT_NUMBER)
		return jval_uint(micro, 0);
	if (amount.type != JT_NUMBER || amount.len >= sizeof text)
		return 0;
	memcpy(text, amount.text, amount.len);
	text[amount.len] = '\0';
	double v = strtod(text, NULL);
	return v > 0 && v < 1e9 ? (uint64_t)(v * 1e6 + 0.5) : 0;
}

static uint64_t add_count(uint64_t n, uint64_t more) { return view_counted(n) + more; }

/* Adds the event's amount and tokens to one scope's document. Of estimates only the last one is kept. */
static int add_cost(struct models *m, const struct event_view *ev, const char *key, struct err *e)
{
	struct jval payload = event_payload(ev), tokens = event_payload_member(ev, "tokens");
	struct cost_doc d;

	if (view_load(m, &cost_schema, key, &d, e) < 0)
		return -1;
	if (ev->type == EVENT_COST_ESTIMATED) {
		d.estimatedMicroUsd = micro_usd_of(payload);
		return view_save(m, &cost_schema, key, &d, e);
	}
	d.microUsd = add_count(d.microUsd, micro_usd_of(payload));
	d.inputTokens = add_count(d.inputTokens, jval_uint(jval_get(tokens, "input"), 0));
	d.outputTokens = add_count(d.outputTokens, jval_uint(jval_get(tokens, "output"), 0));
	d.cachedTokens = add_count(d.cachedTokens, jval_uint(jval_get(tokens, "cached"), 0));
	d.requests = add_count(d.requests, 1);
	d.updatedAt = ev->real_us;
	return view_save(m, &cost_schema, key, &d, e);
}

/* The session, thread, turn and task of the event. */
static int add_to_scopes(struct models *m, const struct event_view *ev, struct err *e)
{
	static const struct {
		enum id_field field;
		enum cost_of of;
	} ids[] = { { ID_SESSION, COST_OF_SESSION },
		    { ID_THREAD, COST_OF_THREAD },
		    { ID_TURN, COST_OF_TURN },
		    { ID_TASK, COST_OF_TASK } };
	char key[VIEW_COST_KEY], id[ID_SIZE];

	for (size_t i = 0; i < countof(ids); i++) {
		event_id_copy(ev, ids[i].field, id, sizeof id);
		if (!*id)
			continue;
		cost_key(ids[i].of, id, ev->uid, ev->real_us, key);
		if (add_cost(m, ev, key, e) < 0)
			return -1;
	}
	return 0;
}

int view_cost_on_estimated(struct models *m, const struct event_view *ev, struct err *e)
{
	return add_to_scopes(m, ev, e);
}

/* An event counts once in each scope that it names, and always for its user. */
int view_cost_on_recorded(struct models *m, const struct event_view *ev, struct err *e)
{
	static const enum cost_of uids[] = { COST_OF_USER, COST_OF_USER_DAY, COST_OF_USER_MONTH };
	char key[VIEW_COST_KEY], provider[ID_SIZE], model[ID_SIZE];

	if (add_to_scopes(m, ev, e) < 0)
		return -1;
	for (size_t i = 0; i < countof(uids); i++) {
		cost_key(uids[i], NULL, ev->uid, ev->real_us, key);
		if (add_cost(m, ev, key, e) < 0)
			return -1;
	}
	jval_str(event_payload_member(ev, "provider"), provider, sizeof provider);
	jval_str(event_payload_member(ev, "model"), model, sizeof model);
	if (!*provider)
		return 0;
	char name[2 * ID_SIZE];
	snprintf(name, sizeof name, "%s/%s", provider, model);
	cost_key(COST_OF_MODEL, name, ev->uid, ev->real_us, key);
	return add_cost(m, ev, key, e);
}

/* Limits that a provider reported. Budgets of the policy have no document. */
int view_limit_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	struct limit_changed_json changed;
	char key[VIEW_COST_KEY], kind[ID_SIZE], provider[ID_SIZE], model[ID_SIZE];
	struct limit_doc d;

	read_limit_changed(ev, &changed);
	jval_str(changed.kind, kind, sizeof kind);
	jval_str(changed.provider, provider, sizeof provider);
	jval_str(changed.model, model, sizeof model);
	if (!*kind || !*provider)
		return 0; /* a budget of the policy: computed from costs */
	limit_key(ev->uid, kind, provider, model, key);
	if (view_load(m, &limit_schema, key, &d, e) < 0)
		return -1;
	id_copy(d.kind, kind);
	view_copy_string(d.state, jval_get(changed.new, "state"));
	d.provider = changed.provider;
	d.model = changed.model;
	d.remaining = jval_get(changed.new, "remaining");
	d.resetAt = changed.resetAt;
	d.resetUs = VIEW_ABSENT;
	view_copy_time(&d.resetUs, d.resetAt);
	d.uid = ev->uid;
	d.updatedAt = ev->real_us;
	return view_save(m, &limit_schema, key, &d, e);
}

/* ---- for snapshots ---- */

int view_write_cost(struct store *s, enum cost_of of, const char *id, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	char key[VIEW_COST_KEY];
	struct cost_doc d;

	cost_key(of, id, 0, 0, key);
	int r = view_read(s, &cost_schema, key, &text, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	jw_kobj(w, "costState");
	jw_kstr(w, "currency", "USD");
	jw_key(w, "amount");
	jw_real(w, (double)view_counted(d.microUsd) / 1e6);
	jw_kuint(w, "microUsd", view_counted(d.microUsd));
	jw_kuint(w, "inputTokens", view_counted(d.inputTokens));
	jw_kuint(w, "outputTokens", view_counted(d.outputTokens));
	jw_kuint(w, "cachedTokens", view_counted(d.cachedTokens));
	jw_kuint(w, "requests", view_counted(d.requests));
	if (d.estimatedMicroUsd != VIEW_ABSENT)
		jw_kuint(w, "estimatedMicroUsd", d.estimatedMicroUsd);
	jw_obj_end(w);
	return 0;
}

struct limit_listing {
	struct jw *w;
	size_t count;
};

static bool write_limit(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct limit_listing *l = ctx;

	if (l->count++ == 0) {
		jw_kobj(l->w, "limitState");
		jw_karr(l->w, "limits");
	}
	jw_raw(l->w, json, len);
	/* A bound for snapshots; the engine reads limits by key. */
	return l->count < 64;
}

/* The object is opened with the first limit: a snapshot without limits has no such member. */
int view_write_limits(struct store *s, uint32_t uid, struct jw *w, struct err *e)
{
	struct limit_listing l = { .w = w };
	char prefix[16];

	snprintf(prefix, sizeof prefix, "%u/", uid);
	if (store_model_scan(s, VIEW_LIMIT, prefix, NULL, false, write_limit, &l, e) < 0)
		return -1;
	if (l.count) {
		jw_arr_end(w);
		jw_obj_end(w);
	}
	return 0;
}

/* ---- routing ---- */

/* One member of a routing event, into the documents of its turn, its thread and its session. */
int view_routing_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	static const enum id_field owners[] = { ID_TURN, ID_THREAD, ID_SESSION };
	bool fallback = ev->type == EVENT_ROUTING_FALLBACK_APPLIED;
	const char *member = ev->type == EVENT_TASK_PROFILE_RESOLVED         ? "taskProfile"
			     : ev->type == EVENT_ROUTING_CANDIDATES_RESOLVED ? "candidateModelSet"
									     : "routingDecision";
	struct jval v = event_payload_member(ev, member);

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

/* A completion without its request creates the document, too. */
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
	if (delta) {
		d.deltas = view_add(d.deltas, 1);
		d.offset = jval_uint(event_payload_member(ev, "offset"), d.offset);
	} else {
		view_copy_payload(&model_request_schema, &d, ev);
	}
	if (!delta && !requested) {
		id_copy(d.status, ev->type == EVENT_MODEL_COMPLETED ? "completed" : "failed");
		d.endedAt = ev->real_us;
	}
	if (view_save(m, &model_request_schema, key, &d, e) < 0)
		return -1;
	if (delta)
		return 0;
	if (requested && !event_from_client(ev) &&
	    view_list_put(m, VIEW_TURN_REQUEST, d.turnId, d.modelRequestId, e) < 0)
		return -1;
	return requested ? view_list_put(m, VIEW_TURN_OPEN_REQUEST, d.turnId, d.modelRequestId, e)
			 : view_list_del(m, VIEW_TURN_OPEN_REQUEST, d.turnId, d.modelRequestId, e);
}

/* ---- for snapshots ---- */

/* The turn's members are written into the turn itself, the thread's into an object of its own. 1: nothing was routed.
 */
int view_write_routing(struct store *s, const char *id, bool of_turn, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct routing_doc d;
	int r = view_read(s, &routing_schema, id, &text, &d, e);

	if (r)
		return r;
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
	const int r = view_write_routing(s, thread_id ? thread_id : session_id, false, w, e);
	if (r < 0)
		return -1;
	if (r > 0)
		jw_kstr(w, "status", "not_applicable");
	if (view_write_cost(s, thread_id ? COST_OF_THREAD : COST_OF_SESSION, thread_id ? thread_id : session_id, w, e) <
	    0)
		return -1;
	if (view_write_limits(s, uid, w, e) < 0)
		return -1;
	jw_obj_end(w);
	return 0;
}
