#ifndef BAILIFF_MCP_TOOL_H
#define BAILIFF_MCP_TOOL_H

/*
 * Tools: rows of runtime/engine/tool/tools.def, the table that the execution loop uses too, and a handler each, in
 * mcp_tool_<noun>.c. Arguments are checked against the input schema before the handler runs, so the handler may rely on
 * it. Violations are returned to the model as a tool error that names the argument.
 *
 * A tool with task MCP_TASK_MAY can be called as a task. The handler need not know: the call just has no deadline.
 */

#include "runtime/base/tool_flags.h"
#include "supervisor/gateway/mcp/mcp_call.h"

#include <stddef.h>

#define MCP_SCHEMA(...) #__VA_ARGS__
#define MCP_NO_SCHEMA NULL

/* A hint in addition to enum tool_flags. HTTP: the stream of a legacy call is closed before the response, to test
 * reconnection. */
#define MCP_HANG_UP 1024u
/*
 * Whether calls can be tasks. MAY: if a legacy client requests it, and for modern clients that support tasks when the
 * call takes longer than a second. AT_ONCE: like MAY, without that second. MUST: only as a task. OWN: like MUST, but
 * the handler decides when (mcp_task_convert).
 */
enum mcp_tool_task { MCP_TASK_NO, MCP_TASK_MAY, MCP_TASK_AT_ONCE, MCP_TASK_MUST, MCP_TASK_OWN };

struct mcp_config;

struct mcp_tool {
	const char *name, *title, *description;
	unsigned hints; /* enum tool_flags */
	enum mcp_tool_task task;
	const char *input, *output; /* JSON; output may be NULL */
	mcp_call_fn call;
};

#define MCP_TOOL(name, title, description, hints, task, input, output, call) void call(struct mcp_call *c);
#define SHARED_TOOL(NAME, name, runs, hints, description, input, mcp, title, task, output, call) \
	void call(struct mcp_call *c);
#include "runtime/engine/tool/tools.def"

const struct mcp_tool *mcp_tool_find(const struct mcp_config *config, const char *name);

#endif
