#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "supervisor/control/control.h"

#include <string.h>

void method_get_tool_inventory(struct call *c)
{
	buf_auto struct buf out = BUF_INIT;

	engine_tool_inventory(call_engine(c), call_str(c, "sessionId"), &c->caller, &out);
	call_reply(c, out.data, out.len);
}

void method_register_tools(struct call *c)
{
	engine_register_tools(call_engine(c), json_object_get(c->params, "tools"), call_str(c, "sessionId"), &c->caller,
			      call_engine_reply, c);
}

void method_invoke_tool(struct call *c)
{
	const struct tool_request r = {
		.turn_id = call_str(c, "turnId"),
		.tool = call_str(c, "toolName"),
		.call_id = call_str(c, "toolCallId"),
		.arguments = call_obj(c, "arguments"),
		.timeout_ms = call_uint(c, "timeoutMs", LIMIT_NONE),
	};

	engine_invoke_tool(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

void method_report_tool_call(struct call *c)
{
	const struct tool_report r = {
		.call_id = call_str(c, "toolCallId"),
		.turn_id = call_str(c, "turnId"),
		.tool = call_str(c, "toolName"),
		.status = call_str(c, "status"),
		.preview = call_str(c, "preview"),
		.category = call_str(c, "category"),
		.message = call_str(c, "message"),
		.advice = call_str(c, "advice"),
		.arguments = call_obj(c, "arguments"),
		.result = json_object_get(c->params, "result"),
		.artifacts = json_object_get(c->params, "artifactRefs"),
		.retryable = call_bool(c, "retryable", false),
	};

	engine_report_tool_call(call_engine(c), &r, &c->caller, call_engine_reply, c);
}
