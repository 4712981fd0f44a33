#ifndef BAILIFF_ENGINE_WORK_H
#define BAILIFF_ENGINE_WORK_H

/*
 * Tasks, jobs, subagents and benchmark trials: the methods that clients call, and the rows of modules.def. Each method
 * takes its parameters as JSON, whose types have been checked against its row (supervisor/control/methods.def);
 * everything beyond the types is checked here. The documents (runtime/view/view_task.h) are the only state. In memory
 * the module only keeps connections, waiting requests and the time of the next check, none of which survives the
 * runtime.
 *
 * Tasks are objectives with attempts. The files that implement them are listed in task_private.h.
 *
 * Jobs: the same work for many items, each with its own status. The supervisor runs items with a command, as many in
 * parallel as the job allows; clients claim and report the others.
 *
 * Subagents: child agents, each with its own thread below its parent's. A subagent with a command is a sandboxed
 * process, and the runtime observes its status. One without is run by its client, which reports it (report_subagent).
 * Children outlive their parent's turn, but not its cancellation.
 *
 *   accepted → running ⇄ waiting_input, idle → completed | failed (also cancelled, timed_out, lost) | closed →
 *     running (resumed)
 *
 * Benchmark trials: one task of a dataset, done with one configuration, bound to one run of a task. The trial ends with
 * that run, in the same commit. Rewards are recorded as the verifier reported them and not interpreted.
 *
 * Peer tasks: tasks that a peer behind a channel works on. Each is linked to a local task (peer_task.c).
 */

#include "runtime/base/buf.h"
#include "runtime/engine/core/engine.h"
#include "runtime/view/view_task.h"

#include <jansson.h>

struct action_required;
struct action_resolved;
struct process_over;
struct run_status;
struct scope;
struct start_request;
struct subagent_closed;
struct transaction;
struct process_started;
struct turn_completed;
struct turn_doc;
struct turn_failed;

#define TASK_METHODS(X)         \
	X(create_task)          \
	X(update_task)          \
	X(start_task)           \
	X(append_task_progress) \
	X(pause_task)           \
	X(resume_task)          \
	X(cancel_task)          \
	X(retry_task) X(complete_task) X(fail_task) X(archive_task) X(link_tasks) X(unlink_tasks) X(renew_lease)
#define JOB_METHODS(X) X(create_job) X(cancel_job) X(retry_job_item) X(report_job_item)
#define SUBAGENT_METHODS(X) \
	X(spawn_subagent)   \
	X(send_subagent_input) X(wait_subagents) X(resume_subagent) X(close_subagent) X(report_subagent)
#define BENCHMARK_METHODS(X) X(start_benchmark_trial) X(record_benchmark_reward) X(compare_benchmark_runs)
#define PEER_METHODS(X) X(link_peer_task) X(update_peer_task)

#define WORK_METHOD(name)                                                                                           \
	void engine_##name(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn, \
			   void *ctx);
TASK_METHODS(WORK_METHOD)
JOB_METHODS(WORK_METHOD)
SUBAGENT_METHODS(WORK_METHOD)
BENCHMARK_METHODS(WORK_METHOD)
PEER_METHODS(WORK_METHOD)
#undef WORK_METHOD

/* ---- for the modules above ---- */

/* A task as decisions see it, including facts that are submitted and not durable yet. */
struct task {
	struct task_doc d;
	struct buf text;
	enum task_status status;
};
void task_done(struct task *t);
#define task_auto __attribute__((cleanup(task_done)))
#define TASK_INIT ((struct task){ 0 })
int task_read(struct engine *engine, const char *id, struct task *ret, struct err *e); /* 0 found, 1 not found, −1 */
/* ERR_NOT_FOUND also if it belongs to another uid. */
int task_get(struct engine *engine, const char *id, const struct caller *c, struct task *ret, struct err *e);
/*
 * No model can be used for a task that is worked on: it becomes blocked. reason NULL: one can be used again, and a task
 * that was blocked by this continues. Other tasks stay as they are.
 */
void task_routing_changed(struct transaction *tx, const char *id, const char *reason);

/* Limits of a turn of the loop, unless its client says otherwise. */
#define TURN_REQUESTS_MAX 100u
#define SUBAGENTS_OF_TURN 8u
#define SUBAGENT_DEPTH 1u
#define SUBAGENT_DEPTH_MAX 8u

struct agent_usage {
	uint64_t requests, input, output, cached, micro_usd; /* tokens */
	uint64_t subagents;
};
/* What the subagents that the turn's calls run have used, and those below them. */
void subagent_usage(struct engine *engine, const struct turn_doc *t, struct agent_usage *ret);
/* May a call of the turn run a subagent? */
bool subagent_may_call(struct engine *engine, const struct turn_doc *t);

/* The channel is disconnected: the peer's running tasks are unreachable until they are reported again. */
void peer_tasks_channel(struct engine *engine, const char *channel_id, bool back, struct transaction *tx);

/* ---- rows of modules.def ---- */

void work_init(struct engine *engine);
void work_done(struct engine *engine);
uint64_t task_tick(struct engine *engine, uint64_t now);
uint64_t task_lease_tick(struct engine *engine, uint64_t now);
uint64_t job_tick(struct engine *engine, uint64_t now);
void task_client_connected(struct engine *engine);
void task_client_disconnected(struct engine *engine, uint64_t connection);
void task_recover(struct engine *engine);
void task_on_process_started(struct transaction *tx, const struct scope *s, const struct process_started *p);
void task_on_turn_completed(struct transaction *tx, const struct scope *s, const struct turn_completed *p);
void task_on_turn_failed(struct transaction *tx, const struct scope *s, const struct turn_failed *p);
void job_recover(struct engine *engine);
void job_on_turn_completed(struct transaction *tx, const struct scope *s, const struct turn_completed *p);
void job_on_turn_failed(struct transaction *tx, const struct scope *s, const struct turn_failed *p);
/* For a process that a client starts for a task. */
int task_may_start(struct engine *engine, const struct start_request *r, struct err *e);
/* The task is in cancellation: if nothing of it is left, it is cancelled. */
void task_cancel_check(struct engine *engine, const char *task_id);
/* Something of the task ended: the last that its cancellation, or its completion with autoComplete, waited for? */
void task_on_part_over(struct engine *engine, const char *task_id);
void task_on_dependencies_met(struct engine *engine, const char *task_id);
/* An item ended: starts the next items, or ends the job. */
void job_next(struct engine *engine, const char *job_id);
void task_on_process_over(struct engine *engine, const struct process_over *x);
void job_on_process_over(struct engine *engine, const struct process_over *x);
void task_on_action_required(struct transaction *tx, const struct scope *s, const struct action_required *p);
void task_on_action_resolved(struct transaction *tx, const struct scope *s, const struct action_resolved *p);
/* A call of the tool subagent is allowed and recorded. */
void subagent_call_start(struct engine *engine, const char *call_id);
void subagent_on_turn_completed(struct transaction *tx, const struct scope *s, const struct turn_completed *p);
void subagent_on_turn_failed(struct transaction *tx, const struct scope *s, const struct turn_failed *p);
void subagent_on_run_status(struct transaction *tx, const struct scope *s, const struct run_status *p);
void subagent_on_closed(struct transaction *tx, const struct scope *s, const struct subagent_closed *p);
void subagent_turns_recover(struct engine *engine);
void subagent_recover(struct engine *engine);
uint64_t subagent_tick(struct engine *engine, uint64_t now_ns);
void subagent_client_disconnected(struct engine *engine, uint64_t connection);

#endif
