/*
 * All live processes: their deadlines, disconnected clients, and the shutdown of the daemon.
 *
 * A tick visits every process, acts on the deadlines that have passed and returns the earliest one that has not.
 * Deadlines are computed from the state of the process, not kept in timers: output moves the idle limit and a pause
 * moves the wall limit without any rescheduling, because a tick that comes too early does nothing. Only code that
 * creates a deadline, or moves one to an earlier time, calls engine_wake.
 */

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/process/pending_start.h"
#include "runtime/engine/process/process.h"

#include <signal.h>

struct visit {
	void (*fn)(struct process *p, void *ctx);
	void *ctx;
};

static void visit_process(void *ctx, const char *id, void *value)
{
	const struct visit *v = ctx;

	v->fn(value, v->ctx);
}

/* Visits every process. Safe if `fn` sends replies, which can lead to requests that start or end processes. */
static void each_process(struct engine *engine, void (*fn)(struct process *p, void *ctx), void *ctx)
{
	struct visit v = { .fn = fn, .ctx = ctx };

	strmap_visit(&engine->processes->live, visit_process, &v);
}

static void free_process(struct process *p, void *ctx)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "the daemon is stopping");
	process_waiters_fail(p, &e);
	process_free(p);
}

void process_free_all(struct engine *engine)
{
	engine->processes->stopped = NULL; /* process_free must not report a completed shutdown */
	each_process(engine, free_process, NULL);
}

void process_init(struct engine *engine) { engine->processes = mem_zalloc(1, sizeof *engine->processes); }

static void free_pending(void *ctx, const char *id, void *value) { pending_start_free(value); }

/* Starts that still wait are freed without a reply: the callbacks of clients are gone (control_free). */
void process_done(struct engine *engine)
{
	strmap_done(&engine->processes->live);
	strmap_each(&engine->processes->pending, free_pending, NULL);
	strmap_done(&engine->processes->pending);
	free(engine->processes);
}

/* ---- deadlines ---- */

struct tick {
	struct engine *engine;
	uint64_t now, next;
};

static void tick_soonest(struct tick *t, uint64_t deadline)
{
	if (deadline < t->next)
		t->next = deadline;
}

/* Very long limits and LIMIT_NONE mean no deadline; the bound avoids an overflow in the conversion. */
static uint64_t limit_deadline(uint64_t from_ns, uint64_t ms)
{
	return ms >= UINT64_MAX / 2000000 ? UINT64_MAX : from_ns + ms * 1000000ull;
}

/*
 * Limits apply only while the command runs; what it leaves in a session sandbox ends with that. A pause extends the
 * wall limit and restarts the idle limit.
 */
static void tick_limits(struct tick *t, struct process *p)
{
	const bool left = p->command_exited && p->within[0];
	uint64_t wall = left ? UINT64_MAX : limit_deadline(p->started_boot_ns + p->held_ns, p->limits.wall_ms);
	uint64_t idle = left ? UINT64_MAX : limit_deadline(p->last_output_ns, p->limits.idle_ms);

	/*
	 * An end that was requested keeps its reason: a limit that is reached during the grace period changes nothing.
	 */
	if (p->state != PROCESS_RUNNING || p->end != PROCESS_END_NONE || p->paused)
		return;
	if (t->now >= wall)
		process_enforce_end(p, PROCESS_END_WALL, NULL, process_stop_signal(p), t->engine->o.stop_grace_ms,
				    "wall time limit");
	else if (t->now >= idle)
		process_enforce_end(p, PROCESS_END_IDLE, NULL, process_stop_signal(p), t->engine->o.stop_grace_ms,
				    "idle time limit");
	else if (t->now >= p->follow_deadline_ns)
		process_enforce_end(p, PROCESS_END_CLIENT_GONE, NULL, process_stop_signal(p),
				    t->engine->o.stop_grace_ms, "its client did not come back after a restart");
	else {
		tick_soonest(t, wall);
		tick_soonest(t, idle);
		tick_soonest(t, p->follow_deadline_ns);
	}
}

/* Output that cannot be written now stays in the pipes. Until it can be, the deadline for their end does not pass. */
static bool waits_for_space(const struct process *p)
{
	bool stalled = false;

	for (int i = 0; i < STREAM_COUNT; i++)
		stalled |= p->streams[i].stalled && !p->streams[i].ended;
	return stalled && !p->output_given_up;
}

static void tick_drain(struct tick *t, struct process *p)
{
	if (waits_for_space(p))
		p->drain_until_ns = t->now + PROCESS_DRAIN_MS * 1000000ull;
	if (t->now < p->drain_until_ns) {
		tick_soonest(t, p->drain_until_ns);
	} else if (!p->drain_cut) { /* do not wait any longer for the end of the streams */
		p->drain_cut = true;
		t->engine->o.ports->stop_reading(t->engine->o.host, p->id);
		process_event(p, PROCESS_EV_STREAM_END);
	}
}

static void tick_process(struct process *p, void *ctx)
{
	struct tick *t = ctx;
	struct process_waiter *w;

	process_waiters_expire(p, t->now);
	TAILQ_FOREACH (w, &p->waiters, link)
		tick_soonest(t, w->deadline_ns);
	tick_soonest(t, process_intent_tick(p, t->now));
	if (t->now >= p->flush_at_ns)
		process_output_submit(p);
	tick_limits(t, p);
	if (p->end != PROCESS_END_NONE && t->now >= p->kill_at_ns)
		process_escalate(p, t->now);
	/* Before EXECING there is no command to kill; execing_execed carries out an end that was requested earlier. */
	if (p->state == PROCESS_RUNNING || p->state == PROCESS_EXECING)
		tick_soonest(t, p->kill_at_ns);
	tick_soonest(t, p->flush_at_ns);
	tick_soonest(t, process_violations_tick(p, t->now));
	if (p->state != PROCESS_DRAINING)
		return;
	/* The reports are overdue: end the process without them and mark its count as a minimum. */
	if (p->settling && t->now >= p->settle_until_ns) {
		engine_on_violations_missed(t->engine, p->id);
		engine_on_reports_complete(t->engine, p->id);
		return;
	}
	if (p->settling)
		tick_soonest(t, p->settle_until_ns);
	tick_drain(t, p);
}

uint64_t process_tick(struct engine *engine, uint64_t now)
{
	struct tick t = { .engine = engine, .now = now, .next = UINT64_MAX };

	each_process(engine, tick_process, &t);
	return t.next;
}

/* ---- clients ---- */

static void forget_connection(struct process *p, void *ctx)
{
	uint64_t connection = *(const uint64_t *)ctx;
	struct process_waiter *w;
	struct err e = ERR_INIT;

	/* Searched from the start after each reply: its callback may change the list. */
	err_set(&e, ERR_UNAVAILABLE, "the client has gone");
	do {
		TAILQ_FOREACH (w, &p->waiters, link)
			if (w->reply.connection == connection)
				break;
		if (w) {
			TAILQ_REMOVE(&p->waiters, w, link);
			reply_err(&w->reply, &e, NULL, 0);
			free(w);
		}
	} while (w);
	if (p->bound_connection != connection)
		return;
	const struct requester by = p->by;
	p->bound_connection = 0;
	process_enforce_end(p, PROCESS_END_CLIENT_GONE, &by, process_stop_signal(p), p->engine->o.stop_grace_ms,
			    "its client has gone");
}

void process_client_disconnected(struct engine *engine, uint64_t connection)
{
	each_process(engine, forget_connection, &connection);
}

/* ---- shutdown ---- */

/* A holder ends after the commands in its sandbox (sandbox_tick). */
static void stop_process(struct process *p, void *ctx)
{
	if (p->holder)
		return;
	process_enforce_end(p, PROCESS_END_SHUTDOWN, NULL, process_stop_signal(p), p->engine->o.stop_grace_ms,
			    "the daemon is stopping");
}

void engine_stop(struct engine *engine, void (*done)(void *ctx), void *ctx)
{
	/*
	 * Set first: from now on starts are rejected. Then the waits for policy files end, and the starts that waited
	 * for them are rejected, so that only processes in the table are left to end.
	 */
	engine->stopping = true;
	modules_run(engine, engine->modules->stop);
	if (engine->processes->live.count == 0) {
		done(ctx);
		return;
	}
	engine->processes->stopped = done;
	engine->processes->stopped_ctx = ctx;
	each_process(engine, stop_process, NULL);
	engine_wake(engine, engine_now(engine));
}

static void count_one(void *ctx, const char *id, void *value)
{
	struct engine_counts *n = ctx;
	const struct process *p = value;
	const struct process_waiter *w;

	n->live++;
	n->starting += p->state < PROCESS_RUNNING;
	n->ending += p->state > PROCESS_RUNNING;
	TAILQ_FOREACH (w, &p->waiters, link)
		n->waiters++;
}

void engine_counts_get(const struct engine *engine, struct engine_counts *ret)
{
	*ret = engine->counts;
	ret->live = ret->starting = ret->ending = ret->waiters = 0;
	strmap_each(&engine->processes->live, count_one, ret);
}
