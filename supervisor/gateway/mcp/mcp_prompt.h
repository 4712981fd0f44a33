#ifndef BAILIFF_MCP_PROMPT_H
#define BAILIFF_MCP_PROMPT_H

/*
 * Prompts: a table, mcp_prompts.def.
 *
 *   MCP_PROMPT(name, title, description, arguments, get, complete)
 *
 * `arguments` is a JSON array in MCP_SCHEMA(…): [{"name": …, "description": …, "required": true}]. They are checked
 * before `get` runs, which ends the call with {description?, messages: [{role, content}]}; mcp_prompt_finish does that
 * for one text. `complete` is as for resources, or NULL.
 */

#include "supervisor/gateway/mcp/mcp_call.h"

#include <stddef.h>

struct mcp_config;

struct mcp_prompt {
	const char *name, *title, *description;
	const char *arguments; /* JSON text */
	mcp_call_fn get, complete;
};

#define MCP_PROMPT(name, title, description, arguments, get, complete) void get(struct mcp_call *c);
#include "supervisor/gateway/mcp/mcp_prompts.def"
#undef MCP_PROMPT
void mcp_prompt_complete(struct mcp_call *c);

/* Ends the call with one user message. */
void mcp_prompt_finish(struct mcp_call *c, const char *description, const char *text);
/* The value of an argument; "" if it was not given. */
const char *mcp_prompt_argument(const struct mcp_call *c, const char *name);

#endif
