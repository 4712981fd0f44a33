#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/engine/work/job.h"
#include "runtime/view/view_job.h"
#include "supervisor/control/control.h"

#include <stdlib.h>

/* The engine checks requests that change a job. */
#define JOB_METHOD(name)                                                                    \
	void method_##name(struct call *c, const struct name##_params *p)                   \
	{                                                                                   \
		engine_##name(call_engine(c), c->params, &c->caller, call_engine_reply, c); \
	}
JOB_METHODS(JOB_METHOD)
#undef JOB_METHOD

void method_list_jobs(struct call *c, const struct list_jobs_params *p)
{
	const struct view_job_query q = {
		.session_id = p->sessionId,
		.task_id = p->taskId,
		.status = p->status,
		.live_only = p->liveOnly.value,
		.limit = param_page_limit(p->limit, 100),
		.cursor = p->cursor,
	};
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	call_reply_or_fail(c, view_jobs(call_store(c), call_visible_uid(c), &q, &out, &e), &out, &e);
}

void method_get_job(struct call *c, const struct get_job_params *p)
{
	const char *cursor = p->cursor;
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	char *end = NULL;
	unsigned long long from = cursor ? strtoull(cursor, &end, 10) : 0;
	int r;

	if (cursor && (!*cursor || *end))
		r = err_field(&e, "cursor", "is not one of get_job's");
	else
		r = view_job(call_store(c), call_visible_uid(c), p->jobId, from, param_page_limit(p->limit, 1000), &out,
			     &e);
	call_reply_or_fail(c, r, &out, &e);
}
