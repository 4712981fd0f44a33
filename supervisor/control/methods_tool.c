#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "supervisor/control/control.h"

#include <string.h>

void method_get_tool_inventory(struct call *c, const struct get_tool_inventory_params *p)
{
	buf_auto struct buf out = BUF_INIT;

	engine_tool_inventory(call_engine(c), p->sessionId, &c->caller, &out);
	call_reply(c, out.data, out.len);
}

void method_register_tools(struct call *c, const struct register_tools_params *p)
{
	engine_register_tools(call_engine(c), p->tools, p->sessionId, &c->caller, call_engine_reply, c);
}

void method_invoke_tool(struct call *c, const struct invoke_tool_params *p)
{
	const struct tool_request r = {
		.turn_id = p->turnId,
		.tool = p->toolName,
		.call_id = p->toolCallId,
		.arguments = p->arguments,
		.timeout_ms = param_uint_or(p->timeoutMs, LIMIT_NONE),
	};

	engine_invoke_tool(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

void method_report_tool_call(struct call *c, const struct report_tool_call_params *p)
{
	const struct tool_report r = {
		.call_id = p->toolCallId,
		.turn_id = p->turnId,
		.tool = p->toolName,
		.status = p->status,
		.preview = p->preview,
		.category = p->category,
		.message = p->message,
		.advice = p->advice,
		.arguments = p->arguments,
		.result = p->result,
		.artifacts = p->artifactRefs,
		.retryable = p->retryable.value,
	};

	engine_report_tool_call(call_engine(c), &r, &c->caller, call_engine_reply, c);
}
