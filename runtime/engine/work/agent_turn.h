#ifndef BAILIFF_ENGINE_AGENT_TURN_H
#define BAILIFF_ENGINE_AGENT_TURN_H

/* Turns of the loop that do the work of a tool call or of an attempt (agent_turn.c). */

#include "runtime/engine/work/task_private.h"

struct agent_prompt {
	const char *text, *model;       /* model NULL = the user's default */
	const json_t *limits, *options; /* of submit_turn; or NULL */
};

/* An id of this kind for what belongs to the owner, always the same one. */
void agent_id(enum id_kind kind, const char *owner_id, char ret[ID_SIZE]);
/* `r` says where and for what; harmless when it is repeated with the same turn_id. */
void agent_turn_submit(struct engine *engine, const struct turn_request *r, const struct agent_prompt *p,
		       const struct caller *c, engine_reply_fn fn, void *ctx);
bool agent_turn_open(struct engine *engine, const char *turn_id);
void agent_turn_interrupt(struct engine *engine, const char *turn_id, const char *reason);
/* The text of its last answer. */
void agent_turn_answer(struct engine *engine, const struct turn_doc *t, struct buf *ret);
/* Adds what the turn itself has used. */
void agent_turn_usage(struct engine *engine, const char *turn_id, struct agent_usage *sum);

#endif
