/* The clients that work on tasks, and when deadlines of tasks are checked next. */

#include "runtime/base/mem.h"
#include "runtime/engine/work/task_private.h"

#define POLL_MAX_NS (60ull * 1000000000) /* the real clock may be set: check at least this often */

void task_wake(struct engine *g, uint64_t real_us)
{
	uint64_t now = engine_real(g), in_ns = real_us > now ? (real_us - now) * 1000 : 0;

	if (in_ns > POLL_MAX_NS)
		in_ns = POLL_MAX_NS;
	if (engine_now(g) + in_ns >= g->work->task_poll_ns)
		return;
	g->work->task_poll_ns = engine_now(g) + in_ns;
	engine_wake(g, g->work->task_poll_ns);
}

void task_set_worker(struct engine *g, const char *task_id, const struct caller *c)
{
	struct task_worker *w = strmap_get(&g->work->task_workers, task_id);

	if (!c->connection)
		return;
	if (!w) {
		w = mem_zalloc(1, sizeof *w);
		strmap_put(&g->work->task_workers, task_id, w);
	}
	w->connection = c->connection;
	w->gone_us = 0;
	task_wake(g, engine_real(g)); /* its idle time starts */
}

void task_worker_over(struct engine *g, const char *task_id) { free(strmap_del(&g->work->task_workers, task_id)); }
