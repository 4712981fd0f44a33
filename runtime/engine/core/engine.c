/* The engine itself: creation, clock, connects and disconnects of clients, warnings, the phases of its modules. */

#include "runtime/engine/core/core.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <stdarg.h>

#define FULL_REPORT_NS (60 * 1000000000ull)

static void report_damage(void *ctx, const char *what);

struct engine *engine_create(const struct engine_options *o, const struct engine_modules *modules)
{
	struct engine *engine = mem_zalloc(1, sizeof *engine);

	engine->o = *o;
	engine->modules = modules;
	if (!engine->o.stop_grace_ms)
		engine->o.stop_grace_ms = 5000;
	if (!engine->o.max_processes)
		engine->o.max_processes = 1024;
	if (!engine->o.inline_bytes)
		engine->o.inline_bytes = 2048;
	if (!engine->o.max_tasks)
		engine->o.max_tasks = 64;
	snprintf(engine->boot_id, sizeof engine->boot_id, "%s", o->boot_id);
	modules_run(engine, modules->init);
	store_on_damage(engine->o.store, report_damage, engine);
	return engine;
}

void engine_free(struct engine *engine)
{
	if (!engine)
		return;
	engine->stopping = true;
	modules_run(engine, engine->modules->stop);
	/* Runs the callbacks of all submitted batches while the state of the modules still exists. */
	store_flush(engine->o.store);
	store_on_damage(engine->o.store, NULL, NULL);
	modules_run(engine, engine->modules->done);
	reply_contexts_done(engine);
	free(engine);
}

void engine_default_limits(const struct engine *engine, struct process_limits *ret) { *ret = engine->o.defaults; }

const char *engine_tool_program(const struct engine *engine) { return engine->o.tool_program; }

void engine_wake(struct engine *engine, uint64_t boot_ns) { engine->o.ports->wake_at(engine->o.host, boot_ns); }

/* ---- calls to the modules ---- */

void modules_run(struct engine *engine, const module_fn *phase)
{
	for (; *phase; phase++)
		(*phase)(engine);
}

void modules_due(struct engine *engine, enum due_work work, const char *id) { engine->modules->due[work](engine, id); }

/* ---- time ---- */

void engine_tick(struct engine *engine)
{
	uint64_t now = engine_now(engine), next = UINT64_MAX;

	for (uint64_t (*const *tick)(struct engine *, uint64_t) = engine->modules->tick; *tick; tick++) {
		uint64_t at = (*tick)(engine, now);

		next = at < next ? at : next;
	}
	if (next != UINT64_MAX)
		engine_wake(engine, next);
}

/* ---- clients ---- */

void engine_client_connected(struct engine *engine, const struct caller *c)
{
	engine->o.ports->add_peer(engine->o.host, c->uid, c->peer_fd);
	modules_run(engine, engine->modules->connected);
}

void engine_client_disconnected(struct engine *engine, uint64_t connection)
{
	if (!connection)
		return;
	for (void (*const *fn)(struct engine *, uint64_t) = engine->modules->disconnected; *fn; fn++)
		(*fn)(engine, connection);
}

/* ---- after a restart ---- */

void engine_resume(struct engine *engine)
{
	modules_run(engine, engine->modules->resume);
	store_flush(engine->o.store);
}

/* ---- facts about the runtime itself ---- */

static void engine_note(struct engine *engine, enum event_type type, const char *code, const char *advice,
			const char *fmt, va_list ap)
{
	char detail[512];

	vsnprintf(detail, sizeof detail, fmt, ap);
	if (type == EVENT_RUNTIME_ERROR)
		log_error("%s", detail);
	else
		log_warning("%s", detail);
	/* The system session is the only one that exists whatever went wrong. */
	struct transaction *tx = transaction_new_internal(engine);
	const struct scope s = { .uid = engine->o.owner_uid,
				 .session = engine->system_session,
				 .thread = engine->system_thread };
	int r = type == EVENT_RUNTIME_ERROR
			? EMIT(runtime_error, tx, s, .code = code, .detail = detail, .advice = advice)
			: EMIT(runtime_warning, tx, s, .code = code, .detail = detail, .advice = advice);
	if (r < 0)
		transaction_free(tx);
	else
		transaction_commit(tx);
}

void engine_warn(struct engine *engine, const char *code, const char *advice, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	engine_note(engine, EVENT_RUNTIME_WARNING, code, advice, fmt, ap);
	va_end(ap);
}

__attribute__((format(printf, 4, 5))) static void engine_error(struct engine *engine, const char *code,
							       const char *advice, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	engine_note(engine, EVENT_RUNTIME_ERROR, code, advice, fmt, ap);
	va_end(ap);
}

/* For those who follow the events. A store at its limit may become full again and again: at most once a minute. */
void engine_check_space(struct engine *engine)
{
	const bool before = engine->store_full, disk = store_disk_full(engine->o.store);
	const uint64_t now = engine_now(engine);

	engine->store_full = store_full(engine->o.store);
	if (!engine->store_full || before ||
	    (engine->full_reported_ns && now - engine->full_reported_ns < FULL_REPORT_NS))
		return;
	engine->full_reported_ns = now;
	engine_error(engine, "store_full",
		     disk ? "free disk space, or remove old events (bailiff store prune)"
			  : "remove old events (bailiff store prune), or raise storeQuotaBytes",
		     "the store is full (%s): new work is rejected, and output waits", disk ? "disk" : "quota");
}

/* A read has found it; those who follow the events need not read the same data. */
static void report_damage(void *ctx, const char *what)
{
	struct engine *engine = ctx;

	if (!engine->stopping)
		engine_error(
			engine, "store_damaged",
			"bailiff store verify lists all damage; bailiff store rebuild repairs read models; restore "
			"a backup for the rest, and check the disk",
			"stored data is damaged: %s", what);
}

/* ---- policy ---- */

void engine_set_profiles(struct engine *engine, const struct policy_profiles *profiles)
{
	engine->profiles = profiles;
	engine->profiles_generation++;
}

void engine_set_rules(struct engine *engine, const struct policy_rules *rules) { engine->rules = rules; }

void engine_set_hooks(struct engine *engine, const struct policy_hooks *hooks) { engine->hooks = hooks; }

void engine_set_policy_problem(struct engine *engine, const char *why)
{
	snprintf(engine->policy_problem, sizeof engine->policy_problem, "%s", why ? why : "");
}
