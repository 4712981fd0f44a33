/*
 * Time limits and lost attempts. Deadlines are stored in the documents as real time, so they survive a restart; memory
 * only holds the time of the next check. A check scans all tasks that have not ended, which is cheap enough because it
 * happens only at deadlines.
 *
 * A client's attempt depends on the connection that last reported for it. When that disconnects, the client has a
 * limited time to return (set by the task or the configuration). After that nothing proves that it still works, and the
 * attempt is lost.
 */

#include "runtime/engine/work/job_private.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/work/subagent.h"
#include "runtime/engine/work/work_state.h"
#include "runtime/view/view_documents.h"

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

void task_client_disconnected(struct engine *g, uint64_t connection)
{
	struct leaving l = { .connection = connection, .now_us = engine_real(g) };

	strmap_each(&g->work->task_workers, leave_worker, &l);
	if (l.any)
		task_wake(g, l.now_us);
}

/* A client has connected: launches that waited for its identity are tried again. */
void task_client_connected(struct engine *g)
{
	if (!g->work->waits)
		return;
	g->work->waits = false;
	task_wake(g, engine_real(g));
	job_wake(g, engine_real(g));
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

static uint64_t after_ms(uint64_t from_us, uint64_t ms)
{
	return !from_us || ms == VIEW_ABSENT || ms > UINT64_MAX / 2000 - from_us / 1000 ? UINT64_MAX
											: from_us + ms * 1000;
}

/* The deadlines of an attempt that a client works on. */
static void client_deadlines(struct engine *g, const struct task *t, struct deadline *d)
{
	const struct task_worker *w = strmap_get(&g->work->task_workers, t->d.taskId);
	uint64_t patience = t->d.heartbeatMs != VIEW_ABSENT ? t->d.heartbeatMs
			    : g->o.task_worker_ms           ? g->o.task_worker_ms
							    : VIEW_ABSENT;
	uint64_t seen = t->d.lastSeenAt;

	set_if_sooner(d, DUE_ATTEMPT_TIME,
		      after_ms(t->d.attemptStartedAt, jval_uint(jval_get(t->d.retryPolicy, "timeoutMs"), VIEW_ABSENT)));
	set_if_sooner(d, DUE_IDLE, after_ms(seen, t->d.idleMs));
	if (!w || !w->connection)
		set_if_sooner(d, DUE_LOST, after_ms(w && w->gone_us > seen ? w->gone_us : seen, patience));
}

static struct deadline deadline_of(struct engine *g, const struct task *t)
{
	struct deadline d = { DUE_NOTHING, UINT64_MAX };
	bool supervised = t->d.attemptOpen && t->d.currentProcessId[0];

	if (task_status_ended(t->status) || t->status == TASK_CANCELLING)
		return d;
	if (t->status == TASK_QUEUED && t->d.dueAt)
		set_if_sooner(&d, DUE_BEGIN, t->d.dueAt);
	if (t->status == TASK_WAITING_RESOURCE && supervised && t->d.dueAt && !engine_process(g, t->d.currentProcessId))
		set_if_sooner(&d, DUE_LAUNCH, g->work->waits ? t->d.dueAt : 0);
	if (t->status == TASK_PAUSED)
		return d;
	/* The process of a supervised attempt enforces these limits itself. */
	if (!supervised || !engine_process(g, t->d.currentProcessId))
		set_if_sooner(&d, DUE_TASK_TIME, after_ms(t->d.startedAt, t->d.timeoutMs));
	if (t->d.attemptOpen && !supervised && strcmp(t->d.workerKind, "client") == 0)
		client_deadlines(g, t, &d);
	return d;
}

static void end_attempt(struct engine *g, const struct task *t, const char *status, const char *category,
			const char *limit, const char *message)
{
	const struct attempt_end end = { .status = status,
					 .category = category,
					 .limit = limit,
					 .message = message,
					 .exit_code = -1,
					 .may_retry = true };
	struct transaction *tx = transaction_new_internal(g);

	task_attempt_failed(g, t, tx, NULL, &end);
	transaction_after_commit(tx, task_next, t->d.taskId);
	transaction_commit(tx);
}

static void handle_due(struct engine *g, const struct task *t, enum due due)
{
	switch (due) {
	case DUE_BEGIN: task_begin_now(g, t->d.taskId, "retry_policy"); break;
	case DUE_LAUNCH:
		task_launch(g, t->d.taskId); /* if it fails again, it is retried again */
		break;
	case DUE_TASK_TIME:
		end_attempt(g, t, "timed_out", "timeout", "task", "the task's time limit was reached");
		break;
	case DUE_ATTEMPT_TIME:
		end_attempt(g, t, "timed_out", "timeout", "attempt", "the attempt's time limit was reached");
		break;
	case DUE_IDLE:
		end_attempt(g, t, "timed_out", "timeout", "idle",
			    "nothing was heard of the worker for as long as the task allows");
		break;
	case DUE_LOST:
		end_attempt(g, t, "lost", "lost", NULL,
			    "the client that worked on it is gone and did not come back in time");
		break;
	case DUE_NOTHING: break;
	}
}

/* Collects the ids first: handling a deadline changes the list. */
struct ids {
	char (*id)[ID_SIZE];
	size_t n, cap;
};

static bool collect_id(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct ids *l = ctx;

	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->id = mem_realloc(l->id, l->cap * sizeof *l->id);
	}
	snprintf(l->id[l->n++], ID_SIZE, "%.*s", (int)id_len, id);
	return true;
}

static void live_tasks(struct engine *g, struct ids *ret)
{
	struct err e = ERR_INIT;

	if (store_model_scan_speculative(g->o.store, VIEW_LIVE_TASK, NULL, collect_id, ret, &e) < 0)
		log_error("look at tasks: %s", e.message);
}

uint64_t task_tick(struct engine *g, uint64_t now)
{
	struct ids live = { 0 };

	if (now < g->work->task_poll_ns || g->stopping)
		return g->work->task_poll_ns;
	/* Every task below sets the next check again, with task_wake. */
	g->work->task_poll_ns = UINT64_MAX;
	live_tasks(g, &live);
	for (size_t i = 0; i < live.n; i++) {
		task_auto struct task t = TASK_INIT;
		struct err e = ERR_INIT;
		if (task_read(g, live.id[i], &t, &e) != 0)
			continue;
		struct deadline d = deadline_of(g, &t);
		if (d.at_us <= engine_real(g))
			handle_due(g, &t, d.due);
		else if (d.at_us != UINT64_MAX)
			task_wake(g, d.at_us);
	}
	free(live.id);
	return g->work->task_poll_ns;
}

/* ---- after a restart ---- */

/* Repeats the launch of an attempt whose process was never recorded, so it has not run. */
static void recover_attempt(struct engine *g, const struct task *t)
{
	buf_auto struct buf text = BUF_INIT;
	struct process_doc p;
	struct err e = ERR_INIT;

	if (!t->d.currentProcessId[0] || engine_process(g, t->d.currentProcessId))
		return;
	if (view_read(g->o.store, &process_schema, t->d.currentProcessId, &text, &p, &e) != 0)
		task_launch(g, t->d.taskId);
}

static void recover_one(struct engine *g, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct process *p;
	struct err e = ERR_INIT;

	if (task_read(g, task_id, &t, &e) != 0)
		return;
	if (t.d.attemptOpen && strcmp(t.d.workerKind, "client") == 0) {
		struct task_worker *w = mem_zalloc(1, sizeof *w);
		w->gone_us = engine_real(g);
		free(strmap_put(&g->work->task_workers, task_id, w));
	}
	p = t.d.currentProcessId[0] ? engine_process(g, t.d.currentProcessId) : NULL;
	if (t.status == TASK_PAUSED && p) {
		p->paused = true;
		p->paused_ns = engine_now(g);
	}
	if (t.status == TASK_CANCELLING)
		task_cancel_resume(g, task_id);
	else if (t.d.attemptOpen)
		recover_attempt(g, &t);
	else if (t.status == TASK_RETRYING)
		task_begin_now(g, task_id, "retry_policy");
	else
		task_reconsider(g, task_id);
}

/* The runtime may have died after the other end of an edge ended and before this end was updated: update it now. */
struct retell {
	struct engine *engine;
};

static bool notify_edge(void *ctx, const char *target, const char *status)
{
	struct retell *r = ctx;

	if (strcmp(status, "active") == 0)
		task_notify_edges(r->engine, target);
	return true;
}

void task_recover(struct engine *g)
{
	struct retell r = { g };
	struct ids live = { 0 };

	live_tasks(g, &live);
	for (size_t i = 0; i < live.n; i++) {
		task_each_edge(g, live.id[i], "blocked_by", notify_edge, &r);
		task_each_edge(g, live.id[i], "child", notify_edge, &r);
	}
	for (size_t i = 0; i < live.n; i++)
		recover_one(g, live.id[i]);
	if (live.n)
		task_wake(g, engine_real(g));
	task_dispatch(g);
	free(live.id);
}

/* ---- the module ---- */

void work_init(struct engine *g)
{
	g->work = mem_zalloc(1, sizeof *g->work);
	TAILQ_INIT(&g->work->subagents.waiters);
	TAILQ_INIT(&g->work->subagents.inputs);
	TAILQ_INIT(&g->work->subagents.after);
	g->work->task_poll_ns = g->work->job_poll_ns = UINT64_MAX;
}

static void free_worker(void *ctx, const char *task_id, void *value) { free(value); }

void work_done(struct engine *g)
{
	subagent_done(g);
	strmap_each(&g->work->task_workers, free_worker, NULL);
	strmap_done(&g->work->task_workers);
	free(g->work);
}
