#ifndef BAILIFF_VIEW_COST_H
#define BAILIFF_VIEW_COST_H

/*
 * Costs, limits, routing and model requests. The engine decides from these documents (speculative reads); snapshots
 * show them.
 */

#include "runtime/view/view_documents.h"

#include <stdint.h>

struct jw;

#define VIEW_COST_KEY 256

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

void limit_key(uint32_t uid, const char *kind, const char *provider, const char *model, char ret[VIEW_COST_KEY]);

/* Clients choose the ids of their requests, so these are unique only within a session. */
#define VIEW_REQUEST_KEY_MAX (2 * ID_SIZE)
void view_model_request_key(const char *session_id, const char *request_id, char key[VIEW_REQUEST_KEY_MAX]);

/* For snapshots: the member `"costState":{…}` if there were costs; `"limitState"`, `"modelRouting"` likewise. */
int view_write_cost(struct store *s, enum cost_of of, const char *id, struct jw *w, struct err *e);
int view_write_limits(struct store *s, uint32_t uid, struct jw *w, struct err *e);
int view_write_routing(struct store *s, const char *id, bool of_turn, struct jw *w, struct err *e);
/* routing_limit_summary: the session's or thread's. */
int view_routing_summary(struct store *s, uint32_t uid, const char *session_id, const char *thread_id, struct jw *w,
			 struct err *e);

#endif
