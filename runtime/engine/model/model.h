#ifndef BAILIFF_ENGINE_MODEL_H
#define BAILIFF_ENGINE_MODEL_H

/*
 * Routing, costs and limits of language models as facts, and the events that clients report about them. The policy
 * makes the decision (policy/routing.h). This module collects its inputs from the documents, records the candidates and
 * the decision, and updates the budgets when costs are reported.
 *
 * model_registry.c  the models that the execution loop may call
 * model_route.c     the model of one request of the loop; its cost
 * reservation.c     what open requests may still cost
 * emit.c            emit_events: facts that clients report
 * routing_facts.c   resolve_routing
 * cost.c            costs, budgets and limits; the order of clients' model events
 */

#include "policy/routing.h"
#include "runtime/engine/core/engine.h"
#include "runtime/event/id.h"

struct buf;
struct emit_event;
struct err;
struct event_draft;
struct jw;
struct scope;
struct transaction;

struct routing_ask {
	const char *turn_id; /* the turn it is for */
	const char *task_id; /* or NULL: the turn's, or a new internal one */
	struct routing_request want;
	const char *profile_json; /* taskProfile as given, with defaults */
	size_t profile_len;
	const char *failed_request_id, *failed_reason; /* of an earlier choice that failed; reason NULL = none */
	const char *override_reason;                   /* with want.override */
};
/* "budgets":[…] of a user, as budget_json writes them without a session. */
void engine_budgets(struct engine *engine, uint32_t uid, struct jw *w);
void engine_resolve_routing(struct engine *engine, const struct routing_ask *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx);

struct cost_report {
	const char *turn_id, *provider, *model, *model_request_id; /* turn_id NULL: the system turn */
	struct model_tokens tokens;
	double usd; /* negative = not given: computed from the prices */
	bool estimate;
};
void engine_record_cost(struct engine *engine, const struct cost_report *r, const struct caller *c, engine_reply_fn fn,
			void *ctx);

struct limit_report {
	const char *turn_id, *provider, *model; /* model NULL = the provider's limit */
	const char *kind;                       /* rate_limit, quota, budget */
	const char *state;                      /* ok, low, hit, blocked; NULL = from kind and remaining */
	const char *reset_at;                   /* RFC 3339, or NULL */
	bool has_remaining;
	double remaining;
};
void engine_record_limit(struct engine *engine, const struct limit_report *r, const struct caller *c,
			 engine_reply_fn fn, void *ctx);

/* Sets the models and budgets of the policy files. The caller keeps them alive until the next call. */
void engine_set_models(struct engine *engine, const struct model_list *models);

void budget_done(struct engine *engine); /* a row of modules.def */

/* ---- between the files of the module ---- */

/*
 * True if a budget that applies to this user or session is used up; *reset_us is raised to the end of its window, if
 * that is later.
 */
bool budget_spent(struct engine *engine, uint32_t uid, const char *session_id, uint64_t now_us, uint64_t *reset_us);
/*
 * The budget that does not have `needed` left, after what is spent and reserved; NULL = all have it. *ret_left is
 * lowered to the least that is left.
 */
const struct policy_budget *budget_blocks(struct engine *engine, uint32_t uid, const char *session_id, uint64_t now_us,
					  uint64_t needed, uint64_t *reset_us, uint64_t *ret_left);
/* "budgets":[{name, scope, window, limitMicroUsd, spentMicroUsd, reservedMicroUsd, state}]; session_id NULL: without
 * those of sessions */
void budget_json(struct engine *engine, uint32_t uid, const char *session_id, uint64_t now_us, struct jw *w);

/* Adds a cost to the transaction, and what it means for the budgets. Returns the amount in micro-USD. */
uint64_t cost_record(struct transaction *tx, const struct scope *s, const struct cost_report *r, bool estimated_usage);

/* Likewise a limit that a provider reported. */
void limit_record(struct transaction *tx, const struct scope *s, const struct limit_report *r);

/* Inputs of the decision that are known from earlier facts; the context of routing_known_limits. */
struct routing_lookup {
	struct engine *engine;
	uint32_t uid;
	const char *session_id;
	uint64_t now;
};
void routing_known_limits(void *routing_lookup, const struct policy_model *m, struct routing_limits *ret);
/*
 * The facts of a decision: the candidates, then the choice, the fallback or the reason why there is none. The buffers
 * get the JSON of candidateModelSet and routingDecision.
 */
void routing_record(struct transaction *tx, const struct scope *s, const struct routing_ask *r,
		    const struct routing_outcome *o, const struct routing_lookup *l, struct buf *candidates,
		    struct buf *decision);

/*
 * The costs of the batch under construction. Budgets are read before the batch is submitted, so these are added to
 * what the store knows.
 */
struct cost_pending {
	struct cost_pending_row {
		char session_id[ID_SIZE];
		uint32_t uid;
		uint64_t micro_usd;
	} * row;
	size_t count;
};
void cost_pending_done(struct cost_pending *p);
#define cost_pending_auto __attribute__((cleanup(cost_pending_done)))
/*
 * A cost that a client reports as an event. Like record_cost, it must be a valid amount (−1 with the member as the
 * field) and counts against budgets. `ids` are the event's, `uid` is the session owner's.
 */
int cost_emitted(struct engine *engine, struct transaction *tx, const struct event_draft *d,
		 struct cost_pending *pending, struct err *e);
/*
 * The model events of a request must be in order: requested, deltas, then completed or failed. −1 with the reason if
 * events[i] is not (the events before it are in the same batch). For a completed request to a priced model, the cost
 * is added.
 */
int routing_check_model_event(struct engine *engine, const struct emit_event *events, size_t i, struct err *e);
void routing_model_completed(struct engine *engine, struct transaction *tx, const struct emit_event *events, size_t i,
			     uint32_t uid, struct cost_pending *pending);

#endif
