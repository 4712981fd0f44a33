#ifndef BAILIFF_ENGINE_WORK_H
#define BAILIFF_ENGINE_WORK_H

/* Tasks, jobs and subagents, for the table of modules. */

#include <stdint.h>

struct engine;
struct err;
struct process_over;
struct start_request;
struct transaction;
struct scope;
struct action_required;
struct action_resolved;

void work_init(struct engine *g);
void work_done(struct engine *g);
uint64_t task_tick(struct engine *g, uint64_t now);
uint64_t job_tick(struct engine *g, uint64_t now);
void task_client_connected(struct engine *g);
void task_client_disconnected(struct engine *g, uint64_t connection);
void task_recover(struct engine *g);
void job_recover(struct engine *g);
/* Fails for a task that has ended or is being cancelled. */
int task_may_run(struct engine *g, const char *task_id, struct err *e);
/* For a process that a client starts for a task. */
int task_may_start(struct engine *g, const struct start_request *r, struct err *e);
/* Something that a task in cancellation waits for may have ended (row DUE). */
void task_cancel_check(struct engine *g, const char *task_id); /* cancelling and nothing left: cancelled */
void task_cancel_due(struct engine *g, const char *task_id);
void task_on_dependencies_met(struct engine *g, const char *task_id);
void job_next(struct engine *g, const char *job_id); /* takes the next steps that the job's state allows */
void task_on_process_over(struct engine *g, const struct process_over *x);
void job_on_process_over(struct engine *g, const struct process_over *x);
void task_on_action_required(struct transaction *tx, const struct scope *s, const struct action_required *p);
void task_on_action_resolved(struct transaction *tx, const struct scope *s, const struct action_resolved *p);

#endif
