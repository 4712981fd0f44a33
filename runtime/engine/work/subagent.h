#ifndef BAILIFF_ENGINE_SUBAGENT_H
#define BAILIFF_ENGINE_SUBAGENT_H

/*
 * Subagents: child agents, each with its own thread below its parent's. A subagent with a command is a sandboxed
 * process, and the runtime observes its status. One without is run by its client, which reports it (report_subagent).
 * Children outlive their parent's turn, but not its cancellation.
 *
 *   accepted → running ⇄ waiting_input, idle → completed | failed (also cancelled, timed_out, lost) | closed →
 *     running (resumed)
 *
 * The methods take the parameters of their rows; the types have been checked against those.
 */

#include "runtime/engine/core/engine.h"

#include <jansson.h>

#define SUBAGENT_METHODS(X) \
	X(spawn_subagent)   \
	X(send_subagent_input) X(wait_subagents) X(resume_subagent) X(close_subagent) X(report_subagent)
#define SUBAGENT_METHOD(name)                                                                                  \
	void engine_##name(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, \
			   void *ctx);
SUBAGENT_METHODS(SUBAGENT_METHOD)
#undef SUBAGENT_METHOD

/* For the task above: is any of its subagents open; ask them to end. */
bool task_subagents_open(struct engine *g, const char *task_id);
void task_subagents_end(struct engine *g, const char *task_id, const char *reason);

void subagent_recover(struct engine *g);
uint64_t subagent_tick(struct engine *g, uint64_t now_ns);
void subagent_client_disconnected(struct engine *g, uint64_t connection);
void subagent_done(struct engine *g);

#endif
