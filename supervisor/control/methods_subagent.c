#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/engine/work/subagent.h"
#include "runtime/view/view.h"
#include "runtime/view/view_subagent.h"
#include "supervisor/control/control.h"

#define SUBAGENT_METHOD(name)                                                               \
	void method_##name(struct call *c, const struct name##_params *p)                   \
	{                                                                                   \
		engine_##name(call_engine(c), c->params, &c->caller, call_engine_reply, c); \
	}
SUBAGENT_METHODS(SUBAGENT_METHOD)

void method_list_subagents(struct call *c, const struct list_subagents_params *p)
{
	const struct view_subagent_query q = {
		.session_id = p->sessionId,
		.parent_thread_id = p->parentThreadId,
		.descendants = p->descendants.value,
		.limit = param_page_limit(p->limit, 100),
		.cursor = p->cursor,
	};
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (q.descendants && !q.parent_thread_id)
		err_field(&e, "descendants", "needs parentThreadId");
	else if (view_subagents(call_store(c), call_visible_uid(c), &q, &out, &e) == 0) {
		call_reply(c, out.data, out.len);
		return;
	}
	call_fail(c, &e);
}
