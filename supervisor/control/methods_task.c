#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/engine/work/task.h"
#include "runtime/view/view_task.h"
#include "supervisor/control/control.h"

/* What changes a task is the engine's to check. */
#define TASK_METHOD(name)                                                                   \
	void method_##name(struct call *c)                                                  \
	{                                                                                   \
		engine_##name(call_engine(c), c->params, &c->caller, call_engine_reply, c); \
	}
TASK_METHODS(TASK_METHOD)
#undef TASK_METHOD

static uint32_t viewer(const struct call *c) { return call_sees_all(c) ? VIEW_ANY_UID : c->caller.uid; }

static void answer(struct call *c, int r, const struct buf *out, const struct err *e)
{
	if (r < 0)
		call_fail(c, e);
	else
		call_reply(c, out->data, out->len);
}

void method_list_tasks(struct call *c)
{
	uint64_t limit = call_uint(c, "limit", 100);
	const struct view_task_query q = {
		.session_id = call_str(c, "sessionId"),
		.thread_id = call_str(c, "threadId"),
		.parent_id = call_str(c, "parentTaskId"),
		.status = call_str(c, "status"),
		.match = call_str(c, "match"),
		.live_only = call_bool(c, "liveOnly", false),
		.limit = limit > 1000 ? 1001 : (unsigned)limit, /* the view says what is allowed */
		.cursor = call_str(c, "cursor"),
	};
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	answer(c, view_tasks(call_store(c), viewer(c), &q, &out, &e), &out, &e);
}

void method_get_task(struct call *c)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	answer(c, view_task(call_store(c), viewer(c), call_str(c, "taskId"), &out, &e), &out, &e);
}
