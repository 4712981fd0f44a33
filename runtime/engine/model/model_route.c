#include "runtime/engine/model/model_route.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/model/model.h"
#include "runtime/engine/model/reservation.h"
#include "runtime/view/view_cost.h"
#include "runtime/view/view_ids.h"

#include <inttypes.h>

/* An answer that is cut to less than this is not worth its input. */
#define OUTPUT_MIN 256u
#define OPEN_MAX 64u /* requests of one turn */

/* One decision. `lookup` is the first member: the context of routing_known_limits. */
struct route {
	struct routing_lookup lookup;
	const struct model_route_ask *ask;
	struct model_configs configs;
	struct model_list list; /* borrows the texts of the configurations and of the policy */
	struct route_candidate {
		const struct model_config *config;  /* NULL = only in the policy */
		const struct policy_budget *budget; /* that blocks it */
		uint64_t output;                    /* tokens that may be requested; 0 = no limit known */
	} * candidate;                              /* of each model in the list */
	uint64_t turn_micro_usd, turn_tokens;       /* spent and reserved by the turn */
};

static void route_done(struct route *r)
{
	model_configs_done(&r->configs);
	free(r->list.model);
	free(r->candidate);
}

#define route_auto __attribute__((cleanup(route_done)))

/* ---- the chain ---- */

static void add_candidate(struct route *r, const struct policy_model *listed, const struct model_config *config)
{
	struct policy_model m = { .latency = LATENCY_BALANCED, .budget_class = BUDGET_STANDARD };

	if (listed)
		m = *listed;
	if (config) {
		m.provider = config->provider;
		m.model = config->model;
		m.context_tokens = config->context_tokens;
		m.price = config->price;
	}
	r->candidate[r->list.count] = (struct route_candidate){ .config = config };
	r->list.model[r->list.count++] = m;
}

static bool is_listed(const struct route *r, const struct model_config *config)
{
	for (size_t i = 0; i < r->list.count; i++)
		if (r->candidate[i].config == config)
			return true;
	return false;
}

/* Whether the configuration is for this model of the policy. */
static bool is_for(const struct model_config *c, const struct policy_model *m)
{
	return strcmp(c->provider, m->provider) == 0 && strcmp(c->model, m->model) == 0;
}

/* The first choice, the policy's models in their order, then the other registered ones. */
static int build_chain(struct route *r, struct err *e)
{
	const struct model_list *policy = r->lookup.engine->models;
	const size_t listed = policy ? policy->count : 0;
	const struct model_config *first = NULL;

	for (size_t i = 0; !first && i < r->configs.count; i++)
		if (!r->ask->requested || strcmp(r->configs.config[i].name, r->ask->requested) == 0)
			first = &r->configs.config[i];
	if (!first) {
		struct model_config unused = MODEL_CONFIG_INIT;

		/* For its message. */
		return model_config_find(r->lookup.engine, r->lookup.uid, r->ask->requested, &unused, e);
	}
	r->list.model = mem_zalloc(listed + r->configs.count + 1, sizeof *r->list.model);
	r->candidate = mem_zalloc(listed + r->configs.count + 1, sizeof *r->candidate);
	add_candidate(r, policy ? model_list_find(policy, first->provider, first->model) : NULL, first);
	for (size_t i = 0; i < listed; i++) {
		const struct policy_model *m = &policy->model[i];
		bool registered = false;

		for (size_t k = 0; k < r->configs.count; k++) {
			const struct model_config *c = &r->configs.config[k];

			if (!is_for(c, m))
				continue;
			registered = true;
			if (!is_listed(r, c))
				add_candidate(r, m, c);
		}
		if (!registered)
			add_candidate(r, m, NULL);
	}
	for (size_t k = 0; k < r->configs.count; k++)
		if (!is_listed(r, &r->configs.config[k]))
			add_candidate(r, NULL, &r->configs.config[k]);
	return 0;
}

/* ---- limits ---- */

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t left_of(uint64_t limit, uint64_t used) { return used < limit ? limit - used : 0; }

static uint64_t max_cost_micro_usd(const struct model_route_ask *ask)
{
	return ask->max_cost_usd > 1e12 ? UINT64_MAX : (uint64_t)(ask->max_cost_usd * 1e6 + 0.5);
}

/* How long the answer may be, by budgets and limits; also whether they block the model. */
static void check_money(struct route *r, struct route_candidate *c, struct routing_limits *ret)
{
	const struct model_route_ask *ask = r->ask;
	const struct model_config *m = c->config;
	uint64_t output = ask->output_tokens ? ask->output_tokens : m->max_output_tokens, left = UINT64_MAX;

	if (ask->output_tokens && m->max_output_tokens)
		output = smaller(output, m->max_output_tokens);
	if (m->context_tokens > ask->input_tokens && output)
		output = smaller(output, m->context_tokens - ask->input_tokens);
	if (m->price.known) {
		const uint64_t needed = model_price_bound(&m->price, ask->input_tokens, OUTPUT_MIN);

		c->budget = budget_blocks(r->lookup.engine, r->lookup.uid, r->lookup.session_id, r->lookup.now, needed,
					  &ret->reset_us, &left);
		ret->budget_blocked |= c->budget != NULL;
		if (ask->max_cost_usd >= 0) {
			left = smaller(left, left_of(max_cost_micro_usd(ask), r->turn_micro_usd));
			ret->limit_reached |= left < needed;
		}
		if (left != UINT64_MAX)
			output = smaller(output ? output : UINT64_MAX,
					 model_price_output(&m->price, ask->input_tokens, left));
	} else {
		ret->price_unknown = ask->max_cost_usd >= 0;
	}
	if (ask->max_tokens) {
		uint64_t tokens = left_of(ask->max_tokens, r->turn_tokens + ask->input_tokens);

		ret->limit_reached |= tokens < OUTPUT_MIN;
		output = smaller(output ? output : UINT64_MAX, tokens);
	}
	c->output = output;
}

static void limits_of(void *ctx, const struct policy_model *m, struct routing_limits *ret)
{
	struct route *r = ctx;
	struct route_candidate *c = &r->candidate[m - r->list.model];

	ret->not_registered = !c->config;
	if (!c->config)
		return;
	for (size_t i = 0; i < r->ask->nfailed; i++)
		ret->failed |= strcmp(r->ask->failed[i], c->config->name) == 0;
	routing_known_limits(&r->lookup, m, ret);
	check_money(r, c, ret);
}

static void read_turn_totals(struct route *r)
{
	const struct scope *s = &r->ask->scope;
	const struct reserved open = reservation_sum(r->lookup.engine, s->uid, s->session, s->turn);
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	char key[VIEW_COST_KEY];
	struct cost_doc d;

	r->turn_micro_usd = open.micro_usd + r->ask->used_micro_usd;
	r->turn_tokens = open.tokens + r->ask->used_tokens;
	cost_key(COST_OF_TURN, s->turn, 0, 0, key);
	if (view_read_speculative(r->lookup.engine->o.store, &cost_schema, key, &text, &d, &e) != 0)
		return;
	r->turn_micro_usd += view_counted(d.microUsd);
	r->turn_tokens += view_counted(d.inputTokens) + view_counted(d.outputTokens);
}

/* ---- no model ---- */

/* The reason that helps most: of the first model that is registered and has not failed. */
static const struct routing_candidate *decisive(const struct routing_outcome *o, const struct route *r)
{
	const struct routing_candidate *first = NULL;

	/* Excluded candidates keep the order of the chain. */
	for (size_t i = 0; i < o->count; i++) {
		const struct routing_candidate *c = &o->candidate[i];

		if (!r->candidate[c->model - r->list.model].config)
			continue;
		if (!first)
			first = c;
		if (c->excluded != ROUTING_FAILED_BEFORE && c->excluded != ROUTING_NOT_REQUESTED)
			return c;
	}
	return first;
}

static int explain(const struct route *r, const struct routing_outcome *o, struct model_choice *ret, struct err *e)
{
	const struct routing_candidate *c = decisive(o, r);
	const struct route_candidate *x = &r->candidate[c->model - r->list.model];
	const struct model_route_ask *ask = r->ask;
	const char *const name = x->config->name;
	char until[CLOCK_TEXT_MAX + 16] = "", at[CLOCK_TEXT_MAX];

	ret->reset_us = c->reset_us;
	if (c->reset_us) {
		clock_format(c->reset_us, at);
		(void)snprintf(until, sizeof until, ", until %.20sZ", at);
	}
	switch (c->excluded) {
	case ROUTING_BUDGET_BLOCKED:
		ret->category = "budget";
		if (x->budget)
			return err_at(e, ERR_EXHAUSTED, "budget",
				      "budget '%.64s' (%.2f USD) does not cover another request to '%s'%s",
				      x->budget->name, (double)x->budget->micro_usd / 1e6, name, until);
		return err_at(e, ERR_EXHAUSTED, "budget", "the provider's budget for '%s' is used up%s", name, until);
	case ROUTING_LIMIT_REACHED:
		ret->category = "limit";
		if (ask->max_tokens && left_of(ask->max_tokens, r->turn_tokens + ask->input_tokens) < OUTPUT_MIN)
			return err_at(e, ERR_EXHAUSTED, "limits.maxTokens",
				      "the turn's limit of %" PRIu64 " tokens does not cover another request: %" PRIu64
				      " are used, and the next one sends about %" PRIu64,
				      ask->max_tokens, r->turn_tokens, ask->input_tokens);
		return err_at(e, ERR_EXHAUSTED, "limits.maxCostUsd",
			      "the turn's limit of %.4f USD does not cover another request to '%s': %.4f USD are used",
			      ask->max_cost_usd, name, (double)r->turn_micro_usd / 1e6);
	case ROUTING_PRICE_UNKNOWN:
		ret->category = "price";
		return err_at(
			e, ERR_STATE, "limits.maxCostUsd",
			"cannot be enforced: the price of %.64s/%.64s is not known; give it in the policy's models",
			x->config->provider, x->config->model);
	case ROUTING_RATE_LIMITED:
		ret->category = "rate_limit";
		return err_at(e, ERR_EXHAUSTED, "model", "the provider limits the rate of '%s'%s", name, until);
	case ROUTING_QUOTA_BLOCKED:
		ret->category = "quota";
		return err_at(e, ERR_EXHAUSTED, "model", "the quota of '%s' at its provider is used up%s", name, until);
	case ROUTING_CONTEXT_TOO_SMALL:
		ret->category = "context";
		return err_at(e, ERR_EXHAUSTED, "model",
			      "the request has about %" PRIu64 " tokens; the context of '%s' has %" PRIu64,
			      ask->input_tokens, name, x->config->context_tokens);
	default:
		ret->category = "model";
		return err_at(e, ERR_UNAVAILABLE, "model", "no model is left to try: '%s' is excluded (%s)", name,
			      routing_exclusion_name(c->excluded));
	}
}

/* ---- facts ---- */

/* Whether the turn was routed before, and to this model (NULL: whether at all). */
static bool was_routed(struct engine *engine, const char *turn_id, const struct policy_model *m)
{
	buf_auto struct buf text = BUF_INIT;
	struct routing_doc d;
	struct err e = ERR_INIT;

	if (view_read_speculative(engine->o.store, &routing_schema, turn_id, &text, &d, &e) != 0)
		return false;
	return !m || (jval_is_str(jval_get(d.routingDecision, "selectedProvider"), m->provider) &&
		      jval_is_str(jval_get(d.routingDecision, "selectedModel"), m->model));
}

/* The profile belongs to a task; a turn without one gets an internal task, as resolve_routing does. */
static void record_profile(struct transaction *tx, struct scope s)
{
	static const char profile[] = "{\"kind\":\"agent\",\"requiredCapabilities\":[],\"budgetClass\":\"high\","
				      "\"fallbackPolicy\":\"next\"}";
	const struct json_value json = json_from_text(profile);
	char task[ID_SIZE];

	s.model_request = NULL;
	if (!s.task || !*s.task) {
		id_make(ID_KIND_TASK, task);
		s.task = task;
		EMIT(task_created, tx, s, .objective = "Route the turn's requests to a model.",
		     .described = { .taskKind = "routing", .visibility = "internal" });
	}
	EMIT(task_profile_resolved, tx, s, .envelope.members.taskProfile = json, .taskProfile = json, .source = "loop",
	     .settingsSource = tx->engine->models && tx->engine->models->count ? "policy" : "none");
}

/* Requests that go to the model of the request before need no facts of their own. */
static void record_decision(struct transaction *tx, const struct route *r, struct routing_ask *asked,
			    const struct routing_outcome *o)
{
	buf_auto struct buf candidates = BUF_INIT, decision = BUF_INIT;
	const struct scope *s = &r->ask->scope;
	struct scope of = *s;

	if (o->eligible && !asked->failed_reason && was_routed(tx->engine, s->turn, o->candidate[0].model))
		return;
	if (!was_routed(tx->engine, s->turn, NULL))
		record_profile(tx, *s);
	of.model_request = NULL;
	/* The estimate of this request is a fact of its own, with its reservation. */
	asked->want.input_tokens = asked->want.output_tokens = 0;
	routing_record(tx, &of, asked, o, &r->lookup, &candidates, &decision);
}

static void reserve(struct transaction *tx, const struct route *r, const struct model_config *m,
		    struct model_choice *ret)
{
	const struct scope *s = &r->ask->scope;
	const uint64_t micro = m->price.known
				       ? model_price_bound(&m->price, r->ask->input_tokens, ret->max_output_tokens)
				       : 0;
	struct reservation x = { .uid = s->uid,
				 .micro_usd = micro,
				 .tokens = r->ask->input_tokens + ret->max_output_tokens };

	id_copy(x.request_id, s->model_request);
	id_copy(x.turn_id, s->turn);
	id_copy(x.session_id, s->session);
	reservation_set(tx->engine, &x);
	ret->reserved_micro_usd = micro;
	if (micro)
		EMIT(cost_estimated, tx, *s, .amount = (double)micro / 1e6, .currency = "USD",
		     .microUsd = json_from_uint(&micro), .provider = json_from_string(m->provider),
		     .model = json_from_string(m->model),
		     .basis = JSON_OBJECT(token_basis, .inputTokens = (int64_t)r->ask->input_tokens,
					  .outputTokens = (int64_t)ret->max_output_tokens),
		     .modelRequestId = json_from_string(s->model_request));
}

/* ---- the entry points ---- */

/* Takes the chosen configuration out of the route. */
static void take_config(struct route *r, const struct model_config *c, struct model_config *ret)
{
	struct model_config *own = &r->configs.config[c - r->configs.config];

	*ret = *own;
	*own = MODEL_CONFIG_INIT;
}

int model_route(struct transaction *tx, const struct model_route_ask *ask, struct model_choice *ret, struct err *e)
{
	const struct scope *s = &ask->scope;
	route_auto struct route r = { .lookup = { .engine = tx->engine,
						  .uid = s->uid,
						  .session_id = s->session,
						  .now = engine_real(tx->engine) },
				      .ask = ask };
	mem_auto struct routing_outcome *o = mem_zalloc(1, sizeof *o);
	struct routing_ask asked = { .turn_id = s->turn,
				     .failed_request_id = ask->failed_request_id,
				     .failed_reason = ask->failed_reason,
				     .want = { .kind = "agent",
					       .latency = LATENCY_COUNT,
					       .budget_class = BUDGET_HIGH,
					       .fallback = ask->fallback,
					       .input_tokens = ask->input_tokens,
					       .output_tokens = OUTPUT_MIN } };

	if (model_configs_load(tx->engine, s->uid, &r.configs, e) < 0 || build_chain(&r, e) < 0) {
		ret->category = "model";
		return -1;
	}
	read_turn_totals(&r);
	if (ask->requested || ask->fallback == FALLBACK_NONE) {
		asked.want.provider = r.list.model[0].provider;
		asked.want.model = r.list.model[0].model;
	}
	for (size_t i = 0; ask->failed_reason && ask->nfailed && i < r.list.count; i++)
		if (r.candidate[i].config && strcmp(r.candidate[i].config->name, ask->failed[ask->nfailed - 1]) == 0) {
			asked.want.failed_provider = r.list.model[i].provider;
			asked.want.failed_model = r.list.model[i].model;
		}
	routing_decide(&r.list, &asked.want, limits_of, &r, o);
	record_decision(tx, &r, &asked, o);
	if (!o->eligible)
		return explain(&r, o, ret, e);
	const struct route_candidate *c = &r.candidate[o->candidate[0].model - r.list.model];
	ret->max_output_tokens = c->output;
	reserve(tx, &r, c->config, ret);
	take_config(&r, c->config, &ret->config);
	return 0;
}

void model_settle(struct transaction *tx, const struct scope *s, const struct model_config *c,
		  const struct dialect_usage *u)
{
	const struct cost_report report = {
		.turn_id = s->turn,
		.provider = c->provider,
		.model = c->model,
		.model_request_id = s->model_request,
		.usd = u->cost_usd > 0 ? u->cost_usd : -1,
		.tokens = { .input = u->input,
			    .output = u->output,
			    .cached = u->cached,
			    .cache_write = u->cache_write,
			    .cache_write_1h = u->cache_write_1h },
	};
	const uint64_t micro = cost_record(tx, s, &report, u->estimated || !u->known);

	if (s->model_request)
		reservation_settle(tx->engine, s->model_request, micro, u->input + u->output);
}

void model_limited(struct transaction *tx, const struct scope *s, const struct model_config *c, const char *kind,
		   uint64_t reset_us)
{
	char reset[CLOCK_TEXT_MAX];

	clock_format(reset_us, reset);
	limit_record(tx, s,
		     &(struct limit_report){ .provider = c->provider,
					     .model = c->model,
					     .kind = kind,
					     .reset_at = reset_us ? reset : NULL });
}

/* ---- recovery ---- */

/* With the length of the answer that the model has without limits: the limits of then are not recorded. */
static void reserve_again(struct engine *engine, const struct turn_doc *t, const struct model_request_doc *r)
{
	model_config_auto struct model_config m = MODEL_CONFIG_INIT;
	const uint64_t input = jval_uint(r->estimatedTokens, 0);
	struct reservation x = { .uid = (uint32_t)t->uid };
	struct err e = ERR_INIT;
	char name[ID_SIZE];

	jval_str(r->name, name, sizeof name);
	/* Requests of clients have no name; a model may have been removed. */
	if (!name[0] || model_config_find(engine, x.uid, name, &m, &e) < 0)
		return;
	x.micro_usd = m.price.known ? model_price_bound(&m.price, input, m.max_output_tokens) : 0;
	x.tokens = input + m.max_output_tokens;
	id_copy(x.request_id, r->modelRequestId);
	id_copy(x.turn_id, t->turnId);
	id_copy(x.session_id, t->sessionId);
	reservation_set(engine, &x);
}

static bool recover_turn(void *ctx, const char *id, const char *json, size_t len)
{
	struct engine *engine = ctx;
	view_ids_auto struct view_ids open = VIEW_IDS_INIT;
	struct err e = ERR_INIT;
	struct turn_doc t;

	view_decode(&turn_schema, jval_of(json, len), &t);
	if (view_members(engine->o.store, VIEW_TURN_OPEN_REQUEST, id, VIEW_OLDEST_FIRST, OPEN_MAX, &open, &e) < 0)
		return true;
	for (size_t i = 0; i < open.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		char key[VIEW_REQUEST_KEY_MAX];
		struct model_request_doc r;

		view_model_request_key(t.sessionId, open.id[i], key);
		if (view_read(engine->o.store, &model_request_schema, key, &text, &r, &e) == 0)
			reserve_again(engine, &t, &r);
	}
	return true;
}

void model_route_recover(struct engine *engine)
{
	struct err e = ERR_INIT;

	if (view_live_turns(engine->o.store, recover_turn, engine, &e) < 0)
		log_error("find the open requests to models: %s", e.message);
}
