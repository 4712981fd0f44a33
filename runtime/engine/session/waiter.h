#ifndef BAILIFF_ENGINE_WAITER_H
#define BAILIFF_ENGINE_WAITER_H

/* Requests that are answered when something has ended: an interrupted turn, a tool call. Nothing of this outlives the
 * runtime. */

#include "runtime/engine/core/reply.h"

#include <sys/queue.h>

struct transaction;
struct engine;

enum turn_wait { TURN_WAIT_INTERRUPTED, TURN_WAIT_FAILED };

struct waiter {
	TAILQ_ENTRY(waiter) link;
	char id[ID_ROOM]; /* of the turn or tool call */
	bool for_call;
	bool durable; /* what it asked for is in the log: no deadline answers before */
	enum turn_wait turn_wait;
	struct pending_reply reply;
	uint64_t deadline_ns; /* UINT64_MAX = none */
};

/* Takes the transaction's reply, which is then given when the turn has ended. */
void turn_waiter_add(struct engine *g, const char *turn_id, enum turn_wait how, struct transaction *tx);
void turn_waiters_answer(struct engine *g, const char *turn_id);
/* timeout_ms LIMIT_NONE = for ever; past it, and once the call is in the log, the answer says that the call still runs.
 */
void tool_waiter_add(struct engine *g, const char *call_id, uint64_t timeout_ms, struct transaction *tx);
void tool_waiters_answer(struct engine *g, const char *call_id);

uint64_t waiters_tick(struct engine *g, uint64_t now); /* the next deadline */
void waiters_client_disconnected(struct engine *g, uint64_t connection);
void waiters_free(struct engine *g);

#endif
