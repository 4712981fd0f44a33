/* The processes and tool calls of a turn. */

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/waiter.h"
#include "runtime/engine/turn/history.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/turn/turn_hooks.h"
#include "runtime/engine/turn/turn_state.h"
#include "runtime/view/view_ids.h"
#include <signal.h>

struct turn_work {
	const char *turn_id;
	const struct requester *by;
	const char *reason;
	char (*ids)[ID_TEXT_MAX];
	size_t count;
};

static void collect_process(void *ctx, const char *id, void *value)
{
	struct turn_work *w = ctx;
	const struct process *p = value;

	if (strcmp(p->turn_id, w->turn_id) == 0)
		snprintf(w->ids[w->count++], ID_TEXT_MAX, "%s", id);
}

static void work_of(struct engine *g, const char *turn_id, struct turn_work *w)
{
	*w = (struct turn_work){ .turn_id = turn_id, .ids = mem_zalloc(g->processes->live.count + 1, ID_TEXT_MAX) };
	strmap_each(&g->processes->live, collect_process, w);
}

static size_t live_processes(struct engine *g, const char *turn_id, char one[ID_TEXT_MAX])
{
	struct turn_work w;

	work_of(g, turn_id, &w);
	if (w.count)
		memcpy(one, w.ids[0], ID_TEXT_MAX);
	free(w.ids);
	return w.count;
}

bool turn_busy(struct engine *g, const struct turn_doc *d)
{
	char one[ID_TEXT_MAX];

	return (d->openCalls != VIEW_ABSENT && d->openCalls) || live_processes(g, d->turnId, one);
}

void turn_stop_work(struct engine *g, const char *turn_id, const struct requester *by, const char *reason)
{
	struct turn_work w;

	work_of(g, turn_id, &w);
	for (size_t i = 0; i < w.count; i++) {
		struct process *p = engine_process(g, w.ids[i]);

		if (p)
			process_enforce_end(p, PROCESS_END_USER, by, SIGTERM, g->o.stop_grace_ms, reason);
	}
	free(w.ids);
	tool_cancel_of_turn(g, turn_id, reason);
}

int turn_may_complete(struct engine *g, const struct turn_doc *t, struct err *e)
{
	char one[ID_TEXT_MAX];

	if (!turn_driven_by_client(t))
		return err_set(e, ERR_STATE,
			       "turn '%s' is run by the runtime and ends by itself; interrupt_turn ends it before",
			       t->turnId);
	if (live_processes(g, t->turnId, one))
		return err_set(e, ERR_STATE, "turn '%s' has a running process, '%s': wait for it or end it first",
			       t->turnId, one);
	if (t->openCalls != VIEW_ABSENT && t->openCalls)
		return err_set(e, ERR_STATE, "turn '%s' has %llu open tool calls: their end must be known first",
			       t->turnId, (unsigned long long)t->openCalls);
	if (t->openActions != VIEW_ABSENT && t->openActions)
		return err_set(e, ERR_STATE, "turn '%s' has an open action: it must be answered first (list_actions)",
			       t->turnId);
	return 0;
}
