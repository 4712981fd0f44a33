/*
 * The end of the process is durable: offers a retry with more rights, runs the hooks for the end, and then lets the
 * owner and the surrounding work continue.
 */

#include "runtime/engine/start/start.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/permission/permission.h"
#include "runtime/engine/process/process.h"

#include <string.h>

struct finished {
	struct engine *engine;
	struct process_over over;
};

static void on_hooks(struct hook_group *group, void *ctx)
{
	struct finished *x = ctx;

	hook_on_reply(group);
	process_over(x->engine, &x->over);
	free(x);
}

static void finish_process(struct engine *engine, const struct policy_hooks *known, const struct err *e, void *ctx)
{
	struct process *p = ctx;
	struct hook_group *hooks = p->hooks_after ? hook_after(p, known) : NULL;
	struct finished x = {
		.engine = engine,
		.over = { .owner = p->owner, .owns_turn = p->owns_turn, .made_thread = p->makes_thread },
	};

	/* Copied, because the hooks run after the process is freed. */
	memcpy(x.over.owner_id, p->owner_id, ID_SIZE);
	memcpy(x.over.task_id, p->task_id, ID_SIZE);
	memcpy(x.over.job_id, p->job_id, ID_SIZE);
	memcpy(x.over.thread_id, p->thread_id, ID_SIZE);
	memcpy(x.over.turn_id, p->turn_id, ID_SIZE);
	memcpy(x.over.sandbox_id, p->sandbox_id, ID_SIZE);
	process_free(p);
	if (!hooks) {
		process_over(engine, &x.over);
		return;
	}
	hooks->drop = free;
	hook_group_run(hooks, on_hooks, mem_dup(&x, sizeof x));
}

void start_process_finished(struct process *p)
{
	permission_offer_retry(p);
	if (p->hooks_after && p->cwd)
		hooks_wait(p->engine, p->cwd, &p->by, finish_process, p);
	else
		finish_process(p->engine, p->engine->hooks, NULL, p);
}
