#ifndef BAILIFF_ENGINE_LOOP_H
#define BAILIFF_ENGINE_LOOP_H

/*
 * The loop: runs a turn by calling a model (driver "loop").
 *
 *   request ──► answer with tool calls ──► calls run ──► request with their results ──► … ──► answer without calls: end
 *
 * A request is a process of the program bailiff-model, which sends it from its own sandbox. Each step is durable before
 * the next one begins: model.requested before the process starts, model.completed with the whole answer before any of
 * its calls, tool.result before the request that sends it. The state of a turn is therefore in its documents, and
 * loop_drive does whatever is due according to them. It may be called at any time and after any restart.
 *
 * The conversation of a thread is the concatenation of what its requests added (itemsRef) and of the answers
 * (responseRef). Nothing is ever rewritten, so the text of a request begins with the text of the one before, which
 * is what the prompt caches of providers require.
 *
 * loop.c           what is due: the next request, the calls of an answer, the end of the turn
 * loop_compaction.c  replaces a conversation that has become too long by a summary
 * loop_request.c   one request: its facts, its process
 * loop_stream.c    reads the provider's answer while it arrives
 * loop_history.c   the conversation, from the store
 * loop_context.c   system prompt, environment, tools
 */

#include "runtime/engine/core/engine.h"

struct scope;
struct transaction;
struct turn_completed;
struct turn_doc;
struct turn_failed;

struct turn_steer {
	const char *turn_id, *input;
};
/* Input for a running turn; the next request sends it. */
void engine_steer_turn(struct engine *engine, const struct turn_steer *r, const struct caller *c, engine_reply_fn fn,
		       void *ctx);

/* Rows of modules.def. */
void loop_init(struct engine *engine);
void loop_done(struct engine *engine);
void loop_recover(struct engine *engine);
uint64_t loop_tick(struct engine *engine, uint64_t now);
void loop_client_connected(struct engine *engine);
void loop_drive(struct engine *engine, const struct turn_doc *t);
void loop_on_turn_completed(struct transaction *tx, const struct scope *s, const struct turn_completed *p);
void loop_on_turn_failed(struct transaction *tx, const struct scope *s, const struct turn_failed *p);

#endif
