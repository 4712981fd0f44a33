#ifndef BAILIFF_ENGINE_TASK_PRIVATE_H
#define BAILIFF_ENGINE_TASK_PRIVATE_H

/*
 * What the files of work/ share about tasks, and the state of the module.
 *
 * task.c             creates and updates tasks
 * task_verbs.c       progress, pause, resume, complete, fail, archive
 * task_attempt.c     attempts: start, launch, end, retry; the owner of their processes
 * task_agent.c       attempts whose worker is a turn of the loop
 * task_cancel.c      cancellation: intent, propagation, and the proof that nothing is left
 * task_completion.c  what a task still waits for, its outputs, and how it completes
 * task_graph.c       edges between tasks, and the release of tasks that waited
 * task_time.c        time limits, disconnected client workers, and recovery after a restart
 * task_lease.c       tasks of a fleet, which end unless their lease is renewed
 * task_read.c        documents, parameters, commands, and which verbs are legal in which status
 */

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/work/work.h"

#include <sys/queue.h>

/* ---- the state of the module ---- */

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

struct subagent_waits {
	TAILQ_HEAD(, subagent_waiter) waiters;
	TAILQ_HEAD(, queued_input) inputs;
};

/* The connection of the client that works on an attempt. */
struct task_worker {
	uint64_t connection; /* 0 = disconnected, or not seen since a restart */
	uint64_t gone_us;    /* when it disconnected */
};

struct work_state {
	struct subagent_waits subagents;
	struct strmap task_workers; /* task id → struct task_worker */
	bool waits;                 /* a launch waits for resources, or for a client with whose identity it can run */
	struct strmap task_leases;  /* task id → struct task_lease */
	uint64_t lease_poll_ns;     /* the end of the first of them; UINT64_MAX = none */
	uint64_t job_poll_ns, task_poll_ns; /* time of the next deadline check; UINT64_MAX = never */
};

/* ---- task_read.c ---- */

#define TASK_JSON_MAX 8192u /* of one member that a client gives */
#define TASK_TEXT_MAX 8192u
#define TASK_OUTPUT_MAX (8u << 20) /* of its outputs, behind refs */
#define TASK_WORD_MAX 256u
#define TASK_REASON_MAX 1024u
#define TASK_COMMAND_INLINE 12288u
#define TASK_COMMAND_MAX (256u << 10)
#define AGENT_PROMPT_MAX (128u << 10)
#define TASK_DEPTH_MAX 64 /* levels of parents */

enum task_verb {
	TASK_VERB_UPDATE,
	TASK_VERB_START,
	TASK_VERB_PROGRESS,
	TASK_VERB_PAUSE,
	TASK_VERB_RESUME,
	TASK_VERB_CANCEL,
	TASK_VERB_RETRY,
	TASK_VERB_COMPLETE,
	TASK_VERB_FAIL,
	TASK_VERB_ARCHIVE,
	TASK_VERB_LINK,
	TASK_VERB_ADD,
	TASK_VERB_COUNT
};
/* ERR_STATE names the status and the verbs that are possible. TASK_VERB_ADD: a child, job, process or subagent. */
int task_may(const struct task *t, enum task_verb v, struct err *e);

/* The ids of a fact about the task. `c` gives the request's ids; NULL: the engine itself acts. */
struct scope task_scope(const struct task_doc *d, const struct caller *c);

/* Parameters. */
const char *param_str(const json_t *params, const char *name);
int param_text(const json_t *params, const char *name, size_t most,
	       struct err *e);                                        /* not empty, at most `most` bytes */
struct json_value param_json(const json_t *params, const char *name); /* absent if it is not given */
struct opt_int param_int(const json_t *params, const char *name);
int param_small(const json_t *params, const char *name, size_t most,
		struct err *e); /* its JSON has at most `most` bytes */
/* The number, if it is given, is at least 1: 0 would neither be a limit nor an attempt. `object`: the member it is in,
 * or NULL. */
int param_positive(const json_t *params, const char *object, const char *name, struct err *e);
int param_retry_policy(const json_t *params, struct err *e);
/*
 * An array of objects; strings in it become {member: string}. NULL with an error if it is anything else. New
 * reference.
 */
json_t *param_refs(const json_t *params, const char *name, const char *member, struct err *e);
json_t *param_delivery(const json_t *params, const char *name,
		       struct err *e); /* {"state":…} or NULL (with or without error) */
bool delivery_is_open(struct jval delivery);

void param_hash(const json_t *params, char ret[65]); /* of the request's body */

/* The command of create_task, start_task or create_job: a JSON object for start_spec_of, or NULL. New reference. */
json_t *command_of(const json_t *params, const struct caller *c);
int command_check(struct engine *engine, const json_t *command, const struct caller *c, struct err *e);
enum engine_role command_role(const json_t *command);
/*
 * The command as an event shows it: without the values of its variables. If it is long or has variables, the whole
 * command is stored behind a ref. NULL gives an empty result.
 */
struct command_fact {
	char *shown;
	char ref[ID_TEXT_MAX];
};
void command_fact_init(struct command_fact *c, const json_t *command, const struct scope *s, struct transaction *tx);
void command_fact_done(struct command_fact *c);
#define command_fact_auto __attribute__((cleanup(command_fact_done)))
static inline struct task_command_part command_part(const struct command_fact *c)
{
	return (struct task_command_part){ .command = json_from_text(c->shown), .commandRef = none_if_empty(c->ref) };
}
json_t *command_read(struct engine *engine, struct jval command, struct jval ref, struct err *e);
/* Fails for a task that has ended or is being cancelled. */
int task_may_run(struct engine *engine, const char *task_id, struct err *e);
/* Something that the cancellation or the completion of the task waits for may have ended (row DUE). */
void task_part_over(struct engine *engine, const char *task_id);
bool task_is_paused(struct engine *engine, const char *task_id);

/* task_agent.c */
enum task_work { TASK_WORK_CLIENT, TASK_WORK_COMMAND, TASK_WORK_AGENT };
/* What works on the task's attempts; `given` is the command that it is about to get, or NULL. */
enum task_work task_work_of(struct engine *engine, const struct task *t, const json_t *given);
/* Submits the turn of a command that is an agent's prompt. */
void agent_command_submit(struct engine *engine, const struct turn_request *r, const json_t *command, uint32_t uid,
			  engine_reply_fn fn, void *ctx);
void task_agent_launch(struct engine *engine, const struct task *t);
/* The turn of the current or last attempt; false = no agent works on it. */
bool task_agent_turn(const struct task *t, char ret[ID_SIZE]);
bool task_agent_open(struct engine *engine, const char *task_id);
void task_agent_end(struct engine *engine, const char *task_id, const char *reason);

/* task_lease.c */
/* leaseUntil is in the future by no more than the lease, and given with `fleet`. */
int task_lease_check(struct engine *engine, const json_t *params, struct err *e);
void task_lease_begin(struct engine *engine, const char *task_id, const json_t *params);
int task_lease_holds(struct engine *engine, const struct task *t, struct err *e);
void task_lease_recover(struct engine *engine, const struct task *t);
/* Forgets a lease that is over, and returns its task; also sets the time of the next check. */
bool task_lease_take_due(struct engine *engine, uint64_t now, char ret[ID_SIZE]);
void task_lease_done(struct engine *engine);

/* task_attempt.c */
enum task_begin { TASK_BEGUN, TASK_BEGIN_QUEUED, TASK_BEGIN_BLOCKED };
struct task_begun {
	enum task_begin how;
	const char *status;
	char run_id[ID_SIZE], attempt_id[ID_SIZE], process_id[ID_SIZE]; /* process_id "" = a client works on it */
	uint64_t attempt;
};
/* Starts an attempt, or queues or blocks the task. The caller then runs task_launch after the commit. */
void task_begin(struct engine *engine, const struct task *t, struct transaction *tx, const struct caller *c,
		const char *reason, enum task_work work, struct task_begun *ret);
void task_launch(struct engine *engine, const char *task_id);
/* The start lacks resources, or a connected client with whose identity it can run: both are temporary. */
static inline bool task_can_wait(enum err_code code) { return code == ERR_EXHAUSTED || code == ERR_UNAVAILABLE; }
/* The end of an attempt that did not complete. */
struct attempt_end {
	const char *status; /* failed, cancelled, timed_out, lost */
	const char *category, *message, *limit;
	int exit_code; /* −1 = none */
	bool may_retry;
	const struct process *process;
	const json_t *output_refs; /* of a client's report, or NULL */
};
/* UINT64_MAX = never: the start is not known, there is no limit, or the sum would overflow. */
uint64_t task_after_ms(uint64_t from_us, uint64_t ms);
uint64_t task_add_pauses(uint64_t at_us, uint64_t paused_ms);
/* Pauses move both. */
uint64_t task_deadline(struct engine *engine, const struct task *t);
uint64_t task_attempt_deadline(struct engine *engine, const struct task *t);
/* By the time limit of the whole task, or of one attempt. */
struct attempt_end attempt_end_of_time(bool whole_task);
/* A time limit has passed that ends the open attempt of an agent; how it ends. */
bool task_agent_timed_out(struct engine *engine, const struct task *t, struct attempt_end *ret);
/* Of a process that did not end cleanly, and of a start that was rejected. The texts are borrowed. */
struct attempt_end attempt_end_of_process(const struct process *p, const struct process_outcome *o);
struct attempt_end attempt_end_of_refusal(const struct err *e);
struct attempt_end attempt_end_of_turn(const struct turn_failed *p);
/*
 * The retry policy, as the client gave it. May another attempt follow this end, after `made` attempts: decided by
 * maxAttempts and nonRetryable (categories or statuses).
 */
bool retry_is_granted(struct jval policy, uint64_t made, const struct attempt_end *end);
/* The delay before it: backoffMs, multiplied by backoffFactor for each further attempt, up to maxBackoffMs. */
uint64_t retry_backoff_ms(struct jval policy, uint64_t made);
/* Ends the attempt and writes what follows for the task: a retry, or its end. */
void task_attempt_failed(struct engine *engine, const struct task *t, struct transaction *tx, const struct caller *c,
			 const struct attempt_end *end);
void task_attempt_completed(struct engine *engine, const struct task *t, struct transaction *tx, const struct caller *c,
			    const struct process *p, const char *summary);
/* After an attempt or the task ended: continues dependents, the queue, and a waiting parent. */
void task_next(struct engine *engine, const char *task_id);
void task_dispatch(struct engine *engine); /* queued tasks take free slots */
void task_begin_now(struct engine *engine, const char *task_id, const char *reason);

/* task_completion.c */
/* complete_task's outputs, as objects; NULL with *e: they are invalid or too large. */
json_t *task_outputs(const json_t *params, struct err *e);
/*
 * Lists what prevents the completion of the task, as a JSON array; 0 = nothing. `skip_attempt`: ignore the open
 * attempt, which is ending now.
 */
size_t task_missing(struct engine *engine, const struct task *t, struct jval acceptance, struct jval delivery,
		    bool skip_attempt, struct buf *out);
void task_completed_fact(struct engine *engine, const struct task *t, struct transaction *tx, const struct caller *c,
			 const json_t *params, const char *acceptance, const char *declared_by);

bool task_actions_open(struct engine *engine, const char *task_id);
void task_actions_end(struct engine *engine, const char *task_id, const char *reason);

/* task.c: the facts of a new task with these parameters of create_task, without a taskId. */
int task_create_facts(struct transaction *tx, const json_t *params, struct task_doc *ret, struct err *e);

/* task_graph.c */
void task_edge_fact(const struct task_doc *d, struct transaction *tx, const struct caller *c, const char *kind,
		    const char *target, const char *status, const char *reason);
void task_link_facts(const struct task *t, const struct task *other, struct transaction *tx, const struct caller *c,
		     const char *kind, const char *target, const char *status, const char *reason);
enum task_wait { TASK_WAIT_NOTHING, TASK_WAIT_UNFINISHED, TASK_WAIT_BROKEN };
enum task_wait task_blockers(struct engine *engine, const char *task_id, char ret_blocker[ID_SIZE]);
void task_notify_edges(struct engine *engine, const char *task_id); /* the task ended: updates its edges at both ends */
void task_reconsider(struct engine *engine, const char *task_id);   /* a blocker of it changed */
bool task_has_open_child(struct engine *engine, const char *task_id, char ret_child[ID_SIZE]);
/* Does `from` wait for `to`, directly or through others? True also if they are the same. */
bool task_waits_for(struct engine *engine, const char *from, const char *to);
/* Fails if a task with `below` levels of children below it would be nested too deep as a child of `parent`. */
int task_check_depth(struct engine *engine, const struct task *parent, int below, struct err *e);
typedef bool (*task_edge_fn)(void *ctx, const char *target, const char *status);
void task_each_edge(struct engine *engine, const char *task_id, const char *kind, task_edge_fn fn, void *ctx);

/* task_cancel.c */
void task_cancel_resume(struct engine *engine, const char *task_id); /* asks its parts to end (again) */
void task_cancel_own(struct engine *engine, const char *task_id,
		     const char *reason); /* cancelled by the engine itself */
void task_processes_end(struct engine *engine, const char *task_id, const char *reason);

/* task_verbs.c */
void task_stop_processes(struct engine *engine, const char *task_id); /* as pause_task does */

/* job.c */
bool job_open_of_task(struct engine *engine, const char *task_id, char ret_job[ID_SIZE]);
bool task_jobs_open(struct engine *engine, const char *task_id);
void task_jobs_end(struct engine *engine, const char *task_id, const char *reason);
void task_resume_jobs(struct engine *engine, const char *task_id);

/* task_read.c: the clients that work on attempts, and the next check of deadlines */
void task_set_worker(struct engine *engine, const char *task_id, const struct caller *c);
void task_worker_over(struct engine *engine, const char *task_id);
/* Sets the time of the next check of deadlines, unless an earlier one is set. */
void work_wake(struct engine *engine, uint64_t *poll_ns, uint64_t real_us);
static inline void task_wake(struct engine *engine, uint64_t real_us)
{
	work_wake(engine, &engine->work->task_poll_ns, real_us);
}
static inline void job_wake(struct engine *engine, uint64_t real_us)
{
	work_wake(engine, &engine->work->job_poll_ns, real_us);
}
static inline bool task_has_command(const struct task *t)
{
	return t->d.command.type == JT_OBJECT || t->d.commandRef.type == JT_STRING;
}

/* ---- for tasks, from the files of other nouns ---- */

/* A run has ended; status NULL = completed. Its open trials end in the same batch. */
struct run_end {
	const char *status, *category, *message;
};
void benchmark_run_ended(struct engine *engine, struct transaction *tx, const char *run_id, const struct run_end *end);
/* Is any subagent of the task open; ask them to end. */
bool task_subagents_open(struct engine *engine, const char *task_id);
void task_subagents_end(struct engine *engine, const char *task_id, const char *reason);
void subagent_done(struct engine *engine);

#endif
