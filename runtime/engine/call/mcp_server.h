#ifndef BAILIFF_ENGINE_MCP_SERVER_H
#define BAILIFF_ENGINE_MCP_SERVER_H

/*
 * External MCP servers on stdio, whose tools turns can call: add_mcp_server, list_mcp_servers, get_mcp_server,
 * remove_mcp_server, test_mcp_server. Each uid has its own, under names that it chooses. They are facts
 * (mcp_server.added, mcp_server.removed) and documents; the inventory (tool/) has their tools as mcp__NAME__TOOL.
 *
 * add_mcp_server starts the server once in a sandbox (`bailiff-tool mcp list`) and stores the tools that it lists, so
 * that what models are sent does not depend on the server. Each call starts it again, in the sandbox of its turn
 * (tool_process.c). So a server keeps no state between calls, and can do what a command of the turn can.
 */

#include "runtime/engine/core/engine.h"

#include <jansson.h>

struct buf;
struct err;

#define MCP_SERVER_ARGS_MAX 64u

void mcp_server_init(struct engine *engine);
void mcp_server_done(struct engine *engine);
/* Adds the tools of all servers to the inventory. */
void mcp_server_recover(struct engine *engine);

/* The command of the server that has this tool, mcp__NAME__TOOL. New reference; NULL with e. */
json_t *mcp_server_command(struct engine *engine, uint32_t uid, const char *tool, struct err *e);
/* The server's own name of the tool. */
const char *mcp_tool_name(const char *tool);

/* ---- methods ---- */

/* NULL = not given. Replies when the server has listed its tools. */
struct mcp_registration {
	const char *name, *url, *cwd, *profile;
	const json_t *command; /* an array of strings; with `test` not given */
	bool replace;
	bool test; /* of a registered server: nothing is stored */
};
void engine_add_mcp_server(struct engine *engine, const struct mcp_registration *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
void engine_remove_mcp_server(struct engine *engine, const char *name, const struct caller *c, engine_reply_fn fn,
			      void *ctx);
/* {"servers":[…],"nextCursor"?}; limit 1 … 1000, cursor NULL = from the first. */
int engine_list_mcp_servers(struct engine *engine, uint32_t uid, unsigned limit, const char *cursor, struct buf *out,
			    struct err *e);
int engine_get_mcp_server(struct engine *engine, uint32_t uid, const char *name, struct buf *out, struct err *e);

#endif
