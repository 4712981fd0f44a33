#ifndef BAILIFF_ENGINE_PROCESS_OWNER_H
#define BAILIFF_ENGINE_PROCESS_OWNER_H

/*
 * For whom a process runs, when that is not a client that asked for it: a tool call, a task's attempt, a job's item, a
 * subagent, a hook. The owner's facts go into the same commits as the process's, and process.started names the owner,
 * so that after a restart the process finds it again.
 *
 * A start on somebody's behalf needs that peer's socket, from which the spawner reads the credentials. Clients come and
 * go; the host keeps one socket for each uid it has met, and the guard a copy of it (ports.h: add_peer, find_peer).
 */

#include "runtime/engine/core/reply.h"

#include <stdbool.h>

struct caller;
struct engine;
struct err;
struct process;
struct start_request;
struct store_batch;
struct requester;

enum owner_kind {
	OWNER_NONE,
#define OWNER(NAME, name) OWNER_##NAME,
#include "runtime/engine/process/process_owners.def"
#undef OWNER
	OWNER_KIND_COUNT
};

/* How it ended, in the words of the work it did. */
struct process_outcome {
	bool clean;           /* it ended by itself with exit code 0 */
	bool ran;             /* its command was executed */
	int exit_code;        /* −1 = it has none */
	const char *status;   /* completed, failed, cancelled, timed_out, lost */
	const char *category; /* NULL when clean; exit, spawn, sandbox, timeout, cancelled, transport, lost … */
	const char *limit;    /* which limit ended it, or NULL */
	const char *message;  /* for people; "" when clean */
};

struct process_owner_ops {
	/* The start was refused before anything of the process was written; `data` as in engine_reply_fn. */
	void (*refused)(struct engine *g, const char *owner_id, const struct err *e, const char *data,
			unsigned long len);
	/* Whether it still wants this process, whose start had to wait. May be NULL: it does. */
	bool (*wanted)(struct engine *g, const char *owner_id, const char *process_id);
	/* Facts beside process.started. May be NULL. */
	void (*started)(struct process *p, struct store_batch *b);
	/* Its output grew; facts beside process.output. May be NULL. */
	void (*output)(struct process *p, struct store_batch *b);
	/* Facts beside the terminal event, which is in `b` already. */
	void (*ended)(struct process *p, const struct process_outcome *o, struct store_batch *b);
	/* That is committed, and the process is no more: what comes next may begin. May be NULL. */
	void (*over)(struct engine *g, const char *owner_id);
};
/* The row of runtime/engine/modules.def. `k` is not OWNER_NONE. */
const struct process_owner_ops *process_owner(const struct engine *g, enum owner_kind k);
const char *owner_kind_name(enum owner_kind k);
enum owner_kind owner_kind_find(const char *name); /* OWNER_NONE when there is none */

/* A process that is no more: what may begin after it. Ids are "" where it had none. */
struct process_over {
	enum owner_kind owner;
	bool owns_turn;
	char owner_id[ID_ROOM], task_id[ID_ROOM], job_id[ID_ROOM], thread_id[ID_ROOM], turn_id[ID_ROOM];
};
/* Tells its owner and the modules above (rows PROCESS_OVER). */
void process_over(struct engine *g, const struct process_over *x);

/*
 * Starts a process for an owner. `by` is who asked for the work, in whose name and with whose rights it runs. The
 * process id is returned ("" when it was refused, and then ops->refused has been called). One that is given its id is
 * started once, however often that is asked for.
 */
void process_start_owned(struct engine *g, const struct start_request *r, const struct requester *by,
			 enum owner_kind kind, const char *owner_id, char ret_process_id[40]);

#endif
