#ifndef BAILIFF_VIEW_COST_H
#define BAILIFF_VIEW_COST_H

/*
 * What was spent, what is limited, and where turns were routed: cost, limit, routing and model-request documents. The
 * engine decides from them (read ahead); snapshots show them.
 */

#include "runtime/view/view_documents.h"

#include <stdint.h>

struct jw;

#define VIEW_COST_KEY 256

/* Sums of cost.recorded: one document for each thing that money is counted for. */
struct cost_doc {
	uint64_t microUsd, inputTokens, outputTokens, cachedTokens, requests, updatedAt;
};
extern const struct view_schema cost_schema;
enum cost_of {
	COST_OF_SESSION,
	COST_OF_TURN,
	COST_OF_THREAD,
	COST_OF_TASK,
	COST_OF_USER,
	COST_OF_USER_DAY,
	COST_OF_USER_MONTH,
	COST_OF_MODEL
};
/* The document's id; `a` is the id, uid text or "provider/model"; times are UTC. */
void cost_key(enum cost_of of, const char *a, uint32_t uid, uint64_t real_us, char ret[VIEW_COST_KEY]);

/* What is known of a provider's or model's limit: id "<uid>/<kind>/<provider>/<model or *>". */
struct limit_doc {
	char kind[VIEW_ID_MAX], state[VIEW_ID_MAX]; /* state: ok, low, hit, blocked */
	uint64_t uid, updatedAt, resetUs;           /* resetUs: 0 = not known */
	struct jval provider, model, remaining, resetAt;
};
extern const struct view_schema limit_schema;
void limit_key(uint32_t uid, const char *kind, const char *provider, const char *model, char ret[VIEW_COST_KEY]);

/* The last routing of a turn (id turnId) and of a thread (id threadId). */
struct routing_doc {
	char turnId[VIEW_ID_MAX], modelRequestId[VIEW_ID_MAX];
	uint64_t decidedAt, fallbacks;
	struct jval taskProfile, candidateModelSet, routingDecision;
};
extern const struct view_schema routing_schema;

/* A request to a provider, as clients report it. */
struct model_request_doc {
	char modelRequestId[VIEW_ID_MAX], turnId[VIEW_ID_MAX], status[VIEW_ID_MAX]; /* open, completed, failed */
	uint64_t uid, startedAt, endedAt, deltas;
	struct jval provider, model, usage, stopReason, latencyMs, timeToFirstTokenMs, category;
};
extern const struct view_schema model_request_schema;
/* Clients name their requests themselves: an id says something only within its session. */
#define VIEW_REQUEST_KEY_MAX (2 * VIEW_ID_MAX)
void view_model_request_key(const char *session_id, const char *request_id, char key[VIEW_REQUEST_KEY_MAX]);

/* For snapshots: members `"costState":{…}` where something was spent; `"limitState"`, `"modelRouting"` likewise. */
int view_write_cost(struct store *s, enum cost_of of, const char *id, struct jw *w, struct err *e);
int view_write_limits(struct store *s, uint32_t uid, struct jw *w, struct err *e);
int view_write_routing(struct store *s, const char *id, bool of_turn, struct jw *w, struct err *e);
/* routing_limit_summary: the session's or thread's. */
int view_routing_summary(struct store *s, uint32_t uid, const char *session_id, const char *thread_id, struct jw *w,
			 struct err *e);

#endif
