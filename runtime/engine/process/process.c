/* A live process: how it is found, the scope of its facts, and the events that the rest of the module sends it. */

#include "runtime/engine/process/process.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/ref.h"

struct process *process_new(struct engine *engine, const char *id)
{
	struct process *p = mem_zalloc(1, sizeof *p);

	p->engine = engine;
	snprintf(p->id, sizeof p->id, "%s", id);
	/* The first line of a terminal is empty, and no deadline is set. */
	p->last_typed = '\n';
	p->kill_at_ns = p->flush_at_ns = p->drain_until_ns = p->follow_deadline_ns = UINT64_MAX;
	TAILQ_INIT(&p->waiters);
	TAILQ_INIT(&p->inputs);
	strmap_put(&engine->processes->live, p->id, p);
	return p;
}

struct process *engine_process(struct engine *engine, const char *id)
{
	return strmap_get(&engine->processes->live, id);
}

struct scope process_scope(const struct process *p)
{
	return (struct scope){ .uid = p->uid,
			       .session = p->session_id,
			       .thread = p->thread_id,
			       .turn = p->turn_id,
			       .process = p->id,
			       .task = p->task_id,
			       .tool_call = p->tool_call_id,
			       .run = p->run_id,
			       .attempt = p->attempt_id,
			       .step = p->step_id,
			       .job = p->job_id,
			       .job_item = p->job_item_id,
			       .subagent = p->subagent_id,
			       .request = p->start.request_id,
			       .trace = p->trace_id };
}

struct ref_owner process_ref_owner(const struct process *p, const char *media_type)
{
	return (struct ref_owner){ .uid = p->uid,
				   .session_id = p->session_id,
				   .thread_id = p->thread_id,
				   .turn_id = p->turn_id,
				   .kind = "process",
				   .id = p->id,
				   .media_type = media_type };
}

void process_event(struct process *p, enum process_event ev) { p->engine->modules->process_event(p, (int)ev); }

void process_start(struct engine *engine, const struct start_request *r, const struct caller *c, engine_reply_fn fn,
		   void *ctx)
{
	engine->modules->start(engine, r, c, fn, ctx);
}

/*
 * A process with end_with_client lost its connection when the runtime restarted. The first client of its uid that waits
 * for it or subscribes to it takes that place; without one it ends at follow_deadline_ns.
 */
void engine_client_follows(struct engine *engine, const char *process_id, const struct caller *c)
{
	struct process *p = engine_process(engine, process_id);

	if (!p || !p->end_with_client || p->bound_connection || p->end != PROCESS_END_NONE || p->uid != c->uid)
		return;
	p->bound_connection = c->connection;
	p->follow_deadline_ns = UINT64_MAX;
}

void process_waiters_fail(struct process *p, const struct err *e)
{
	struct process_waiter *w;

	while ((w = TAILQ_FIRST(&p->waiters))) {
		TAILQ_REMOVE(&p->waiters, w, link);
		reply_err(&w->reply, e, NULL, 0);
		free(w);
	}
}
