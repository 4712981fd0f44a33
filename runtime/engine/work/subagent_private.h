#ifndef BAILIFF_ENGINE_SUBAGENT_PRIVATE_H
#define BAILIFF_ENGINE_SUBAGENT_PRIVATE_H

/*
 * Steps for subagents that wait for a start or an end, between subagent.c and subagent_wait.c. None of it
 * survives the runtime.
 */

#include "runtime/engine/work/task_private.h"
#include "runtime/view/view_subagent.h"

/* subagent.c */
struct scope subagent_scope(const struct subagent_doc *d, const char *process_id, const char *request_id);
void subagent_closed_fact(struct transaction *tx, const struct subagent_doc *d, const char *reason,
			  const char *request_id);
bool subagent_doc_of(struct engine *engine, const char *id, struct buf *text, struct subagent_doc *d);
/* agent_turn.c: the turn of the loop that it is; false = it is a process or its client's */
bool subagent_turn_of(const struct subagent_doc *d, char ret[ID_SIZE]);

/* subagent_wait.c */
void subagent_ended(struct engine *engine,
		    const char *id); /* the end is durable: replies to its waiters and continues the task above */
/* To the process's stdin; errors are only logged, because the input is already recorded. */
void subagent_write_input(struct engine *engine, const struct subagent_doc *d, const char *process_id,
			  const char *input, bool eof);
/* Input that arrives before the process waits for its start. */
void subagent_first_input(struct engine *engine, const char *id, const char *text, bool eof);
void subagent_forget_input(struct engine *engine, const char *id);
void subagent_give_first_input(struct engine *engine, const struct subagent_doc *d, const char *process_id);

#endif
