/* The engine itself: its processes, its clock, clients that come and go, warnings, and the end of everything. */

#include "runtime/engine/core/engine_private.h"

#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/channel/channel.h"
#include "runtime/engine/core/waiter.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/permission/permission.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/session_rules.h"
#include "runtime/engine/tool/tool.h"
#include "runtime/engine/turn/history.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/work/subagent.h"

#include <signal.h>
#include <stdarg.h>

struct engine *engine_new(const struct engine_options *o)
{
	struct engine *g = mem_zalloc(1, sizeof *g);

	g->o = *o;
	if (!g->o.stop_grace_ms)
		g->o.stop_grace_ms = 5000;
	if (!g->o.max_processes)
		g->o.max_processes = 1024;
	if (!g->o.inline_bytes)
		g->o.inline_bytes = 2048;
	TAILQ_INIT(&g->subagents.waiters);
	TAILQ_INIT(&g->rollbacks);
	TAILQ_INIT(&g->subagents.inputs);
	TAILQ_INIT(&g->subagents.after);
	if (!g->o.max_tasks)
		g->o.max_tasks = 64;
	g->task_poll_ns = g->job_poll_ns = UINT64_MAX;
	TAILQ_INIT(&g->tools);
	TAILQ_INIT(&g->reloads);
	TAILQ_INIT(&g->policy_waiters);
	TAILQ_INIT(&g->hook_groups);
	TAILQ_INIT(&g->keeping);
	TAILQ_INIT(&g->judging);
	TAILQ_INIT(&g->waiters);
	g->next_action_ns = UINT64_MAX;
	snprintf(g->boot_id, sizeof g->boot_id, "%s", o->boot_id);
	return g;
}

void engine_default_limits(const struct engine *g, struct process_limits *ret) { *ret = g->o.defaults; }

const char *engine_tool_program(const struct engine *g) { return g->o.tool_program; }

struct process *engine_process(struct engine *g, const char *id) { return strmap_get(&g->processes, id); }

void engine_wake(struct engine *g, uint64_t boot_ns) { g->o.ports->wake_at(g->o.host, boot_ns); }

struct visit {
	void (*fn)(struct process *p, void *ctx);
	void *ctx;
};

static void visit_process(void *ctx, const char *id, void *value)
{
	const struct visit *v = ctx;

	v->fn(value, v->ctx);
}

/* Visits every process. An answer given on the way may bring the next request, which may start or end processes. */
static void engine_each(struct engine *g, void (*fn)(struct process *p, void *ctx), void *ctx)
{
	struct visit v = { .fn = fn, .ctx = ctx };

	strmap_visit(&g->processes, visit_process, &v);
}

static void free_process(struct process *p, void *ctx)
{
	struct process_waiter *w;
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "the daemon is stopping");
	while ((w = TAILQ_FIRST(&p->waiters))) {
		TAILQ_REMOVE(&p->waiters, w, link);
		reply_err(&w->reply, &e, NULL, 0);
		free(w);
	}
	process_free(p);
}

static void free_value(void *ctx, const char *key, void *value) { free(value); }

void engine_free(struct engine *g)
{
	if (!g)
		return;
	g->stopped = NULL;
	g->stopping = true;
	policy_lookup_stop(g);
	store_flush(g->o.store); /* what that submitted is decided, and calls nothing back later */
	engine_each(g, free_process, NULL);
	tool_evaluations_done(g);
	hook_done(g);
	waiters_free(g);
	permission_done(g);
	session_rules_done(g);
	tools_free(g);
	strmap_done(&g->processes);
	subagent_done(g);
	history_done(g);
	strmap_each(&g->channels, free_value, NULL);
	strmap_done(&g->channels);
	strmap_done(&g->held_starts);
	strmap_done(&g->policy_writes);
	strmap_done(&g->busy_threads);
	turn_owners_done(g);
	task_workers_free(g);
	free(g);
}

/* ---- time ---- */

struct tick {
	struct engine *engine;
	uint64_t now, next;
};

static void tick_soonest(struct tick *t, uint64_t deadline)
{
	if (deadline < t->next)
		t->next = deadline;
}

static uint64_t limit_deadline(uint64_t from_ns, uint64_t ms)
{
	return ms >= UINT64_MAX / 2000000 ? UINT64_MAX : from_ns + ms * 1000000ull;
}

static void tick_limits(struct tick *t, struct process *p)
{
	uint64_t wall = limit_deadline(p->started_boot_ns + p->held_ns, p->limits.wall_ms);
	uint64_t idle = limit_deadline(p->last_output_ns, p->limits.idle_ms);

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

static void tick_process(struct process *p, void *ctx)
{
	struct tick *t = ctx;
	struct process_waiter *w;

	process_waiters_expire(p, t->now);
	TAILQ_FOREACH (w, &p->waiters, link)
		tick_soonest(t, w->deadline_ns);
	if (t->now >= p->flush_at_ns)
		process_output_submit(p);
	tick_limits(t, p);
	if (p->end != PROCESS_END_NONE && t->now >= p->kill_at_ns)
		process_escalate(p, t->now);
	if (p->state == PROCESS_RUNNING || p->state == PROCESS_EXECING)
		tick_soonest(t, p->kill_at_ns);
	tick_soonest(t, p->flush_at_ns);
	tick_soonest(t, process_violations_tick(p, t->now));
	if (p->state != PROCESS_DRAINING)
		return;
	if (p->settling && t->now >= p->settle_until_ns) {
		engine_on_violations_missed(t->engine, p->id);
		engine_on_reports_complete(t->engine, p->id);
		return;
	}
	if (p->settling)
		tick_soonest(t, p->settle_until_ns);
	if (t->now < p->drain_until_ns) {
		tick_soonest(t, p->drain_until_ns);
	} else if (!p->drain_cut) {
		p->drain_cut = true;
		t->engine->o.ports->stop_reading(t->engine->o.host, p->id);
		process_handle_event(p, PROCESS_EV_STREAM_END);
	}
}

void engine_tick(struct engine *g)
{
	struct tick t = { .engine = g, .now = engine_now(g), .next = UINT64_MAX };

	engine_each(g, tick_process, &t);
	hook_tick(g);
	tick_soonest(&t, channel_tick(g, t.now));
	tick_soonest(&t, subagent_tick(g, t.now));
	tick_soonest(&t, history_tick(g, t.now));
	tick_soonest(&t, task_tick(g, t.now));
	tick_soonest(&t, waiters_tick(g, t.now));
	tick_soonest(&t, action_tick(g, t.now));
	tick_soonest(&t, job_tick(g, t.now));
	tick_soonest(&t, turn_owner_tick(g, t.now));
	if (t.next != UINT64_MAX)
		engine_wake(g, t.next);
}

/* ---- clients ---- */

static void forget_connection(struct process *p, void *ctx)
{
	uint64_t connection = *(const uint64_t *)ctx;
	struct process_waiter *w;
	struct err e = ERR_INIT;

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

void engine_client_connected(struct engine *g, const struct caller *c)
{
	g->o.ports->add_peer(g->o.host, c->uid, c->peer_fd);
	task_client_connected(g);
}

void engine_client_disconnected(struct engine *g, uint64_t connection)
{
	if (!connection)
		return;
	engine_each(g, forget_connection, &connection);
	channel_client_disconnected(g, connection);
	subagent_client_disconnected(g, connection);
	task_client_disconnected(g, connection);
	waiters_client_disconnected(g, connection);
	tools_client_disconnected(g, connection);
	tool_owner_disconnected(g, connection);
	turn_owner_disconnected(g, connection);
}

void engine_client_follows(struct engine *g, const char *process_id, const struct caller *c)
{
	struct process *p = engine_process(g, process_id);

	if (!p || !p->end_with_client || p->bound_connection || p->end != PROCESS_END_NONE || p->uid != c->uid)
		return;
	p->bound_connection = c->connection;
	p->follow_deadline_ns = UINT64_MAX;
}

/* ---- the end of everything ---- */

static void stop_process(struct process *p, void *ctx)
{
	process_enforce_end(p, PROCESS_END_SHUTDOWN, NULL, process_stop_signal(p), p->engine->o.stop_grace_ms,
			    "the daemon is stopping");
}

void engine_stop(struct engine *g, void (*done)(void *ctx), void *ctx)
{
	g->stopping = true;
	policy_lookup_stop(g);
	if (g->processes.count == 0) {
		done(ctx);
		return;
	}
	g->stopped = done;
	g->stopped_ctx = ctx;
	engine_each(g, stop_process, NULL);
}

/* ---- facts about the runtime itself ---- */

static void engine_note(struct engine *g, enum event_type type, const char *code, const char *advice, const char *fmt,
			va_list ap)
{
	char detail[512];

	vsnprintf(detail, sizeof detail, fmt, ap);
	if (type == EVENT_RUNTIME_ERROR)
		log_error("%s", detail);
	else
		log_warning("%s", detail);
	struct store_batch *b = store_batch_new(g->o.store);
	const struct scope s = { .uid = g->o.owner_uid, .session = g->system_session, .thread = g->system_thread };
	int r = type == EVENT_RUNTIME_ERROR
			? EMIT(runtime_error, b, s, .code = code, .detail = detail, .advice = advice)
			: EMIT(runtime_warning, b, s, .code = code, .detail = detail, .advice = advice);
	if (r < 0) {
		store_batch_free(b);
		return;
	}
	store_submit(g->o.store, b, STORE_MUST, NULL, NULL);
}

void engine_warn(struct engine *g, const char *code, const char *advice, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	engine_note(g, EVENT_RUNTIME_WARNING, code, advice, fmt, ap);
	va_end(ap);
}

void engine_error(struct engine *g, const char *code, const char *advice, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	engine_note(g, EVENT_RUNTIME_ERROR, code, advice, fmt, ap);
	va_end(ap);
}

/* ---- policy ---- */

void engine_set_profiles(struct engine *g, const struct policy_profiles *profiles) { g->profiles = profiles; }

void engine_set_rules(struct engine *g, const struct policy_rules *rules) { g->rules = rules; }

void engine_set_hooks(struct engine *g, const struct policy_hooks *hooks) { g->hooks = hooks; }

void engine_set_policy_problem(struct engine *g, const char *why)
{
	snprintf(g->policy_problem, sizeof g->policy_problem, "%s", why ? why : "");
}

/* A policy.changed under way: a file that is loaded twice at once has changed once. */
struct policy_write {
	struct engine *engine;
	char *key, *hash;
};

static void on_policy_written(void *ctx, const struct store_result *r)
{
	struct policy_write *w = ctx;
	struct engine *g = w->engine;

	if (r->status >= 0)
		g->policy_sequence = r->last_sequence;
	if (strmap_get(&g->policy_writes, w->key) == w)
		strmap_del(&g->policy_writes, w->key);
	free(w->key);
	free(w->hash);
	free(w);
}

static void policy_is(struct engine *g, const char *key, const char *layer, const char *file, uint32_t uid,
		      const char *hash, const char *summary)
{
	buf_auto struct buf before = BUF_INIT;
	struct err e = ERR_INIT;

	const struct policy_write *newer = strmap_get(&g->policy_writes, key);
	int r = newer ? 0 : store_meta_get(g->o.store, key, &before, &e);
	if (newer)
		buf_str(&before, newer->hash);
	if (r < 0)
		log_error("look up the policy of last time: %s", e.message);
	if (r < 0 || strcmp(buf_cstr(&before), hash) == 0)
		return;
	struct store_batch *b = store_batch_new(g->o.store);
	const struct scope s = { .uid = g->o.owner_uid, .session = g->system_session, .thread = g->system_thread };
	if (EMIT(policy_changed, b, s, .layer = layer, .file = file, .uid = opt_int_if(file, uid),
		 .oldHash = none_if_empty(buf_cstr(&before)), .newHash = none_if_empty(hash), .summary = summary) < 0) {
		store_batch_free(b);
		return;
	}
	store_batch_meta(b, key, hash, strlen(hash));
	struct policy_write *w = mem_zalloc(1, sizeof *w);
	*w = (struct policy_write){ .engine = g, .key = mem_strdup(key), .hash = mem_strdup(hash) };
	strmap_put(&g->policy_writes, key, w);
	store_submit(g->o.store, b, STORE_MUST, on_policy_written, w);
}

void engine_policy_is(struct engine *g, const char *layer, const char *hash, const char *summary)
{
	mem_auto char *key = mem_printf("policy.%s", layer);

	policy_is(g, key, layer, NULL, 0, hash, summary);
}

void engine_policy_file_is(struct engine *g, const char *layer, const char *file, uint32_t uid, const char *hash,
			   const char *summary)
{
	char name[HASH_SHA256_TEXT];

	hash_sha256_text(file, strlen(file), name);
	mem_auto char *key = mem_printf("policy.%s.%u.%.16s", layer, uid, name);
	policy_is(g, key, layer, file, uid, hash, summary);
}

static void count_process(void *ctx, const char *id, void *value)
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

void engine_counts_get(const struct engine *g, struct engine_counts *ret)
{
	*ret = g->counts;
	ret->live = ret->starting = ret->ending = ret->waiters = 0;
	strmap_each((struct strmap *)&g->processes, count_process, ret);
}
