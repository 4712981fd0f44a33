/* The engine itself: creation, clock, connects and disconnects of clients, warnings, the phases of its modules. */

#include "runtime/engine/core/core.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <stdarg.h>

struct engine *engine_create(const struct engine_options *o, const struct engine_modules *modules)
{
	struct engine *g = mem_zalloc(1, sizeof *g);

	g->o = *o;
	g->modules = modules;
	if (!g->o.stop_grace_ms)
		g->o.stop_grace_ms = 5000;
	if (!g->o.max_processes)
		g->o.max_processes = 1024;
	if (!g->o.inline_bytes)
		g->o.inline_bytes = 2048;
	if (!g->o.max_tasks)
		g->o.max_tasks = 64;
	snprintf(g->boot_id, sizeof g->boot_id, "%s", o->boot_id);
	modules_run(g, modules->init);
	return g;
}

void engine_free(struct engine *g)
{
	if (!g)
		return;
	g->stopping = true;
	modules_run(g, g->modules->stop);
	/* Runs the callbacks of all submitted batches while the state of the modules still exists. */
	store_flush(g->o.store);
	modules_run(g, g->modules->done);
	free(g);
}

void engine_default_limits(const struct engine *g, struct process_limits *ret) { *ret = g->o.defaults; }

const char *engine_tool_program(const struct engine *g) { return g->o.tool_program; }

void engine_wake(struct engine *g, uint64_t boot_ns) { g->o.ports->wake_at(g->o.host, boot_ns); }

/* ---- time ---- */

void engine_tick(struct engine *g)
{
	uint64_t now = engine_now(g), next = UINT64_MAX;

	for (uint64_t (*const *tick)(struct engine *, uint64_t) = g->modules->tick; *tick; tick++) {
		uint64_t at = (*tick)(g, now);

		next = at < next ? at : next;
	}
	if (next != UINT64_MAX)
		engine_wake(g, next);
}

/* ---- clients ---- */

void engine_client_connected(struct engine *g, const struct caller *c)
{
	g->o.ports->add_peer(g->o.host, c->uid, c->peer_fd);
	modules_run(g, g->modules->connected);
}

void engine_client_disconnected(struct engine *g, uint64_t connection)
{
	if (!connection)
		return;
	for (void (*const *fn)(struct engine *, uint64_t) = g->modules->disconnected; *fn; fn++)
		(*fn)(g, connection);
}

/* ---- after a restart ---- */

void engine_resume(struct engine *g)
{
	modules_run(g, g->modules->resume);
	store_flush(g->o.store);
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
	/* The system session is the only one that exists whatever went wrong. */
	struct transaction *tx = transaction_new_internal(g);
	const struct scope s = { .uid = g->o.owner_uid, .session = g->system_session, .thread = g->system_thread };
	int r = type == EVENT_RUNTIME_ERROR
			? EMIT(runtime_error, tx, s, .code = code, .detail = detail, .advice = advice)
			: EMIT(runtime_warning, tx, s, .code = code, .detail = detail, .advice = advice);
	if (r < 0)
		transaction_free(tx);
	else
		transaction_commit(tx);
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
