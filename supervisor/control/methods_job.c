#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/engine/work/job.h"
#include "runtime/view/view_job.h"
#include "supervisor/control/control.h"

#include <stdlib.h>

/* What changes a job is the engine's to check. */
#define JOB_METHOD(name)                                                                    \
	void method_##name(struct call *c)                                                  \
	{                                                                                   \
		engine_##name(call_engine(c), c->params, &c->caller, call_engine_reply, c); \
	}
JOB_METHODS(JOB_METHOD)
#undef JOB_METHOD

static uint32_t viewer(const struct call *c) { return call_sees_all(c) ? VIEW_ANY_UID : c->caller.uid; }

static unsigned limit_of(const struct call *c, unsigned otherwise)
{
	uint64_t limit = call_uint(c, "limit", otherwise);

	return limit > 1000 ? 1001 : (unsigned)limit; /* the view says what is allowed */
}

static void answer(struct call *c, int r, const struct buf *out, const struct err *e)
{
	if (r < 0)
		call_fail(c, e);
	else
		call_reply(c, out->data, out->len);
}

void method_list_jobs(struct call *c)
{
	const struct view_job_query q = {
		.session_id = call_str(c, "sessionId"),
		.task_id = call_str(c, "taskId"),
		.status = call_str(c, "status"),
		.live_only = call_bool(c, "liveOnly", false),
		.limit = limit_of(c, 100),
		.cursor = call_str(c, "cursor"),
	};
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	answer(c, view_jobs(call_store(c), viewer(c), &q, &out, &e), &out, &e);
}

void method_get_job(struct call *c)
{
	const char *cursor = call_str(c, "cursor");
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	char *end = NULL;
	unsigned long long from = cursor ? strtoull(cursor, &end, 10) : 0;
	int r;

	if (cursor && (!*cursor || *end))
		r = err_field(&e, "cursor", "is not one of get_job's");
	else
		r = view_job(call_store(c), viewer(c), call_str(c, "jobId"), from, limit_of(c, 1000), &out, &e);
	answer(c, r, &out, &e);
}
