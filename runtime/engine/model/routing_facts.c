/* resolve_routing: the decision of the policy for a turn, its candidates and its fallbacks, recorded as facts. */

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/model/model.h"
#include "runtime/engine/model/model_registry.h"
#include "runtime/engine/work/work.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"

#define SHOWN_MAX 48u /* candidates of each kind listed in an event */

/* ---- known limits ---- */

/* Is a limit of this kind in effect for the model, or with model NULL for its provider? Raises *reset to its end. */
static bool limit_holds(struct routing_lookup *l, const char *kind, const struct policy_model *m, const char *model,
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
		return false; /* has expired */
	if (d.resetUs != VIEW_ABSENT && d.resetUs > *reset)
		*reset = d.resetUs;
	return true;
}

/* A limit may be known for the model or for its whole provider. Budgets apply only to models with a price. */
void routing_known_limits(void *ctx, const struct policy_model *m, struct routing_limits *ret)
{
	struct routing_lookup *l = ctx;

	ret->rate_limited = limit_holds(l, "rate_limit", m, m->model, &ret->reset_us) ||
			    limit_holds(l, "rate_limit", m, NULL, &ret->reset_us);
	ret->quota_blocked = limit_holds(l, "quota", m, m->model, &ret->reset_us) ||
			     limit_holds(l, "quota", m, NULL, &ret->reset_us);
	ret->budget_blocked = limit_holds(l, "budget", m, m->model, &ret->reset_us) ||
			      limit_holds(l, "budget", m, NULL, &ret->reset_us) ||
			      (m->price.known &&
			       budget_spent(l->engine, l->uid, l->session_id, l->now, &ret->reset_us));
}

/* ---- JSON ---- */

static void model_members(struct jw *w, const struct policy_model *m)
{
	jw_kstr(w, "provider", m->provider);
	jw_kstr(w, "model", m->model);
}

/* A model that fits shows what it can do; one that does not shows why. */
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
		if (c->reset_us) {
			char text[CLOCK_TEXT_MAX];

			clock_format(c->reset_us, text);
			jw_kstr(w, "resetAt", text);
		}
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

static void write_excluded(struct jw *w, const void *outcome, size_t n)
{
	const struct routing_outcome *o = outcome;

	jw_arr(w);
	for (size_t i = o->eligible; i < o->count && i < o->eligible + SHOWN_MAX; i++)
		candidate_json(w, &o->candidate[i]);
	jw_arr_end(w);
}

/* Whether this user has registered the candidates that fit, with a key: all, some or none of them. */
static const char *credentials_of(const struct routing_outcome *o, const struct routing_lookup *l)
{
	model_configs_auto struct model_configs own = { 0 };
	struct err e = ERR_INIT;
	size_t found = 0;

	if (model_configs_load(l->engine, l->uid, &own, &e) < 0)
		return "unavailable";
	for (size_t i = 0; i < o->eligible; i++) {
		const struct policy_model *m = o->candidate[i].model;
		bool registered = false;

		for (size_t k = 0; k < own.count; k++)
			registered |= strcmp(own.config[k].provider, m->provider) == 0 &&
				      strcmp(own.config[k].model, m->model) == 0;
		found += registered;
	}
	return !found ? "unavailable" : found == o->eligible ? "registered" : "partly_registered";
}

static void candidates_json(const struct routing_ask *r, const struct routing_outcome *o,
			    const struct routing_lookup *l, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kuint(&w, "candidateCount", o->eligible);
	jw_karr(&w, "candidates");
	for (size_t i = 0; i < o->eligible && i < SHOWN_MAX; i++)
		candidate_json(&w, &o->candidate[i]);
	jw_arr_end(&w);
	jw_key(&w, "excluded");
	write_excluded(&w, o, 0);
	jw_kuint(&w, "excludedCount", o->count - o->eligible);
	jw_kbool(&w, "singleCandidate", o->eligible == 1);
	jw_kobj(&w, "constraints");
	jw_kstrv(&w, "requiredCapabilities", r->want.capability, r->want.ncapability);
	jw_kstr(&w, "budgetClass", budget_class_name(r->want.budget_class));
	jw_kstr(&w, "fallbackPolicy", fallback_policy_name(r->want.fallback));
	jw_kopt(&w, "requestedProvider", r->want.provider);
	jw_kopt(&w, "requestedModel", r->want.model);
	jw_obj_end(&w);
	/* State explicitly what the runtime cannot know, instead of guessing. */
	jw_kobj(&w, "gaps");
	jw_kstr(&w, "credentials", credentials_of(o, l));
	jw_kstr(&w, "network", "unavailable");
	jw_obj_end(&w);
	jw_obj_end(&w);
}

/* The models to try next, in order; `n` 0 = none. */
static void write_chain(struct jw *w, const void *outcome, size_t n)
{
	const struct routing_outcome *o = outcome;

	jw_arr(w);
	for (size_t i = 1; n && i < o->eligible && i < SHOWN_MAX; i++) {
		jw_obj(w);
		model_members(w, o->candidate[i].model);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void decision_json(struct engine *engine, const struct routing_ask *r, const struct routing_outcome *o,
			  const struct routing_lookup *l, struct buf *out)
{
	const struct policy_model *m = o->eligible ? o->candidate[0].model : NULL;
	const bool asked = r->want.provider || r->want.model;
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "routingMode", routing_mode_name(o->mode));
	jw_kstr(&w, "decisionSource",
		r->want.override                        ? "override"
		: asked && o->mode == ROUTING_REQUESTED ? "request"
							: "policy");
	jw_kopt(&w, "overrideReason", r->override_reason);
	jw_kstr(&w, "decisionReason", o->reason);
	if (m) {
		jw_kstr(&w, "selectedProvider", m->provider);
		jw_kstr(&w, "selectedModel", m->model);
	}
	jw_kopt(&w, "requestedProvider", r->want.provider);
	jw_kopt(&w, "requestedModel", r->want.model);
	jw_kuint(&w, "candidateCount", o->eligible);
	jw_key(&w, "fallbackChain");
	write_chain(&w, o, r->want.fallback != FALLBACK_NONE);
	/* If no model fits: the first capability that one of them lacks. */
	const char *gap = NULL;
	for (size_t i = 0; !o->eligible && !gap && i < o->count; i++)
		if (o->candidate[i].excluded == ROUTING_CAPABILITY_MISSING)
			gap = o->candidate[i].missing;
	jw_kopt(&w, "capabilityGap", gap);
	jw_kbool(&w, "requiresUserOverride", o->requires_override);
	jw_kobj(&w, "limitStateSnapshot");
	budget_json(engine, l->uid, l->session_id, l->now, &w);
	jw_obj_end(&w);
	jw_obj_end(&w);
}

/* ---- resolve_routing ---- */

/* Shared by the facts of one routing. `scope` points into the other members. */
struct routing_scope {
	struct transaction *transaction;
	struct scope scope;
	struct view_turn_brief turn;
	char task_id[ID_SIZE];
};

/* A turn that has ended no longer needs a model. */
static int routing_scope_of(struct engine *engine, const struct routing_ask *r, struct routing_scope *s, struct err *e)
{
	const struct caller *c = &s->transaction->caller;
	const struct view_turn_brief *t = &s->turn;
	int found = view_turn_brief(engine->o.store, c->uid, r->turn_id, &s->turn, e);

	if (found != 0)
		return found < 0 ? -1 : err_field(e, "turnId", "'%.64s' is not known", r->turn_id);
	if (t->ended)
		return err_set(e, ERR_STATE, "turn '%.64s' has ended: route a turn before or while it runs",
			       r->turn_id);
	task_auto struct task named = TASK_INIT;
	if (r->task_id && task_get(engine, r->task_id, c, &named, e) < 0)
		return -1;
	/* Root may name any task; the facts must not mix users. */
	if (r->task_id && named.d.uid != t->uid)
		return err_field(e, "taskId", "'%.64s' is not the turn's user's", r->task_id);
	id_copy(s->task_id, r->task_id ? r->task_id : t->task_id);
	s->scope = (struct scope){ .uid = t->uid,
				   .session = t->session_id,
				   .thread = t->thread_id,
				   .turn = r->turn_id,
				   .task = s->task_id,
				   .request = c->request_id,
				   .trace = c->trace_id };
	return 0;
}

static void fallback_fact(struct transaction *tx, const struct scope *s, const struct routing_ask *r,
			  const struct routing_outcome *o)
{
	const struct policy_model *to = o->candidate[0].model;
	struct scope of = *s;

	of.model_request = r->failed_request_id;
	EMIT(routing_fallback_applied, tx, of,
	     .from = JSON_OBJECT(model_choice, .provider = r->want.failed_provider, .model = r->want.failed_model),
	     .to = JSON_OBJECT(model_choice, .provider = to->provider, .model = to->model), .reason = r->failed_reason,
	     .chain = json_from_writer(write_chain, o, 1));
}

static void outcome_facts(struct transaction *tx, const struct scope *s, const struct routing_ask *r,
			  const struct routing_outcome *o, const struct buf *decision)
{
	const struct routing_candidate *first = &o->candidate[0];
	const struct json_value decided = json_from_buf(decision);
	const struct scope of = *s;

	/* No model fits; the decision lists the reasons. */
	if (!o->eligible) {
		EMIT(routing_not_possible, tx, of,
		     .envelope = { .status = "blocked",
				   .status_reason = o->reason,
				   .members.routingDecision = decided },
		     .excludedCount = opt_int((int64_t)o->count), .excluded = json_from_writer(write_excluded, o, 0),
		     .requiresUserOverride = opt_bool(o->requires_override), .routingDecision = decided);
		return;
	}
	if (r->failed_reason)
		fallback_fact(tx, s, r, o);
	EMIT(routing_decided, tx, of, .envelope.members.routingDecision = decided, .routingDecision = decided);
	if (o->eligible == 1)
		EMIT(routing_single_candidate, tx, of, .candidateCount = 1, .selectedProvider = first->model->provider,
		     .selectedModel = first->model->model, .decisionSource = "policy");
	if (first->priced && (r->want.input_tokens || r->want.output_tokens))
		EMIT(cost_estimated, tx, of, .amount = (double)first->estimate / 1e6, .currency = "USD",
		     .microUsd = json_from_uint(&first->estimate), .provider = json_from_string(first->model->provider),
		     .model = json_from_string(first->model->model),
		     .basis = JSON_OBJECT(token_basis, .inputTokens = r->want.input_tokens,
					  .outputTokens = r->want.output_tokens));
}

void routing_record(struct transaction *tx, const struct scope *s, const struct routing_ask *r,
		    const struct routing_outcome *o, const struct routing_lookup *l, struct buf *candidates,
		    struct buf *decision)
{
	const struct scope of = *s;

	candidates_json(r, o, l, candidates);
	const struct json_value set = json_from_buf(candidates);
	EMIT(routing_candidates_resolved, tx, of, .envelope.members.candidateModelSet = set,
	     .candidateCount = (int64_t)o->eligible, .candidateModelSet = set);
	decision_json(tx->engine, r, o, l, decision);
	outcome_facts(tx, s, r, o, decision);
}

/* The profile, the candidates and the decision are one commit, also if no model fits. */
void engine_resolve_routing(struct engine *engine, const struct routing_ask *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	struct routing_outcome *o = mem_zalloc(1, sizeof *o);
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf candidates = BUF_INIT, decision = BUF_INIT;
	struct routing_scope s = { .transaction = tx };
	struct err e = ERR_INIT;

	if (routing_scope_of(engine, r, &s, &e) < 0) {
		transaction_reject(tx, &e);
		free(o);
		return;
	}
	struct routing_lookup l = {
		.engine = engine, .uid = s.scope.uid, .session_id = s.scope.session, .now = engine_real(engine)
	};
	routing_decide(engine->models, &r->want, routing_known_limits, &l, o);
	/* A turn without a task gets an internal one, which lists omit. */
	if (!s.task_id[0]) {
		id_make(ID_KIND_TASK, s.task_id);
		EMIT(task_created, tx, s.scope, .objective = "Route the turn's requests to a model.",
		     .described = { .taskKind = "routing", .visibility = "internal" });
	}
	const struct json_value profile = { .value = r->profile_json, .n = r->profile_len };
	const struct scope of = s.scope;
	EMIT(task_profile_resolved, tx, of, .envelope.members.taskProfile = profile, .taskProfile = profile,
	     .source = "request", .settingsSource = engine->models && engine->models->count ? "policy" : "none");
	routing_record(tx, &s.scope, r, o, &l, &candidates, &decision);
	task_routing_changed(tx, s.task_id, o->eligible ? NULL : o->reason);
	jw_kstr(&tx->w, "turnId", s.scope.turn);
	jw_kstr(&tx->w, "taskId", s.task_id);
	jw_kraw(&tx->w, "routingDecision", decision.data, decision.len);
	jw_kraw(&tx->w, "candidateModelSet", candidates.data, candidates.len);
	transaction_commit(tx);
	free(o);
}
