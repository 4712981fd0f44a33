#ifndef BAILIFF_ENGINE_MODEL_RESERVATION_H
#define BAILIFF_ENGINE_MODEL_RESERVATION_H

/*
 * What open requests to models may still cost. A request reserves the most it can cost before it is sent, so that
 * concurrent requests cannot exceed a budget together. The reservation ends with the commit of model.completed or
 * model.failed. The state is in memory only: after a restart it is built again from the open requests.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/event/id.h"

struct model_completed;
struct model_failed;
struct scope;
struct transaction;

struct reservation {
	char request_id[ID_SIZE], turn_id[ID_SIZE], session_id[ID_SIZE];
	uint32_t uid;
	uint64_t micro_usd, tokens;
};
/* Replaces an earlier one of the same request. */
void reservation_set(struct engine *engine, const struct reservation *r);
/* The request was not sent after all. */
void reservation_release(struct engine *engine, const char *request_id);
/* The real cost is part of a transaction that is not submitted yet, and counts until that is committed. */
void reservation_settle(struct engine *engine, const char *request_id, uint64_t micro_usd, uint64_t tokens);

struct reserved {
	uint64_t micro_usd, tokens;
};
/* The sum of a uid's reservations, of one session or turn unless NULL. */
struct reserved reservation_sum(struct engine *engine, uint32_t uid, const char *session_id, const char *turn_id);

/* Rows of modules.def. */
void reservation_init(struct engine *engine);
void reservation_done(struct engine *engine);
void reservation_on_completed(struct transaction *tx, const struct scope *s, const struct model_completed *p);
void reservation_on_failed(struct transaction *tx, const struct scope *s, const struct model_failed *p);

#endif
