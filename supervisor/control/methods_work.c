/* Tasks, jobs and subagents. Requests that change them are FORWARDED rows of methods.def: the engine checks them. */

#include "supervisor/control/methods.h"

#include "runtime/base/err.h"
#include "runtime/engine/work/work.h"
#include "runtime/view/view.h"
#include "runtime/view/view_job.h"
#include "runtime/view/view_subagent.h"
#include "runtime/view/view_task.h"

#include <stdlib.h>

int method_list_tasks(struct call *c, const struct list_tasks_params *p, struct buf *out, struct err *e)
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

	return view_tasks(call_store(c), call_visible_uid(c), &q, out, e);
}

int method_get_task(struct call *c, const struct get_task_params *p, struct buf *out, struct err *e)
{
	return view_task(call_store(c), call_visible_uid(c), p->taskId, out, e);
}

int method_list_jobs(struct call *c, const struct list_jobs_params *p, struct buf *out, struct err *e)
{
	const struct view_job_query q = {
		.session_id = p->sessionId,
		.task_id = p->taskId,
		.status = p->status,
		.live_only = p->liveOnly.value,
		.limit = param_page_limit(p->limit, 100),
		.cursor = p->cursor,
	};

	return view_jobs(call_store(c), call_visible_uid(c), &q, out, e);
}

/* The cursor of a job's items is the index of the next one. */
int method_get_job(struct call *c, const struct get_job_params *p, struct buf *out, struct err *e)
{
	char *end = NULL;
	unsigned long long from = p->cursor ? strtoull(p->cursor, &end, 10) : 0;

	if (p->cursor && (!*p->cursor || *end))
		return err_field(e, "cursor", "not a cursor of get_job");
	return view_job(call_store(c), call_visible_uid(c), p->jobId, from, param_page_limit(p->limit, 1000), out, e);
}

int method_list_subagents(struct call *c, const struct list_subagents_params *p, struct buf *out, struct err *e)
{
	const struct view_subagent_query q = {
		.session_id = p->sessionId,
		.parent_thread_id = p->parentThreadId,
		.descendants = p->descendants.value,
		.limit = param_page_limit(p->limit, 100),
		.cursor = p->cursor,
	};

	if (q.descendants && !q.parent_thread_id)
		return err_field(e, "descendants", "needs parentThreadId");
	return view_subagents(call_store(c), call_visible_uid(c), &q, out, e);
}

int method_wait_subagents(struct call *c, const struct wait_subagents_params *p, struct buf *out, struct err *e)
{
	engine_wait_subagents(call_engine(c), c->params, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}
