#ifndef BAILIFF_ENGINE_WAITER_H
#define BAILIFF_ENGINE_WAITER_H

/*
 * Requests whose reply waits for the end of an interrupted turn or of a tool call. They do not survive a restart of the
 * runtime. A client that disconnects loses its waits; the work that it waited for continues.
 */

#include "runtime/engine/core/reply.h"

#include <sys/queue.h>

struct transaction;
struct engine;

enum turn_wait { TURN_WAIT_INTERRUPTED, TURN_WAIT_FAILED };

struct waiter {
	TAILQ_ENTRY(waiter) link;
	char id[ID_SIZE]; /* of the turn or tool call */
	bool for_call;
	bool durable; /* the tool call is in the log; before that the deadline does not apply */
	enum turn_wait turn_wait;
	struct pending_reply reply;
	uint64_t deadline_ns; /* UINT64_MAX = none */
};

/* Takes the transaction's reply and sends it when the turn has ended. */
void turn_waiter_add(struct engine *engine, const char *turn_id, enum turn_wait how, struct transaction *tx);
/* Call these after the end is durable: the answers are read from the documents. */
void turn_waiters_answer(struct engine *engine, const char *turn_id);
/* timeout_ms LIMIT_NONE = no timeout. After the timeout, but not before the call is in the log, the reply has the
 * status of the running call. */
void tool_waiter_add(struct engine *engine, const char *call_id, uint64_t timeout_ms, struct transaction *tx);
void tool_waiters_answer(struct engine *engine, const char *call_id);

uint64_t waiters_tick(struct engine *engine, uint64_t now); /* returns the next deadline */
void waiters_client_disconnected(struct engine *engine, uint64_t connection);
void waiters_free(struct engine *engine);

#endif
