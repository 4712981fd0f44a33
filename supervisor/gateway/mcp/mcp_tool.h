#ifndef BAILIFF_MCP_TOOL_H
#define BAILIFF_MCP_TOOL_H

/*
 * Tools: a table, mcp_tools.def, and a handler each, in mcp_tool_<noun>.c.
 *
 *   MCP_TOOL(name, title, description, hints, task, input schema, output schema, handler)
 *
 * The schemas are JSON as it is, in MCP_SCHEMA(…), which makes a string of it; MCP_NO_SCHEMA for no output schema.
 * Arguments are checked against the input schema before the handler runs (type, required, properties,
 * additionalProperties, enum, minimum, maximum, minLength, maxLength, minItems, maxItems, items): the handler may rely
 * on it. What is wrong is told to the model as a tool error that names the argument.
 *
 * A tool with task MCP_TASK_MAY can be called as a task: the handler knows nothing of it, the call then simply has no
 * deadline.
 */

#include "supervisor/gateway/mcp/mcp_call.h"

#include <stddef.h>

#define MCP_SCHEMA(...) #__VA_ARGS__
#define MCP_NO_SCHEMA NULL

enum mcp_tool_hints {
	MCP_READS = 1,
	MCP_DESTROYS = 2,
	MCP_REPEATABLE = 4,
	MCP_OPEN_WORLD = 8,
	MCP_IN_FOLDER = 16, /* it works in the client's */
	MCP_HANG_UP = 32    /* HTTP: the stream of a legacy call is closed before the answer, to test reconnection */
};
/*
 * Whether calls can be tasks: MAY: if a legacy client wants it, and for modern ones that can when it takes longer than
 * a second; AT_ONCE: without that second; MUST: only as a task; OWN: the same, but the handler says when
 * (mcp_task_convert).
 */
enum mcp_tool_task { MCP_TASK_NO, MCP_TASK_MAY, MCP_TASK_AT_ONCE, MCP_TASK_MUST, MCP_TASK_OWN };

struct mcp_config;

struct mcp_tool {
	const char *name, *title, *description;
	unsigned hints;
	enum mcp_tool_task task;
	const char *input, *output; /* JSON texts; output may be NULL */
	mcp_call_fn call;
};

#define MCP_TOOL(name, title, description, hints, task, input, output, call) void call(struct mcp_call *c);
#include "supervisor/gateway/mcp/mcp_tools.def"
#undef MCP_TOOL

/* Row i of the list a session sees, or NULL. */
const struct mcp_tool *mcp_tool_at(const struct mcp_config *config, size_t i);
const struct mcp_tool *mcp_tool_find(const struct mcp_config *config, const char *name);
/* As tools/list has it, for a client of this era and version; `structured`: with the output schema. */
json_t *mcp_tool_describe(const struct mcp_tool *t, enum mcp_era era, const char *version, bool structured);

#endif
