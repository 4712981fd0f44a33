#include "runtime/engine/model/routing_facts.h"

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/engine_private.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/model/cost.h"
#include "runtime/engine/work/task_private.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"

#define SHOWN_MAX 48u /* candidates of each sort that an event tells */

void engine_set_models(struct engine *g, const struct model_list *models) { g->models = models; }

/* ---- what is known of limits ---- */

struct limits_lookup {
	struct engine *engine;
	uint32_t uid;
	const char *session_id;
	uint64_t now;
};

static bool limit_holds(struct limits_lookup *l, const char *kind, const struct policy_model *m, const char *model,
			uint64_t *reset)
{
	buf_auto struct buf text = BUF_INIT;
	char key[VIEW_COST_KEY];
	struct limit_doc d;
	struct err e = ERR_INIT;

	limit_key(l->uid, kind, m->provider, model, key);
	if (view_read_speculative(l->engine->o.store, &limit_schema, key, &text, &d, &e) != 0)
		return false;
	if (strcmp(d.state, "hit") != 0 && strcmp(d.state, "blocked") != 0)
		return false;
	if (d.resetUs != VIEW_ABSENT && d.resetUs <= l->now)
		return false; /* over by now */
	if (d.resetUs != VIEW_ABSENT && d.resetUs > *reset)
		*reset = d.resetUs;
	return true;
}

static void limits_of(void *ctx, const struct policy_model *m, struct routing_limits *ret)
{
	struct limits_lookup *l = ctx;

	ret->rate_limited = limit_holds(l, "rate_limit", m, m->model, &ret->reset_us) ||
			    limit_holds(l, "rate_limit", m, NULL, &ret->reset_us);
	ret->quota_blocked = limit_holds(l, "quota", m, m->model, &ret->reset_us) ||
			     limit_holds(l, "quota", m, NULL, &ret->reset_us);
	ret->budget_blocked = limit_holds(l, "budget", m, m->model, &ret->reset_us) ||
			      limit_holds(l, "budget", m, NULL, &ret->reset_us) ||
			      (m->price.known &&
			       budget_spent(l->engine, l->uid, l->session_id, l->now, &ret->reset_us));
}

/* ---- how it is told ---- */

static void reset_member(struct jw *w, uint64_t reset_us)
{
	char text[CLOCK_TEXT_MAX];

	if (!reset_us)
		return;
	clock_format(reset_us, text);
	jw_kstr(w, "resetAt", text);
}

static void model_members(struct jw *w, const struct policy_model *m)
{
	jw_kstr(w, "provider", m->provider);
	jw_kstr(w, "model", m->model);
}

static void candidate_json(struct jw *w, const struct routing_candidate *c)
{
	const struct policy_model *m = c->model;

	jw_obj(w);
	model_members(w, m);
	if (c->excluded != ROUTING_FITS) {
		jw_kstr(w, "reason", routing_exclusion_name(c->excluded));
		if (c->excluded == ROUTING_CAPABILITY_MISSING)
			jw_kstr(w, "missingCapability", c->missing);
		if (c->excluded == ROUTING_DISABLED)
			jw_kstr(w, "detail", m->disabled);
		reset_member(w, c->reset_us);
		jw_obj_end(w);
		return;
	}
	jw_kstrv(w, "capabilities", (const char *const *)m->capability, m->ncapability);
	jw_kstr(w, "latency", model_latency_name(m->latency));
	jw_kstr(w, "budgetClass", budget_class_name(m->budget_class));
	if (m->context_tokens)
		jw_kuint(w, "contextTokens", m->context_tokens);
	if (c->priced) {
		jw_kobj(w, "estimatedCost");
		jw_kuint(w, "microUsd", c->estimate);
		jw_obj_end(w);
	}
	jw_obj_end(w);
}

static void candidates_json(const struct routing_ask *r, const struct routing_outcome *o, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kuint(&w, "candidateCount", o->fitting);
	jw_karr(&w, "candidates");
	for (size_t i = 0; i < o->fitting && i < SHOWN_MAX; i++)
		candidate_json(&w, &o->candidate[i]);
	jw_arr_end(&w);
	jw_karr(&w, "excluded");
	for (size_t i = o->fitting; i < o->count && i < o->fitting + SHOWN_MAX; i++)
		candidate_json(&w, &o->candidate[i]);
	jw_arr_end(&w);
	jw_kuint(&w, "excludedCount", o->count - o->fitting);
	jw_kbool(&w, "singleCandidate", o->fitting == 1);
	jw_kobj(&w, "constraints");
	jw_kstrv(&w, "requiredCapabilities", r->want.capability, r->want.ncapability);
	jw_kstr(&w, "budgetClass", budget_class_name(r->want.budget_class));
	jw_kstr(&w, "fallbackPolicy", fallback_policy_name(r->want.fallback));
	jw_kopt(&w, "requestedProvider", r->want.provider);
	jw_kopt(&w, "requestedModel", r->want.model);
	jw_obj_end(&w);
	/* What the runtime cannot know is said, not guessed. */
	jw_kobj(&w, "gaps");
	jw_kstr(&w, "credentials", "unavailable");
	jw_kstr(&w, "network", "unavailable");
	jw_obj_end(&w);
	jw_obj_end(&w);
}

static const char *capability_gap(const struct routing_outcome *o)
{
	for (size_t i = 0; !o->fitting && i < o->count; i++)
		if (o->candidate[i].excluded == ROUTING_CAPABILITY_MISSING)
			return o->candidate[i].missing;
	return NULL;
}

static void decision_json(struct engine *g, const struct routing_ask *r, const struct routing_outcome *o,
			  const struct limits_lookup *l, struct buf *out)
{
	const struct policy_model *m = o->fitting ? o->candidate[0].model : NULL;
	const bool asked = r->want.provider || r->want.model;
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "routingMode", routing_mode_name(o->mode));
	jw_kstr(&w, "decisionSource", asked && o->mode == ROUTING_REQUESTED ? "request" : "policy");
	jw_kstr(&w, "decisionReason", o->reason);
	if (m) {
		jw_kstr(&w, "selectedProvider", m->provider);
		jw_kstr(&w, "selectedModel", m->model);
	}
	jw_kopt(&w, "requestedProvider", r->want.provider);
	jw_kopt(&w, "requestedModel", r->want.model);
	jw_kuint(&w, "candidateCount", o->fitting);
	jw_karr(&w, "fallbackChain");
	for (size_t i = 1; i < o->fitting && i < SHOWN_MAX && r->want.fallback != FALLBACK_NONE; i++) {
		jw_obj(&w);
		model_members(&w, o->candidate[i].model);
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	jw_kopt(&w, "capabilityGap", capability_gap(o));
	jw_kbool(&w, "requiresUserOverride", o->requires_override);
	jw_kobj(&w, "limitStateSnapshot");
	budget_json(g, l->uid, l->session_id, l->now, &w);
	jw_obj_end(&w);
	jw_obj_end(&w);
}

/* ---- resolve_routing ---- */

/* Everything the facts of one routing share. */
struct routing_scope {
	struct transaction *transaction;
	char session_id[ID_ROOM], thread_id[ID_ROOM], task_id[ID_ROOM];
	const char *turn_id;
	uint32_t uid;
};

static void fact_in(struct fact *f, enum event_type type, const struct routing_scope *s)
{
	fact_open(f, type, s->uid, s->session_id, s->thread_id, s->turn_id);
	f->draft.ids[ID_TASK] = s->task_id;
	f->draft.ids[ID_REQUEST] = s->transaction->caller.request_id;
	f->draft.ids[ID_TRACE] = s->transaction->caller.trace_id;
}

static void mirrored(struct fact *f, const char *key, const struct buf *json)
{
	struct jw m = jw_on(&f->members);

	jw_kraw(&f->w, key, json->data, json->len);
	jw_kraw(&m, key, json->data, json->len);
}

/* A turn that belongs to no task gets one of the runtime's own, which lists leave out. */
static void internal_task(struct routing_scope *s)
{
	struct fact f;

	id_make(ID_KIND_TASK, s->task_id);
	fact_in(&f, EVENT_TASK_CREATED, s);
	jw_kstr(&f.w, "objective", "Route the turn's requests to a model.");
	jw_kstr(&f.w, "taskKind", "routing");
	jw_kstr(&f.w, "visibility", "internal");
	fact_close(&f, s->transaction->batch);
}

static int routing_scope_of(struct engine *g, const struct routing_ask *r, struct routing_scope *s, struct err *e)
{
	struct view_turn_brief t;
	int found = view_turn_brief(g->o.store, s->transaction->caller.uid, r->turn_id, &t, e);

	if (found != 0)
		return found < 0 ? -1 : err_field(e, "turnId", "'%.64s' is not known", r->turn_id);
	if (t.ended)
		return err_set(e, ERR_STATE, "turn '%.64s' has ended: route a turn before or while it runs",
			       r->turn_id);
	task_auto struct task named = TASK_INIT;
	if (r->task_id && task_get(g, r->task_id, &s->transaction->caller, &named, e) < 0)
		return -1;
	if (r->task_id && named.d.uid != t.uid)
		return err_field(e, "taskId", "'%.64s' is not the turn's user's", r->task_id);
	s->uid = t.uid;
	s->turn_id = r->turn_id;
	snprintf(s->session_id, sizeof s->session_id, "%s", t.session_id);
	snprintf(s->thread_id, sizeof s->thread_id, "%s", t.thread_id);
	snprintf(s->task_id, sizeof s->task_id, "%s", r->task_id ? r->task_id : t.task_id);
	return 0;
}

static void fallback_fact(const struct routing_scope *s, const struct routing_ask *r, const struct routing_outcome *o)
{
	struct fact f;

	fact_in(&f, EVENT_ROUTING_FALLBACK_APPLIED, s);
	f.draft.ids[ID_MODEL_REQUEST] = r->failed_request_id;
	jw_kobj(&f.w, "from");
	jw_kopt(&f.w, "provider", r->want.failed_provider);
	jw_kopt(&f.w, "model", r->want.failed_model);
	jw_obj_end(&f.w);
	jw_kobj(&f.w, "to");
	model_members(&f.w, o->candidate[0].model);
	jw_obj_end(&f.w);
	jw_kstr(&f.w, "reason", r->failed_reason);
	jw_karr(&f.w, "chain");
	for (size_t i = 1; i < o->fitting && i < SHOWN_MAX; i++) {
		jw_obj(&f.w);
		model_members(&f.w, o->candidate[i].model);
		jw_obj_end(&f.w);
	}
	jw_arr_end(&f.w);
	fact_close(&f, s->transaction->batch);
}

static void outcome_facts(const struct routing_scope *s, const struct routing_ask *r, const struct routing_outcome *o,
			  const struct buf *decision)
{
	struct store_batch *b = s->transaction->batch;
	struct fact f;

	if (!o->fitting) {
		fact_in(&f, EVENT_ROUTING_NOT_POSSIBLE, s);
		f.draft.status = "blocked";
		f.draft.status_reason = o->reason;
		jw_kuint(&f.w, "excludedCount", o->count);
		jw_kbool(&f.w, "requiresUserOverride", o->requires_override);
		mirrored(&f, "routingDecision", decision);
		fact_close(&f, b);
		return;
	}
	if (r->failed_reason)
		fallback_fact(s, r, o);
	fact_in(&f, EVENT_ROUTING_DECIDED, s);
	mirrored(&f, "routingDecision", decision);
	fact_close(&f, b);
	if (o->fitting == 1) {
		fact_in(&f, EVENT_ROUTING_SINGLE_CANDIDATE, s);
		jw_kuint(&f.w, "candidateCount", 1);
		jw_kstr(&f.w, "selectedProvider", o->candidate[0].model->provider);
		jw_kstr(&f.w, "selectedModel", o->candidate[0].model->model);
		jw_kstr(&f.w, "decisionSource", "policy");
		fact_close(&f, b);
	}
	if (o->candidate[0].priced && (r->want.input_tokens || r->want.output_tokens)) {
		fact_in(&f, EVENT_COST_ESTIMATED, s);
		jw_key(&f.w, "amount");
		jw_real(&f.w, (double)o->candidate[0].estimate / 1e6);
		jw_kstr(&f.w, "currency", "USD");
		jw_kuint(&f.w, "microUsd", o->candidate[0].estimate);
		model_members(&f.w, o->candidate[0].model);
		jw_kobj(&f.w, "basis");
		jw_kuint(&f.w, "inputTokens", r->want.input_tokens);
		jw_kuint(&f.w, "outputTokens", r->want.output_tokens);
		jw_obj_end(&f.w);
		fact_close(&f, b);
	}
}

void engine_resolve_routing(struct engine *g, const struct routing_ask *r, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	struct routing_outcome *o = mem_zalloc(1, sizeof *o);
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf candidates = BUF_INIT, decision = BUF_INIT;
	struct routing_scope s = { .transaction = tx };
	struct err e = ERR_INIT;
	struct fact f;

	if (routing_scope_of(g, r, &s, &e) < 0) {
		transaction_reject(tx, &e);
		free(o);
		return;
	}
	struct limits_lookup l = {
		.engine = g, .uid = s.uid, .session_id = s.session_id, .now = g->o.ports->real_us(g->o.host)
	};
	routing_decide(g->models, &r->want, limits_of, &l, o);
	if (!s.task_id[0])
		internal_task(&s);
	const struct buf profile = { .data = (char *)(uintptr_t)r->profile_json, .len = r->profile_len };
	fact_in(&f, EVENT_TASK_PROFILE_RESOLVED, &s);
	mirrored(&f, "taskProfile", &profile);
	jw_kstr(&f.w, "source", "request");
	jw_kstr(&f.w, "settingsSource", g->models && g->models->count ? "policy" : "none");
	fact_close(&f, tx->batch);
	candidates_json(r, o, &candidates);
	fact_in(&f, EVENT_ROUTING_CANDIDATES_RESOLVED, &s);
	jw_kuint(&f.w, "candidateCount", o->fitting);
	mirrored(&f, "candidateModelSet", &candidates);
	fact_close(&f, tx->batch);
	decision_json(g, r, o, &l, &decision);
	outcome_facts(&s, r, o, &decision);
	jw_kstr(&tx->w, "turnId", s.turn_id);
	jw_kstr(&tx->w, "taskId", s.task_id);
	jw_kraw(&tx->w, "routingDecision", decision.data, decision.len);
	jw_kraw(&tx->w, "candidateModelSet", candidates.data, candidates.len);
	transaction_commit(tx);
	free(o);
}
