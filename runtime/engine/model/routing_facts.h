#ifndef BAILIFF_ENGINE_ROUTING_FACTS_H
#define BAILIFF_ENGINE_ROUTING_FACTS_H

/*
 * Routing, costs and limits as facts. The decision is policy's (policy/routing.h); this gathers what it needs from the
 * documents, writes what was weighed and decided, and watches the budgets when costs come in.
 */

#include "policy/routing.h"
#include "runtime/engine/core/engine.h"

struct routing_ask {
	const char *turn_id; /* the turn it is for */
	const char *task_id; /* or NULL: the turn's, or an internal one that is made */
	struct routing_request want;
	const char *profile_json; /* taskProfile as it was given, with its defaults */
	size_t profile_len;
	const char *failed_request_id, *failed_reason; /* of an earlier choice that failed; reason NULL = none did */
};
void engine_resolve_routing(struct engine *g, const struct routing_ask *r, const struct caller *c, engine_reply_fn fn,
			    void *ctx);

struct cost_report {
	const char *turn_id, *provider, *model, *model_request_id; /* turn_id NULL: the system turn's */
	uint64_t input_tokens, output_tokens, cached_tokens;
	double usd; /* negative = not given: from the policy's prices */
	bool estimate;
};
void engine_record_cost(struct engine *g, const struct cost_report *r, const struct caller *c, engine_reply_fn fn,
			void *ctx);

struct limit_report {
	const char *turn_id, *provider, *model; /* model NULL = of the provider */
	const char *kind;                       /* rate_limit, quota, budget */
	const char *state;                      /* ok, low, hit, blocked; NULL = from kind and remaining */
	const char *reset_at;                   /* RFC 3339, or NULL */
	bool has_remaining;
	double remaining;
};
void engine_record_limit(struct engine *g, const struct limit_report *r, const struct caller *c, engine_reply_fn fn,
			 void *ctx);

/* The policy files' models and budgets, from now on; kept by the caller, until there are others. */
void engine_set_models(struct engine *g, const struct model_list *models);

/*
 * A client's model events come in order for each request: requested, deltas, then completed or failed. −1 with the
 * reason when events[i] does not (those before it are in the same batch); for a completed one of a priced model the
 * cost is added.
 */
struct cost_pending;
struct transaction;
struct emit_event;
struct store_batch;
int routing_check_model_event(struct engine *g, const struct emit_event *events, size_t i, struct err *e);
void routing_model_completed(struct engine *g, struct store_batch *b, const struct emit_event *events, size_t i,
			     uint32_t uid, struct cost_pending *pending);

#endif
