#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/engine/work/task.h"
#include "runtime/view/view_task.h"
#include "supervisor/control/control.h"

/* The engine checks requests that change a task. */
#define TASK_METHOD(name)                                                                   \
	void method_##name(struct call *c, const struct name##_params *p)                   \
	{                                                                                   \
		engine_##name(call_engine(c), c->params, &c->caller, call_engine_reply, c); \
	}
TASK_METHODS(TASK_METHOD)
#undef TASK_METHOD

void method_list_tasks(struct call *c, const struct list_tasks_params *p)
{
	const struct view_task_query q = {
		.session_id = p->sessionId,
		.thread_id = p->threadId,
		.parent_id = p->parentTaskId,
		.status = p->status,
		.match = p->match,
		.live_only = p->liveOnly.value,
		.limit = param_page_limit(p->limit, 100),
		.cursor = p->cursor,
	};
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	call_reply_or_fail(c, view_tasks(call_store(c), call_visible_uid(c), &q, &out, &e), &out, &e);
}

void method_get_task(struct call *c, const struct get_task_params *p)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	call_reply_or_fail(c, view_task(call_store(c), call_visible_uid(c), p->taskId, &out, &e), &out, &e);
}
