/* Costs, budgets, and limits that providers report; and the checks of clients' model events. */

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/model/model.h"
#include "runtime/engine/model/model_registry.h"
#include "runtime/engine/model/reservation.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"

#include <time.h>

/* ---- budgets ---- */

/* The amount spent in the budget's scope and current window, in millionths of a dollar. */
static uint64_t spent_of(struct engine *engine, const struct policy_budget *b, uint32_t uid, const char *session_id,
			 uint64_t now_us)
{
	static const enum cost_of windows[] = {
		[BUDGET_EVER] = COST_OF_USER, [BUDGET_DAY] = COST_OF_USER_DAY, [BUDGET_MONTH] = COST_OF_USER_MONTH
	};
	buf_auto struct buf text = BUF_INIT;
	char key[VIEW_COST_KEY];
	struct err e = ERR_INIT;
	struct cost_doc d;

	cost_key(b->scope == BUDGET_OF_SESSION ? COST_OF_SESSION : windows[b->window], session_id, uid, now_us, key);
	if (view_read_speculative(engine->o.store, &cost_schema, key, &text, &d, &e) != 0)
		return 0;
	return view_counted(d.microUsd);
}

/* The end of a window: the next midnight or the first of the next month, UTC; 0 = never. */
static uint64_t window_end(enum budget_window w, uint64_t now_us)
{
	time_t now = (time_t)(now_us / 1000000);
	struct tm tm;

	if (w == BUDGET_EVER || !gmtime_r(&now, &tm))
		return 0;
	tm.tm_sec = tm.tm_min = tm.tm_hour = 0;
	if (w == BUDGET_DAY) {
		tm.tm_mday++;
	} else {
		tm.tm_mday = 1;
		tm.tm_mon++;
	}
	return (uint64_t)timegm(&tm) * 1000000;
}

/* What is left for new requests: open ones have reserved their part. */
static uint64_t budget_left(struct engine *engine, const struct policy_budget *b, uint32_t uid, const char *session_id,
			    uint64_t now_us)
{
	const char *session = b->scope == BUDGET_OF_SESSION ? session_id : NULL;
	uint64_t used = spent_of(engine, b, uid, session_id, now_us) +
			reservation_sum(engine, uid, session, NULL).micro_usd;

	return used < b->micro_usd ? b->micro_usd - used : 0;
}

/* Checks all budgets, also after one is too small: the latest end of a window counts. */
const struct policy_budget *budget_blocks(struct engine *engine, uint32_t uid, const char *session_id, uint64_t now_us,
					  uint64_t needed, uint64_t *reset_us, uint64_t *ret_left)
{
	const struct policy_budget *blocks = NULL;

	for (size_t i = 0; engine->models && i < engine->models->nbudget; i++) {
		const struct policy_budget *b = &engine->models->budget[i];
		uint64_t left = budget_left(engine, b, uid, session_id, now_us), end = window_end(b->window, now_us);

		if (left < *ret_left)
			*ret_left = left;
		if (left >= needed)
			continue;
		if (!blocks || end > *reset_us)
			blocks = b;
		if (end > *reset_us)
			*reset_us = end;
	}
	return blocks;
}

bool budget_spent(struct engine *engine, uint32_t uid, const char *session_id, uint64_t now_us, uint64_t *reset_us)
{
	uint64_t left = UINT64_MAX;

	return budget_blocks(engine, uid, session_id, now_us, 1, reset_us, &left) != NULL;
}

static const char *budget_state(const struct policy_budget *b, uint64_t spent)
{
	return spent >= b->micro_usd ? "blocked" : spent * 100 >= b->micro_usd * b->low_percent ? "low" : "ok";
}

void budget_json(struct engine *engine, uint32_t uid, const char *session_id, uint64_t now_us, struct jw *w)
{
	jw_karr(w, "budgets");
	for (size_t i = 0; engine->models && i < engine->models->nbudget; i++) {
		const struct policy_budget *b = &engine->models->budget[i];

		if (b->scope == BUDGET_OF_SESSION && !session_id)
			continue;
		uint64_t spent = spent_of(engine, b, uid, session_id, now_us);

		jw_obj(w);
		jw_kstr(w, "name", b->name);
		jw_kstr(w, "scope", b->scope == BUDGET_OF_SESSION ? "session" : "user");
		jw_kstr(w, "window", budget_window_name(b->window));
		jw_kuint(w, "limitMicroUsd", b->micro_usd);
		jw_kuint(w, "spentMicroUsd", spent);
		jw_kuint(w, "reservedMicroUsd",
			 reservation_sum(engine, uid, b->scope == BUDGET_OF_SESSION ? session_id : NULL, NULL)
				 .micro_usd);
		jw_kstr(w, "state", budget_state(b, spent));
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

void engine_budgets(struct engine *engine, uint32_t uid, struct jw *w)
{
	budget_json(engine, uid, NULL, clock_real_us(), w);
}

/* ---- budgets of the policy files ---- */

#define BUDGETS_META "limits.budgets" /* what the last version of the policy had, by name */

static void budget_settings(struct jw *w, const struct policy_budget *b)
{
	jw_obj(w);
	jw_kstr(w, "scope", b->scope == BUDGET_OF_SESSION ? "session" : "user");
	jw_kstr(w, "window", budget_window_name(b->window));
	jw_kuint(w, "limitMicroUsd", b->micro_usd);
	jw_kuint(w, "lowPercent", b->low_percent);
	jw_obj_end(w);
}

static void budget_changed(struct transaction *tx, const char *name, struct jval old, struct jval new)
{
	const struct scope s = { .uid = tx->engine->o.owner_uid,
				 .session = tx->engine->system_session,
				 .thread = tx->engine->system_thread };
	char limit[100];

	if (old.len == new.len && (!old.len || memcmp(old.text, new.text, old.len) == 0))
		return;
	(void)snprintf(limit, sizeof limit, "budget:%.64s", name);
	EMIT(limit_changed, tx, s, .limit = limit, .old = json_from_jval(old), .new = json_from_jval(new));
}

/* limit.changed for each budget that differs from the last version of the policy, also across restarts. */
static void report_budgets(struct engine *engine)
{
	buf_auto struct buf now = BUF_INIT, before = BUF_INIT;
	struct jw w = jw_on(&now);
	struct err e = ERR_INIT;

	jw_obj(&w);
	for (size_t i = 0; i < engine->models->nbudget; i++) {
		jw_key(&w, engine->models->budget[i].name);
		budget_settings(&w, &engine->models->budget[i]);
	}
	jw_obj_end(&w);
	/* What an earlier call wrote may not be committed yet. */
	if (engine->budgets)
		buf_str(&before, engine->budgets);
	else if (store_meta_get(engine->o.store, BUDGETS_META, &before, &e) < 0)
		return log_error("look up the budgets of last time: %s", e.message);
	free(engine->budgets);
	engine->budgets = mem_strdup(buf_cstr(&now));
	if (strcmp(before.len ? buf_cstr(&before) : "{}", buf_cstr(&now)) == 0)
		return;
	struct transaction *tx = transaction_new_internal(engine);
	struct jval old = jval_of(before.data, before.len), new = jval_of(now.data, now.len);
	char name[ID_SIZE];
	for (struct jiter it = jiter_on(new); jiter_next(&it);) {
		jval_str(it.key, name, sizeof name);
		budget_changed(tx, name, jval_get(old, name), it.value);
	}
	for (struct jiter it = jiter_on(old); jiter_next(&it);) {
		jval_str(it.key, name, sizeof name);
		if (jval_get(new, name).type == JT_NONE)
			budget_changed(tx, name, it.value, (struct jval){ 0 });
	}
	transaction_set_meta(tx, BUDGETS_META, now.data, now.len);
	transaction_commit_then(tx, STORE_MUST, NULL, NULL);
}

void budget_done(struct engine *engine) { free(engine->budgets); }

void engine_set_models(struct engine *engine, const struct model_list *models)
{
	engine->models = models;
	if (models && engine->system_session[0])
		report_budgets(engine);
}

/* ---- facts ---- */

/*
 * The scope of a cost or a limit: the turn, or without one the system turn. Except for turn_id, the scope points to
 * texts in `turn`.
 */
static int money_scope(struct engine *engine, const char *turn_id, const struct caller *c, struct view_turn_brief *turn,
		       struct scope *ret, struct err *e)
{
	if (!turn_id) {
		*ret = (struct scope){ .uid = c->uid,
				       .session = engine->system_session,
				       .thread = engine->system_thread,
				       .turn = engine->system_turn,
				       .request = c->request_id };
		return 0;
	}
	int r = view_turn_brief(engine->o.store, c->uid, turn_id, turn, e);
	if (r != 0)
		return r < 0 ? -1 : err_field(e, "turnId", "'%.64s' is not known", turn_id);
	*ret = (struct scope){ .uid = turn->uid,
			       .session = turn->session_id,
			       .thread = turn->thread_id,
			       .turn = turn_id,
			       .task = turn->task_id,
			       .request = c->request_id };
	return 0;
}

void cost_pending_done(struct cost_pending *p) { free(p->row); }

/* The part of the pending costs that counts against this budget. */
static uint64_t pending_of(const struct cost_pending *p, const struct policy_budget *b, const struct scope *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; p && i < p->count; i++)
		if (p->row[i].uid == s->uid &&
		    (b->scope != BUDGET_OF_SESSION || strcmp(p->row[i].session_id, s->session) == 0))
			sum += p->row[i].micro_usd;
	return sum;
}

/* Reports each budget that passes a mark, once, when it happens. */
static void budget_facts(struct engine *engine, const struct scope *s, struct transaction *tx, uint64_t added,
			 uint64_t now, struct cost_pending *pending)
{
	for (size_t i = 0; engine->models && i < engine->models->nbudget; i++) {
		const struct policy_budget *b = &engine->models->budget[i];
		uint64_t before = spent_of(engine, b, s->uid, s->session, now) + pending_of(pending, b, s),
			 after = before + added;
		const char *was = budget_state(b, before), *is = budget_state(b, after);
		char limit[100], reset[CLOCK_TEXT_MAX];
		uint64_t end = window_end(b->window, now);

		/* Only a change of the state (ok, low, blocked) is reported. */
		if (strcmp(was, is) == 0)
			continue;
		snprintf(limit, sizeof limit, "budget:%.64s", b->name);
		clock_format(end, reset);
		const char *resets = end ? reset : NULL;
		const double mark = b->low_percent / 100.0;
		EMIT(limit_changed, tx, *s, .limit = limit, .old = json_from_string(was), .new = json_from_string(is),
		     .resetAt = resets);
		if (strcmp(is, "blocked") == 0)
			EMIT(quota_blocked, tx, *s, .limit = limit,
			     .held = json_from_string("routing to priced models"), .resetAt = resets);
		else
			EMIT(quota_low, tx, *s, .limit = limit, .left = (b->micro_usd - after) / 1e6,
			     .mark = json_from_real(&mark));
	}
	/* Later costs of the same transaction include this one. */
	if (!pending)
		return;
	pending->row = mem_realloc(pending->row, (pending->count + 1) * sizeof *pending->row);
	struct cost_pending_row *row = &pending->row[pending->count++];
	row->uid = s->uid;
	row->micro_usd = added;
	id_copy(row->session_id, s->session);
}

static struct opt_int opt_count(uint64_t n) { return opt_int_if(n, (int64_t)n); }

/* An estimate and a cost have the same members; only costs count against budgets. */
static void cost_fact(const struct scope *s, struct transaction *tx, const struct cost_report *r, uint64_t micro,
		      const char *basis)
{
	const struct json_value provider = json_from_string(r->provider), model = json_from_string(r->model),
				basis_json = json_from_string(basis), micro_json = json_from_uint(&micro),
				tokens = JSON_OBJECT(token_counts, .input = (int64_t)r->tokens.input,
						     .output = (int64_t)r->tokens.output,
						     .cached = (int64_t)r->tokens.cached,
						     .cacheWrite = opt_count(r->tokens.cache_write),
						     .cacheWrite1h = opt_count(r->tokens.cache_write_1h));
	struct scope of = *s;

	of.model_request = r->model_request_id;
	if (r->estimate)
		EMIT(cost_estimated, tx, of, .amount = micro / 1e6, .currency = "USD", .microUsd = micro_json,
		     .provider = provider, .model = model, .tokens = tokens, .basis = basis_json,
		     .modelRequestId = json_from_string(r->model_request_id));
	else
		EMIT(cost_recorded, tx, of, .amount = micro / 1e6, .currency = "USD", .microUsd = micro_json,
		     .provider = provider, .model = model, .tokens = tokens, .basis = basis_json,
		     .modelRequestId = r->model_request_id);
}

/* −1: no price is known and no amount was given. */
static int cost_amount(struct engine *engine, const struct cost_report *r, uint64_t *ret, const char **ret_basis)
{
	struct model_price price;

	/* An amount that the client gives takes precedence over prices. */
	if (r->usd >= 0) {
		*ret = (uint64_t)(r->usd * 1e6 + 0.5);
		*ret_basis = "reported";
		return 0;
	}
	if (!r->model || !model_price_find(engine, r->provider, r->model, &price))
		return -1;
	*ret = model_price_of(&price, &r->tokens);
	*ret_basis = "price_table";
	return 0;
}

uint64_t cost_record(struct transaction *tx, const struct scope *s, const struct cost_report *r, bool estimated_usage)
{
	const char *basis = "unpriced";
	uint64_t micro = 0;

	if (cost_amount(tx->engine, r, &micro, &basis) == 0) {
		budget_facts(tx->engine, s, tx, micro, engine_real(tx->engine), NULL);
		if (estimated_usage)
			basis = "estimated_usage";
	}
	cost_fact(s, tx, r, micro, basis);
	return micro;
}

void engine_record_cost(struct engine *engine, const struct cost_report *r, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	const char *basis = "unpriced";
	struct view_turn_brief named;
	struct scope s;
	struct err e = ERR_INIT;
	uint64_t micro = 0;

	if (money_scope(engine, r->turn_id, c, &named, &s, &e) < 0)
		return transaction_reject(tx, &e);
	bool priced = cost_amount(engine, r, &micro, &basis) == 0;
	/* Estimates do not count against budgets. */
	if (!r->estimate && micro)
		budget_facts(engine, &s, tx, micro, engine_real(engine), NULL);
	cost_fact(&s, tx, r, micro, basis);
	jw_key(&tx->w, "amount");
	jw_real(&tx->w, (double)micro / 1e6);
	jw_kstr(&tx->w, "currency", "USD");
	jw_kstr(&tx->w, "basis", basis);
	if (!priced)
		jw_kstr(&tx->w, "advice",
			"no price is known for this model: give costUsd, or name its price in the policy's models");
	transaction_commit(tx);
}

/* ---- limits that providers report ---- */

#define LIMIT_NAME_MAX 200

/*
 * The state of a limit as reported, or derived from what remains; a report with neither means that the limit was hit.
 */
static const char *state_of(const struct limit_report *r)
{
	if (r->state)
		return r->state;
	if (r->has_remaining)
		return r->remaining > 0 ? "ok" : "blocked";
	return strcmp(r->kind, "rate_limit") == 0 ? "hit" : "blocked";
}

static void limit_name(const struct limit_report *r, char ret[LIMIT_NAME_MAX])
{
	(void)snprintf(ret, LIMIT_NAME_MAX, "%s:%.64s%s%.64s", r->kind, r->provider, r->model ? "/" : "",
		       r->model ? r->model : "");
}

/* The event for people (rate limit, quota) comes first, then the state that routing reads. */
void limit_record(struct transaction *tx, const struct scope *s, const struct limit_report *r)
{
	const char *state = state_of(r);
	bool hit = strcmp(state, "hit") == 0 || strcmp(state, "blocked") == 0;
	bool rate = strcmp(r->kind, "rate_limit") == 0;
	struct err e = ERR_INIT;
	char limit[LIMIT_NAME_MAX], key[VIEW_COST_KEY], old[ID_SIZE] = "unknown";
	buf_auto struct buf text = BUF_INIT;
	struct limit_doc d;

	limit_name(r, limit);
	if (hit || strcmp(state, "low") == 0) {
		if (rate && hit)
			EMIT(rate_limit_hit, tx, *s, .limit = limit, .provider = r->provider, .model = r->model,
			     .resetAt = r->reset_at);
		else if (hit)
			EMIT(quota_blocked, tx, *s, .limit = limit, .provider = r->provider, .model = r->model,
			     .resetAt = r->reset_at, .held = json_from_string("routing to it"));
		else
			EMIT(quota_low, tx, *s, .limit = limit, .provider = r->provider, .model = r->model,
			     .resetAt = r->reset_at, .left = r->has_remaining ? r->remaining : 0);
	}
	limit_key(s->uid, r->kind, r->provider, r->model, key);
	if (view_read_speculative(tx->engine->o.store, &limit_schema, key, &text, &d, &e) == 0)
		id_copy(old, d.state);
	EMIT(limit_changed, tx, *s, .limit = limit, .kind = r->kind, .provider = r->provider, .model = r->model,
	     .old = json_from_string(old),
	     .new = JSON_OBJECT(limit_state, .state = state,
				.remaining = r->has_remaining ? json_from_real(&r->remaining) : JSON_NONE),
	     .resetAt = r->reset_at);
}

void engine_record_limit(struct engine *engine, const struct limit_report *r, const struct caller *c,
			 engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	struct view_turn_brief named;
	struct scope s;
	struct err e = ERR_INIT;
	char limit[LIMIT_NAME_MAX];

	if (money_scope(engine, r->turn_id, c, &named, &s, &e) < 0)
		return transaction_reject(tx, &e);
	limit_record(tx, &s, r);
	limit_name(r, limit);
	jw_kstr(&tx->w, "limit", limit);
	jw_kstr(&tx->w, "state", state_of(r));
	transaction_commit(tx);
}

/* ---- model events from clients ---- */

static bool is_model_event(const struct emit_event *ev)
{
	return ev->ids[ID_MODEL_REQUEST] && strncmp(ev->type, "model.", 6) == 0;
}

/*
 * The nearest event before events[i] in this batch about the same request and of this type (NULL = any); NULL = none.
 */
static const struct emit_event *find_earlier(const struct emit_event *events, size_t i, const char *type)
{
	const char *id = events[i].ids[ID_MODEL_REQUEST];

	for (size_t k = i; k-- > 0;)
		if (is_model_event(&events[k]) && strcmp(events[k].ids[ID_MODEL_REQUEST], id) == 0 &&
		    (!type || strcmp(events[k].type, type) == 0))
			return &events[k];
	return NULL;
}

static int read_request(struct engine *engine, const struct emit_event *ev, struct buf *text,
			struct model_request_doc *ret, struct err *e)
{
	char key[VIEW_REQUEST_KEY_MAX];

	view_model_request_key(ev->ids[ID_SESSION], ev->ids[ID_MODEL_REQUEST], key);
	return view_read_speculative(engine->o.store, &model_request_schema, key, text, ret, e);
}

int routing_check_model_event(struct engine *engine, const struct emit_event *events, size_t i, struct err *e)
{
	const char *id = events[i].ids[ID_MODEL_REQUEST];
	buf_auto struct buf text = BUF_INIT;
	struct model_request_doc d;
	char status[ID_SIZE];

	if (!is_model_event(&events[i]))
		return 0;
	/* "" = the request is not known yet. */
	const struct emit_event *before = find_earlier(events, i, NULL);
	if (before) {
		bool ended = strcmp(before->type, "model.completed") == 0 || strcmp(before->type, "model.failed") == 0;

		id_copy(status, ended ? before->type + strlen("model.") : "open");
	} else {
		int r = read_request(engine, &events[i], &text, &d, e);

		if (r < 0)
			return -1;
		/* A client must not report an answer that the loop waits for. */
		if (r == 0 && d.processId.type != JT_NONE)
			return err_set(e, ERR_PERMISSION, "model request '%.64s' is made by the runtime itself", id);
		id_copy(status, r == 0 ? d.status : "");
	}
	bool begins = strcmp(events[i].type, "model.requested") == 0;
	if (begins && status[0])
		return err_set(e, ERR_CONFLICT, "model request '%.64s' was reported before", id);
	if (!begins && !status[0])
		return err_set(e, ERR_STATE, "model request '%.64s' is not known: report model.requested first", id);
	if (!begins && strcmp(status, "open") != 0)
		return err_set(e, ERR_STATE, "model request '%.64s' is %s already", id, status);
	return 0;
}

/* Finds the model of a request, and its turn. */
static bool request_model(struct engine *engine, const struct emit_event *events, size_t i, char provider[ID_SIZE],
			  char model[ID_SIZE], char turn[ID_SIZE])
{
	const struct emit_event *asked = find_earlier(events, i, "model.requested");
	buf_auto struct buf text = BUF_INIT;
	struct model_request_doc d;
	struct err e = ERR_INIT;

	if (asked) {
		struct jval payload = jval_of(asked->payload, asked->payload_len);

		d.provider = jval_get(payload, "provider");
		d.model = jval_get(payload, "model");
		id_copy(turn, asked->ids[ID_TURN]);
	} else if (read_request(engine, &events[i], &text, &d, &e) == 0) {
		id_copy(turn, d.turnId);
	} else {
		return false;
	}
	jval_str(d.provider, provider, ID_SIZE);
	jval_str(d.model, model, ID_SIZE);
	return provider[0] && model[0];
}

/* Adds the cost that the price table gives for the reported usage. Without a price nothing is added. */
void routing_model_completed(struct engine *engine, struct transaction *tx, const struct emit_event *events, size_t i,
			     uint32_t uid, struct cost_pending *pending)
{
	const struct emit_event *ev = &events[i];
	struct jval usage = jval_get(jval_of(ev->payload, ev->payload_len), "usage");
	char provider[ID_SIZE], model[ID_SIZE], turn[ID_SIZE];
	const struct caller c = { .uid = uid };
	struct view_turn_brief named;
	struct scope s;
	struct err e = ERR_INIT;
	const char *basis;
	uint64_t micro = 0;

	if (!is_model_event(ev) || usage.type != JT_OBJECT || !request_model(engine, events, i, provider, model, turn))
		return;
	const struct cost_report r = {
		.provider = provider,
		.model = model,
		.model_request_id = ev->ids[ID_MODEL_REQUEST],
		.usd = -1,
		.tokens = { .input = jval_uint(jval_get(usage, "inputTokens"), 0),
			    .output = jval_uint(jval_get(usage, "outputTokens"), 0),
			    .cached = jval_uint(jval_get(usage, "cachedTokens"), 0),
			    .cache_write = jval_uint(jval_get(usage, "cacheWriteTokens"), 0),
			    .cache_write_1h = jval_uint(jval_get(usage, "cacheWrite1hTokens"), 0) },
	};
	if (cost_amount(engine, &r, &micro, &basis) < 0 ||
	    money_scope(engine, turn[0] ? turn : NULL, &c, &named, &s, &e) < 0)
		return;
	budget_facts(engine, &s, tx, micro, engine_real(engine), pending);
	cost_fact(&s, tx, &r, micro, basis);
}

/* ---- costs that clients report as events ---- */

#define COST_USD_MAX 1e6 /* as for record_cost */

static int check_amount(struct jval payload, uint64_t *ret_micro, struct err *e)
{
	static const char *const members[] = { "input", "output", "cached" };
	struct jval amount = jval_get(payload, "amount"), micro = jval_get(payload, "microUsd"),
		    currency = jval_get(payload, "currency"), tokens = jval_get(payload, "tokens");
	char text[48] = "";

	if (amount.type == JT_NUMBER && amount.len < sizeof text)
		memcpy(text, amount.text, amount.len);
	double usd = *text ? strtod(text, NULL) : -1;
	if (!(usd >= 0) || usd > COST_USD_MAX)
		return err_field(e, "payload.amount", "must be 0 to %.0f US dollars", COST_USD_MAX);
	if (currency.type != JT_NONE && !jval_is_str(currency, "USD"))
		return err_field(e, "payload.currency", "must be USD, the currency of budgets");
	*ret_micro = (uint64_t)(usd * 1e6 + 0.5);
	if (micro.type != JT_NONE && jval_uint(micro, UINT64_MAX) != *ret_micro)
		return err_field(e, "payload.microUsd", "must be amount in millionths, or left out");
	if (tokens.type != JT_NONE && tokens.type != JT_OBJECT)
		return err_field(e, "payload.tokens", "expected an object with input, output and cached");
	for (size_t i = 0; i < countof(members); i++) {
		struct jval v = jval_get(tokens, members[i]);
		char field[ERR_FIELD_MAX];

		snprintf(field, sizeof field, "payload.tokens.%s", members[i]);
		if (v.type != JT_NONE && jval_uint(v, UINT64_MAX) > 1ull << 40)
			return err_field(e, field, "expected a whole number, 0 or more");
	}
	return 0;
}

/* Estimates are checked, but do not count. */
int cost_emitted(struct engine *engine, struct transaction *tx, const struct event_draft *d,
		 struct cost_pending *pending, struct err *e)
{
	const struct scope s = { .uid = d->uid,
				 .session = d->ids[ID_SESSION],
				 .thread = d->ids[ID_THREAD],
				 .turn = d->ids[ID_TURN],
				 .task = d->ids[ID_TASK],
				 .request = d->ids[ID_REQUEST] };
	uint64_t micro = 0;

	if (check_amount(jval_of(d->payload, d->payload_len), &micro, e) < 0)
		return -1;
	if (d->type != EVENT_COST_RECORDED || !micro)
		return 0;
	budget_facts(engine, &s, tx, micro, engine_real(engine), pending);
	return 0;
}
