#ifndef BAILIFF_ENGINE_ROUTING_FACTS_H
#define BAILIFF_ENGINE_ROUTING_FACTS_H

/*
 * Routing, costs and limits as facts. The policy makes the decision (policy/routing.h). This module collects its
 * inputs from the documents, records the candidates and the decision, and updates the budgets when costs are
 * reported.
 */

#include "policy/routing.h"
#include "runtime/engine/core/engine.h"

struct routing_ask {
	const char *turn_id; /* the turn it is for */
	const char *task_id; /* or NULL: the turn's, or a new internal one */
	struct routing_request want;
	const char *profile_json; /* taskProfile as given, with defaults */
	size_t profile_len;
	const char *failed_request_id, *failed_reason; /* of an earlier choice that failed; reason NULL = none */
};
void engine_resolve_routing(struct engine *g, const struct routing_ask *r, const struct caller *c, engine_reply_fn fn,
			    void *ctx);

struct cost_report {
	const char *turn_id, *provider, *model, *model_request_id; /* turn_id NULL: the system turn */
	uint64_t input_tokens, output_tokens, cached_tokens;
	double usd; /* negative = not given: computed from the policy's prices */
	bool estimate;
};
void engine_record_cost(struct engine *g, const struct cost_report *r, const struct caller *c, engine_reply_fn fn,
			void *ctx);

struct limit_report {
	const char *turn_id, *provider, *model; /* model NULL = the provider's limit */
	const char *kind;                       /* rate_limit, quota, budget */
	const char *state;                      /* ok, low, hit, blocked; NULL = from kind and remaining */
	const char *reset_at;                   /* RFC 3339, or NULL */
	bool has_remaining;
	double remaining;
};
void engine_record_limit(struct engine *g, const struct limit_report *r, const struct caller *c, engine_reply_fn fn,
			 void *ctx);

/* Sets the models and budgets of the policy files. The caller keeps them alive until the next call. */
void engine_set_models(struct engine *g, const struct model_list *models);

/*
 * The model events of a request must be in order: requested, deltas, then completed or failed. −1 with the reason if
 * events[i] is not (the events before it are in the same batch). For a completed request to a priced model, the cost
 * is added.
 */
struct cost_pending;
struct transaction;
struct emit_event;
int routing_check_model_event(struct engine *g, const struct emit_event *events, size_t i, struct err *e);
void routing_model_completed(struct engine *g, struct transaction *tx, const struct emit_event *events, size_t i,
			     uint32_t uid, struct cost_pending *pending);

#endif
