#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/engine/work/subagent.h"
#include "runtime/view/view.h"
#include "runtime/view/view_subagent.h"
#include "supervisor/control/control.h"

#define SUBAGENT_METHOD(name)                                                               \
	void method_##name(struct call *c)                                                  \
	{                                                                                   \
		engine_##name(call_engine(c), c->params, &c->caller, call_engine_reply, c); \
	}
SUBAGENT_METHODS(SUBAGENT_METHOD)

void method_list_subagents(struct call *c)
{
	uint64_t limit = call_uint(c, "limit", 100);
	const struct view_subagent_query q = {
		.session_id = call_str(c, "sessionId"),
		.parent_thread_id = call_str(c, "parentThreadId"),
		.descendants = call_bool(c, "descendants", false),
		.limit = limit > 1000 ? 1001 : (unsigned)limit,
		.cursor = call_str(c, "cursor"),
	};
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (q.descendants && !q.parent_thread_id)
		err_field(&e, "descendants", "needs parentThreadId");
	else if (view_subagents(call_store(c), call_sees_all(c) ? VIEW_ANY_UID : c->caller.uid, &q, &out, &e) == 0) {
		call_reply(c, out.data, out.len);
		return;
	}
	call_fail(c, &e);
}
