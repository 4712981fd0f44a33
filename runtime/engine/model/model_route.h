#ifndef BAILIFF_ENGINE_MODEL_ROUTE_H
#define BAILIFF_ENGINE_MODEL_ROUTE_H

/*
 * What the loop does with a request to a model before it is sent (model_route) and after it has ended (model_settle).
 *
 *	model_choice_auto struct model_choice c = MODEL_CHOICE_INIT;
 *	if (model_route(tx, &ask, &c, &e) < 0)     commit tx: it has the reasons; e is the error of the turn
 *	... encode with c.config and c.max_output_tokens, EMIT(model_requested, tx, …), commit ...
 *	model_settle(tx, &scope, &c.config, &usage);     in the transaction of model.completed or model.failed
 *
 * Money is safe before it is spent: the request reserves the most it can cost, given the length of its answer, and the
 * answer is limited to what budgets and the turn's limits allow. A request whose input alone would exceed them is not
 * sent. The reservation ends with model.completed or model.failed (reservation.h).
 *
 * The chain of models: the one that the turn names, or else the user's default; then the registered models in the order
 * of the policy's list; then the other registered ones, oldest first.
 */

#include "policy/routing.h"
#include "runtime/engine/model/model_registry.h"
#include "runtime/event/payloads.h"

struct dialect_usage;
struct transaction;

struct model_route_ask {
	struct scope scope;        /* of the turn; model_request is the id of the request */
	const char *requested;     /* a registered model by name; NULL = the default */
	const char *const *failed; /* names of models that are not tried again in this turn */
	size_t nfailed;
	const char *failed_request_id, *failed_reason; /* the last failure, if this is a fallback; reason NULL = none */
	enum fallback_policy fallback;                 /* FALLBACK_NONE: only the requested model */
	uint64_t input_tokens;                         /* an estimate, not too low */
	uint64_t output_tokens;                        /* the longest answer wanted; 0 = as the model allows */
	double max_cost_usd;                           /* of the whole turn; negative = no limit */
	uint64_t max_tokens;                           /* likewise, sent and received; 0 = no limit */
	uint64_t used_tokens, used_micro_usd;          /* of these, in other turns that count for it */
};

struct model_choice {
	struct model_config config;
	uint64_t max_output_tokens; /* limit of the answer; 0 = the dialect's default */
	uint64_t reserved_micro_usd;
	/* If there is no choice: */
	const char *category; /* budget, limit, rate_limit, quota, price, context, model */
	uint64_t reset_us;    /* when it may be tried again; 0 = not known */
};
#define MODEL_CHOICE_INIT ((struct model_choice){ 0 })
static inline void model_choice_done(struct model_choice *c) { model_config_done(&c->config); }
#define model_choice_auto __attribute__((cleanup(model_choice_done)))

/*
 * Chooses a model, adds the routing facts and reserves. −1: no model can be used; `e` says why and until when, and the
 * facts say so for each model. If the transaction is not committed, or the request not sent, call reservation_release.
 */
int model_route(struct transaction *tx, const struct model_route_ask *ask, struct model_choice *ret, struct err *e);

/*
 * The provider rejected a request, or announced that it will: its rate limit ("rate_limit") or quota ("quota") is
 * exhausted until reset_us (0 = not known). Routing avoids the model until then.
 */
void model_limited(struct transaction *tx, const struct scope *s, const struct model_config *c, const char *kind,
		   uint64_t reset_us);

/* Adds the cost of a request that has ended, also if it failed or its usage is estimated. */
void model_settle(struct transaction *tx, const struct scope *s, const struct model_config *c,
		  const struct dialect_usage *u);

/* A row of modules.def: reserves again for requests that were open when the runtime ended. */
void model_route_recover(struct engine *engine);

#endif
