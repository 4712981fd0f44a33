#ifndef BAILIFF_ENGINE_TASK_PRIVATE_H
#define BAILIFF_ENGINE_TASK_PRIVATE_H

/* Shared by the files of tasks and jobs in runtime/engine. */

#include "runtime/engine/core/core.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/work/task.h"
#include "runtime/engine/work/task_read.h"
#include "runtime/engine/work/work.h"
#include "runtime/engine/work/work_state.h"
#include "runtime/view/view_task.h"

/* task_attempt.c */
enum task_begin { TASK_BEGUN, TASK_BEGIN_QUEUED, TASK_BEGIN_BLOCKED };
struct task_begun {
	enum task_begin how;
	const char *status;
	char run_id[ID_SIZE], attempt_id[ID_SIZE], process_id[ID_SIZE]; /* process_id "" = a client works on it */
	uint64_t attempt;
};
/* Starts an attempt, or queues or blocks the task. The caller then runs task_launch after the commit. */
void task_begin(struct engine *g, const struct task *t, struct transaction *tx, const struct caller *c,
		const char *reason, bool has_command, struct task_begun *ret);
void task_launch(struct engine *g, const char *task_id);
/* The start lacks resources, or a connected client with whose identity it can run: both are temporary. */
static inline bool task_can_wait(enum err_code code) { return code == ERR_EXHAUSTED || code == ERR_UNAVAILABLE; }
/* The end of an attempt that did not complete. */
struct attempt_end {
	const char *status; /* failed, cancelled, timed_out, lost */
	const char *category, *message, *limit;
	int exit_code; /* −1 = none */
	bool may_retry;
	const struct process *process;
};
/* Ends the attempt and writes what follows for the task: a retry, or its end. */
void task_attempt_failed(struct engine *g, const struct task *t, struct transaction *tx, const struct caller *c,
			 const struct attempt_end *end);
void task_attempt_completed(struct engine *g, const struct task *t, struct transaction *tx, const struct caller *c,
			    const struct process *p, const char *summary);
/* After an attempt or the task ended: continues dependents, the queue, and a waiting parent. */
void task_next(struct engine *g, const char *task_id);
void task_dispatch(struct engine *g); /* queued tasks take free slots */
/* The first member of a list of the task other than `but`. */
bool task_first_of(struct engine *g, enum view_kind kind, const char *owner, const char *but, char ret[ID_SIZE]);
void task_begin_now(struct engine *g, const char *task_id, const char *reason);

/* task_output.c */
/* complete_task's outputs, as objects; NULL with *e: they are invalid or too large. */
json_t *task_outputs(const json_t *params, struct err *e);
/* Puts long contents behind refs. */
void task_outputs_keep(const struct task_doc *d, struct transaction *tx, json_t *outputs);

/* task_verbs.c */
/*
 * Lists what prevents the completion of the task, as a JSON array; 0 = nothing. `skip_attempt`: ignore the open
 * attempt, which is ending now.
 */
size_t task_missing(struct engine *g, const struct task *t, struct jval acceptance, struct jval delivery,
		    bool skip_attempt, struct buf *out);
void task_completed_fact(struct engine *g, const struct task *t, struct transaction *tx, const struct caller *c,
			 const json_t *params, const char *acceptance, const char *declared_by);

bool task_actions_open(struct engine *g, const char *task_id);
void task_actions_end(struct engine *g, const char *task_id, const char *reason);

/* task_graph.c */
bool task_edge_known(const char *kind);
void task_edge_fact(const struct task_doc *d, struct transaction *tx, const struct caller *c, const char *kind,
		    const char *target, const char *status, const char *reason);
int task_link_check(struct engine *g, const struct task *t, const char *kind, const char *target,
		    const struct caller *c, struct task *ret_other, struct err *e);
void task_link_facts(const struct task *t, const struct task *other, struct transaction *tx, const struct caller *c,
		     const char *kind, const char *target, const char *status, const char *reason);
enum task_wait { TASK_WAIT_NOTHING, TASK_WAIT_UNFINISHED, TASK_WAIT_BROKEN };
enum task_wait task_blockers(struct engine *g, const char *task_id, char ret_blocker[ID_SIZE]);
void task_notify_edges(struct engine *g, const char *task_id); /* the task ended: updates its edges at both ends */
void task_reconsider(struct engine *g, const char *task_id);   /* a blocker of it changed */
bool task_has_open_child(struct engine *g, const char *task_id, char ret_child[ID_SIZE]);
typedef bool (*task_edge_fn)(void *ctx, const char *target, const char *status);
void task_each_edge(struct engine *g, const char *task_id, const char *kind, task_edge_fn fn, void *ctx);

/* task_cancel.c */
void task_cancel_resume(struct engine *g, const char *task_id);                  /* after a restart */
void task_cancel_own(struct engine *g, const char *task_id, const char *reason); /* cancelled by the engine itself */
void task_processes_end(struct engine *g, const char *task_id, const char *reason);
void task_process_ended(struct engine *g, const char *task_id); /* a process that worked for it has ended */

/* job.c */
bool job_open_of_task(struct engine *g, const char *task_id, char ret_job[ID_SIZE]);
bool task_jobs_open(struct engine *g, const char *task_id);
void task_jobs_end(struct engine *g, const char *task_id, const char *reason);
void task_resume_jobs(struct engine *g, const char *task_id);

/* task_time.c */
void task_set_worker(struct engine *g, const char *task_id, const struct caller *c);
void task_worker_over(struct engine *g, const char *task_id);
void task_wake(struct engine *g, uint64_t real_us); /* check deadlines then */

#endif
