/*
 * Time limits and lost attempts. Deadlines are stored in the documents as real time, so they survive a restart; memory
 * only holds the time of the next check. A check scans all tasks that have not ended, which is cheap enough because it
 * happens only at deadlines.
 *
 * A client's attempt depends on the connection that last reported for it. When that disconnects, the client has a
 * limited time to return (set by the task or the configuration). After that nothing proves that it still works, and the
 * attempt is lost.
 */

#include "runtime/engine/work/agent_turn.h"
#include "runtime/engine/work/task_private.h"

#include <signal.h>

/* ---- clients ---- */

/* A connection that was closed. */
struct leaving {
	uint64_t connection, now_us;
	bool any;
};

static void leave_worker(void *ctx, const char *task_id, void *value)
{
	struct leaving *l = ctx;
	struct task_worker *w = value;

	if (w->connection != l->connection)
		return;
	w->connection = 0;
	w->gone_us = l->now_us;
	l->any = true;
}

void task_client_disconnected(struct engine *engine, uint64_t connection)
{
	struct leaving l = { .connection = connection, .now_us = engine_real(engine) };

	strmap_each(&engine->work->task_workers, leave_worker, &l);
	if (l.any)
		task_wake(engine, l.now_us);
}

/* A client has connected: launches that waited for its identity are tried again. */
void task_client_connected(struct engine *engine)
{
	if (!engine->work->waits)
		return;
	engine->work->waits = false;
	task_wake(engine, engine_real(engine));
	job_wake(engine, engine_real(engine));
}

/* ---- deadlines ---- */

enum due { DUE_NOTHING, DUE_BEGIN, DUE_LAUNCH, DUE_TASK_TIME, DUE_ATTEMPT_TIME, DUE_IDLE, DUE_LOST };

struct deadline {
	enum due due;
	uint64_t at_us; /* UINT64_MAX = none */
};

static void set_if_sooner(struct deadline *d, enum due due, uint64_t at_us)
{
	if (at_us < d->at_us)
		*d = (struct deadline){ due, at_us };
}

/* The earliest deadline of the task, and what to do then. A paused task has none. */
static struct deadline deadline_of(struct engine *engine, const struct task *t)
{
	struct deadline d = { DUE_NOTHING, UINT64_MAX };
	const bool supervised = t->d.attemptOpen && t->d.currentProcessId[0],
		   agent = t->d.attemptOpen && strcmp(t->d.workerKind, "agent") == 0;

	if (task_status_ended(t->status) || t->status == TASK_CANCELLING)
		return d;
	if (t->status == TASK_QUEUED && t->d.dueAt)
		set_if_sooner(&d, DUE_BEGIN, t->d.dueAt);
	if (t->status == TASK_WAITING_RESOURCE && t->d.dueAt &&
	    ((supervised && !engine_process(engine, t->d.currentProcessId)) ||
	     (agent && !task_agent_open(engine, t->d.taskId))))
		set_if_sooner(&d, DUE_LAUNCH, engine->work->waits ? t->d.dueAt : 0);
	if (t->status == TASK_PAUSED)
		return d;
	/* The process of a supervised attempt enforces these limits itself. */
	if (!supervised || !engine_process(engine, t->d.currentProcessId))
		set_if_sooner(&d, DUE_TASK_TIME, task_deadline(engine, t));
	if (agent)
		set_if_sooner(&d, DUE_ATTEMPT_TIME, task_attempt_deadline(engine, t));
	if (!t->d.attemptOpen || supervised || strcmp(t->d.workerKind, "client") != 0)
		return d;
	/* A client works on the attempt. */
	const struct task_worker *w = strmap_get(&engine->work->task_workers, t->d.taskId);
	const uint64_t seen = t->d.lastSeenAt,
		       worker_ms = engine->o.task_worker_ms ? engine->o.task_worker_ms : VIEW_ABSENT;
	set_if_sooner(&d, DUE_ATTEMPT_TIME, task_attempt_deadline(engine, t));
	set_if_sooner(&d, DUE_IDLE, task_after_ms(seen, t->d.idleMs));
	if (!w || !w->connection)
		set_if_sooner(&d, DUE_LOST,
			      task_after_ms(w && w->gone_us > seen ? w->gone_us : seen,
					    t->d.heartbeatMs != VIEW_ABSENT ? t->d.heartbeatMs : worker_ms));
	return d;
}

/* How an attempt ends at a deadline. */
static const struct {
	const char *status, *category, *limit, *message;
} ends[] = {
	[DUE_IDLE] = { "timed_out", "timeout", "idle", "the worker did not report for the time that the task allows" },
	[DUE_LOST] = { "lost", "lost", NULL, "the client that worked on it disconnected and did not return in time" },
};

static struct attempt_end attempt_end_at(enum due due)
{
	if (due == DUE_TASK_TIME || due == DUE_ATTEMPT_TIME)
		return attempt_end_of_time(due == DUE_TASK_TIME);
	return (struct attempt_end){ .status = ends[due].status,
				     .category = ends[due].category,
				     .limit = ends[due].limit,
				     .message = ends[due].message,
				     .exit_code = -1,
				     .may_retry = true };
}

static void handle_due(struct engine *engine, const struct task *t, enum due due)
{
	if (due == DUE_BEGIN)
		return task_begin_now(engine, t->d.taskId, "retry_policy");
	if (due == DUE_LAUNCH)
		return task_launch(engine, t->d.taskId); /* if it fails again, it is retried again */
	const struct attempt_end end = attempt_end_at(due);
	char turn[ID_SIZE];

	/* The end of the turn ends the attempt (task_on_turn_failed): the next one must not begin before. */
	if (t->d.attemptOpen && task_agent_turn(t, turn) && agent_turn_open(engine, turn))
		return agent_turn_interrupt(engine, turn, end.message);
	struct transaction *tx = transaction_new_internal(engine);
	task_attempt_failed(engine, t, tx, NULL, &end);
	transaction_after_commit(tx, task_next, t->d.taskId);
	transaction_commit(tx);
}

/* Reads every live task, but only when a deadline is due; handling one may make others due. */
uint64_t task_tick(struct engine *engine, uint64_t now)
{
	view_ids_auto struct view_ids live = VIEW_IDS_INIT;

	if (now < engine->work->task_poll_ns || engine->stopping)
		return engine->work->task_poll_ns;
	/* Every task below sets the next check again, with task_wake. */
	engine->work->task_poll_ns = UINT64_MAX;
	id_list_read(engine, VIEW_LIVE_TASK, NULL, ID_LIST_ALL, &live);
	for (size_t i = 0; i < live.n; i++) {
		task_auto struct task t = TASK_INIT;
		struct err e = ERR_INIT;
		if (task_read(engine, live.id[i], &t, &e) != 0)
			continue;
		struct deadline d = deadline_of(engine, &t);
		if (d.due != DUE_NOTHING && d.at_us <= engine_real(engine))
			handle_due(engine, &t, d.due);
		else if (d.at_us != UINT64_MAX)
			task_wake(engine, d.at_us);
	}
	return engine->work->task_poll_ns;
}

/* ---- leases ---- */

static void kill_process(void *task_id, const char *id, void *value)
{
	struct process *p = value;

	if (strcmp(p->task_id, task_id) == 0)
		process_enforce_end(p, PROCESS_END_USER, NULL, SIGKILL, 0, "lease_over");
}

/* Without a grace: another node may start the task again a little later. */
uint64_t task_lease_tick(struct engine *engine, uint64_t now)
{
	char id[ID_SIZE];

	if (now < engine->work->lease_poll_ns || engine->stopping)
		return engine->work->lease_poll_ns;
	while (task_lease_take_due(engine, now, id)) {
		strmap_visit(&engine->processes->live, kill_process, id);
		task_cancel_own(engine, id, "lease_over"); /* nothing, if it has ended */
	}
	return engine->work->lease_poll_ns;
}

/* ---- after a restart ---- */

/* A client that works on the task gets its full time to return: the runtime was away, not the client. */
static void recover_task(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_read(engine, task_id, &t, &e) != 0)
		return;
	task_lease_recover(engine, &t);
	if (t.d.attemptOpen && strcmp(t.d.workerKind, "client") == 0) {
		struct task_worker *w = mem_zalloc(1, sizeof *w);
		w->gone_us = engine_real(engine);
		free(strmap_put(&engine->work->task_workers, task_id, w));
	}
	if (t.status == TASK_PAUSED)
		task_stop_processes(engine, task_id);
	if (t.status == TASK_CANCELLING)
		task_cancel_resume(engine, task_id);
	else if (t.d.attemptOpen)
		task_launch(engine, task_id); /* only if its process was never recorded, so it has not run */
	else if (t.status == TASK_RETRYING)
		task_begin_now(engine, task_id, "retry_policy");
	else
		task_reconsider(engine, task_id);
	task_part_over(engine, task_id);
}

/* The runtime may have died after the other end of an edge ended and before this end was updated: update it now. */
static bool notify_edge(void *engine, const char *target, const char *status)
{
	if (strcmp(status, "active") == 0)
		task_notify_edges(engine, target);
	return true;
}

void task_recover(struct engine *engine)
{
	view_ids_auto struct view_ids live = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_LIVE_TASK, NULL, ID_LIST_ALL, &live);
	for (size_t i = 0; i < live.n; i++) {
		task_each_edge(engine, live.id[i], "blocked_by", notify_edge, engine);
		task_each_edge(engine, live.id[i], "child", notify_edge, engine);
	}
	for (size_t i = 0; i < live.n; i++)
		recover_task(engine, live.id[i]);
	if (live.n)
		task_wake(engine, engine_real(engine));
	task_dispatch(engine);
}

/* ---- the module ---- */

void work_init(struct engine *engine)
{
	engine->work = mem_zalloc(1, sizeof *engine->work);
	TAILQ_INIT(&engine->work->subagents.waiters);
	TAILQ_INIT(&engine->work->subagents.inputs);
	engine->work->task_poll_ns = engine->work->job_poll_ns = engine->work->lease_poll_ns = UINT64_MAX;
}

static void free_worker(void *ctx, const char *task_id, void *value) { free(value); }

void work_done(struct engine *engine)
{
	subagent_done(engine);
	task_lease_done(engine);
	strmap_each(&engine->work->task_workers, free_worker, NULL);
	strmap_done(&engine->work->task_workers);
	free(engine->work);
}
