#include "supervisor/control/methods.h"

#include "runtime/engine/turn/history.h"
#include "supervisor/control/control.h"

void method_compact_context(struct call *c, const struct compact_context_params *p)
{
	engine_compact_context(call_engine(c), c->params, &c->caller, call_engine_reply, c);
}

void method_rollback_thread(struct call *c, const struct rollback_thread_params *p)
{
	engine_rollback_thread(call_engine(c), c->params, &c->caller, call_engine_reply, c);
}
