#ifndef BAILIFF_ENGINE_PROCESS_OWNER_H
#define BAILIFF_ENGINE_PROCESS_OWNER_H

/*
 * The owner of a process that no client started directly: a tool call, a task's attempt, a job's item, a subagent, a
 * hook. The owner's facts are part of the same commits as those of the process. process.started names the owner, so
 * that a recovered process is connected with it again.
 *
 * A start on behalf of a uid needs a socket of that peer, from which the spawner reads the credentials. Clients may
 * disconnect before the start; so the host keeps one socket for each uid that has connected, and the guard keeps a copy
 * (ports.h: add_peer, find_peer).
 */

#include "runtime/engine/core/reply.h"

#include <stdbool.h>

struct caller;
struct engine;
struct err;
struct process;
struct start_request;
struct transaction;
struct requester;

enum owner_kind {
	OWNER_NONE,
#define OWNER(NAME, name) OWNER_##NAME,
#include "runtime/engine/process/process_owners.def"
#undef OWNER
	OWNER_KIND_COUNT
};

/*
 * Processes that bailiff runs for itself, as configured by the policy or an operator: no rules or hooks apply to them,
 * and they belong to the turn that they are run for.
 */
static inline bool owner_is_internal(enum owner_kind k)
{
	return k == OWNER_HOOK || k == OWNER_MODEL || k == OWNER_CONTEXT;
}

/* The outcome of a process, for its owner. */
struct process_outcome {
	bool clean;           /* exited on its own with exit code 0 */
	bool ran;             /* the command was executed */
	int exit_code;        /* −1 = none */
	const char *status;   /* completed, failed, cancelled, timed_out, lost */
	const char *category; /* NULL when clean; exit, spawn, sandbox, timeout, cancelled, transport, lost … */
	const char *limit;    /* which limit ended it, or NULL */
	const char *message;  /* for people; "" when clean */
};

struct process_owner_ops {
	/* The start was rejected or denied before any fact of the process was submitted; `data` as in engine_reply_fn.
	 */
	void (*refused)(struct engine *engine, const char *owner_id, const struct err *e, const char *data,
			unsigned long len);
	/* Whether the owner still needs this process, whose start had to wait. NULL = always. */
	bool (*wanted)(struct engine *engine, const char *owner_id, const char *process_id);
	/*
	 * After a restart: whether the work of a live process has ended without success, so that the process must end
	 * and a command that has not begun must not begin. NULL = never.
	 */
	bool (*abandoned)(struct engine *engine, const char *owner_id);
	/* Adds the owner's facts to the batch with process.started. May be NULL. */
	void (*started)(struct process *p, struct transaction *tx);
	/* Adds the owner's facts to a batch with process.output. May be NULL. */
	void (*output)(struct process *p, struct transaction *tx);
	/*
	 * The command in a session sandbox has exited and left processes running. The owner's facts about its end are
	 * part of the transaction, and `over` follows its commit; `ended` and `over` follow once more with the end of
	 * the process. NULL = the owner waits for that.
	 */
	void (*command_exited)(struct process *p, const struct process_outcome *o, struct transaction *tx);
	/* Adds the owner's facts to `b`, which already has the terminal event. */
	void (*ended)(struct process *p, const struct process_outcome *o, struct transaction *tx);
	/* The end is committed and the process freed: the owner may start its next work. May be NULL. */
	void (*over)(struct engine *engine, const char *owner_id);
};
/* The row of runtime/engine/modules.def. `k` is not OWNER_NONE. */
const struct process_owner_ops *process_owner(const struct engine *engine, enum owner_kind k);
const char *owner_kind_name(enum owner_kind k);
enum owner_kind owner_kind_find(const char *name); /* OWNER_NONE = no such kind */

/* What the modules above need of a process that has been freed. Ids are "" if the process had none. */
struct process_over {
	enum owner_kind owner;
	bool owns_turn, made_thread;
	char owner_id[ID_SIZE], task_id[ID_SIZE], job_id[ID_SIZE], thread_id[ID_SIZE], turn_id[ID_SIZE];
	char sandbox_id[ID_SIZE];
};
/* Notifies the owner, then the modules above (rows PROCESS_OVER). */
void process_over(struct engine *engine, const struct process_over *x);

/*
 * Starts a process for an owner. `by` is the requester of the work; the process runs with that identity and its rights.
 * Returns the process id, or "" if the start was rejected; then ops->refused has been called. If the request has a
 * process id, repeated calls start the process only once.
 */
void process_start_owned(struct engine *engine, const struct start_request *r, const struct requester *by,
			 enum owner_kind kind, const char *owner_id, char ret_process_id[ID_TEXT_MAX]);

#endif
