#ifndef BAILIFF_ENGINE_SUBAGENT_WAIT_H
#define BAILIFF_ENGINE_SUBAGENT_WAIT_H

/* Clients that wait for subagents, and steps that wait for a commit or a start. None of this survives the runtime. */

#include "runtime/engine/process/process.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct engine;
struct subagent_doc;

#define SUBAGENT_WAIT_MAX 64u

struct subagent_waiter {
	TAILQ_ENTRY(subagent_waiter) link;
	struct pending_reply reply;
	uint32_t uid;
	bool any;             /* replies when one of them has ended */
	uint64_t deadline_ns; /* UINT64_MAX = none */
	char ids[SUBAGENT_WAIT_MAX][ID_SIZE];
	size_t count;
};

/* Input that arrived before the process started. */
struct queued_input {
	TAILQ_ENTRY(queued_input) link;
	char id[ID_SIZE];
	char *text;
	bool eof; /* close stdin after it */
};

/* What to do for a subagent once its closing is durable. */
struct subagent_after {
	TAILQ_ENTRY(subagent_after) link;
	char id[ID_SIZE];
	bool end; /* end its process; otherwise only reply to its waiters */
};

struct subagent_waits {
	TAILQ_HEAD(, subagent_waiter) waiters;
	TAILQ_HEAD(, queued_input) inputs;
	TAILQ_HEAD(, subagent_after) after;
};

void subagent_ended(struct engine *g,
		    const char *id); /* the end is durable: replies to its waiters and continues the task above */
void subagent_first_input(struct engine *g, const char *id, const char *text, bool eof);
void subagent_give_first_input(struct engine *g, const struct subagent_doc *d, const char *process_id);
void subagent_end_after(struct engine *g, const char *id);
void subagent_answer_after(struct engine *g, const char *id);
void subagent_run_after(struct engine *g, void (*end)(struct engine *g, const char *id));

#endif
