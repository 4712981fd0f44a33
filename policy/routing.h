#ifndef BAILIFF_POLICY_ROUTING_H
#define BAILIFF_POLICY_ROUTING_H

/*
 * Selects the model for a turn: a pure function of the models in the policy, the requirements of the turn, and the
 * known limits and budgets. The result lists every candidate with a reason, even if only one fits, or none.
 */

#include "policy/model_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROUTING_CANDIDATES_MAX 256u

enum fallback_policy { FALLBACK_NEXT, FALLBACK_CHEAPEST, FALLBACK_NONE, FALLBACK_COUNT };
int fallback_policy_find(const char *name); /* next | cheapest | none; −1 = unknown */
const char *fallback_policy_name(enum fallback_policy f);

struct routing_request {
	const char *kind;              /* the kind of work, for the record */
	const char *const *capability; /* all are required */
	size_t ncapability;
	enum model_latency latency;     /* LATENCY_COUNT = any */
	enum budget_class budget_class; /* more expensive models are excluded; BUDGET_HIGH = none is */
	enum fallback_policy fallback;
	const char *provider, *model; /* requested; NULL = any. With FALLBACK_NONE no other model is used */
	bool override; /* by an operator: limits, budgets, budget_class and FALLBACK_NONE exclude no model */
	const char *failed_provider, *failed_model; /* an earlier choice that failed, or NULL */
	uint64_t input_tokens, output_tokens;       /* expected; 0 = not given */
};

/* The current state of a candidate. */
struct routing_limits {
	bool failed;         /* in this turn */
	bool not_registered; /* the loop has no address and key for it */
	bool price_unknown;  /* and a limit of the cost is to be enforced */
	bool rate_limited, quota_blocked, budget_blocked;
	bool limit_reached; /* of the turn */
	uint64_t reset_us;  /* when it is available again; 0 = unknown */
};
typedef void (*routing_limits_fn)(void *ctx, const struct policy_model *m, struct routing_limits *ret);

enum routing_exclusion {
	ROUTING_FITS,
	ROUTING_DISABLED,
	ROUTING_NOT_REQUESTED,
	ROUTING_FAILED_BEFORE,
	ROUTING_NOT_REGISTERED,
	ROUTING_CAPABILITY_MISSING,
	ROUTING_TOO_DEAR,
	ROUTING_CONTEXT_TOO_SMALL,
	ROUTING_PRICE_UNKNOWN,
	ROUTING_RATE_LIMITED,
	ROUTING_QUOTA_BLOCKED,
	ROUTING_BUDGET_BLOCKED,
	ROUTING_LIMIT_REACHED,
	ROUTING_EXCLUSION_COUNT
};
const char *routing_exclusion_name(enum routing_exclusion x);

struct routing_candidate {
	const struct policy_model *model;
	enum routing_exclusion excluded;
	const char *missing; /* the first capability that it lacks */
	uint64_t reset_us;
	bool priced;
	uint64_t estimate; /* micro-USD */
};

enum routing_mode { ROUTING_RANKED, ROUTING_REQUESTED, ROUTING_SINGLE, ROUTING_FALLBACK, ROUTING_NOT_POSSIBLE };
const char *routing_mode_name(enum routing_mode m);

struct routing_outcome {
	struct routing_candidate candidate[ROUTING_CANDIDATES_MAX]; /* those that fit first, best first */
	size_t count, eligible;
	enum routing_mode mode;
	char reason[200];       /* for people */
	bool requires_override; /* no model fits, but an override of a limit, a budget or the request could change that
				 */
};

void routing_decide(const struct model_list *models, const struct routing_request *r, routing_limits_fn limits,
		    void *ctx, struct routing_outcome *ret);

#endif
