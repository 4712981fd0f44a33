#ifndef BAILIFF_ENGINE_MCP_SERVER_H
#define BAILIFF_ENGINE_MCP_SERVER_H

/*
 * External MCP servers, whose tools turns can call: add_mcp_server, list_mcp_servers, get_mcp_server,
 * remove_mcp_server, test_mcp_server. Each uid has its own, under names that it chooses. They are facts
 * (mcp_server.added, mcp_server.removed) and documents; the inventory (tool/) has their tools as mcp__NAME__TOOL.
 *
 * add_mcp_server starts the server once in a sandbox (`bailiff-tool mcp list`, mcp_probe.c) and stores the tools that
 * it lists, so that what models are sent does not depend on the server. Each call is a process of its turn
 * (tool_process.c), `bailiff-tool mcp call`:
 *
 *   a command           starts the server in the sandbox of the turn, and ends it
 *   stateful            the first call leaves it running in the sandbox, later ones of the thread use it
 *                       (supervisor/tool/mcp_runner.h)
 *   with secrets        in another sandbox than the commands of the turn: with the files of the values readable,
 *                       which is why it is not shared with processes that do not ask for that
 *   a URL               in a sandbox that reaches only its host; bailiff-model sends the requests
 */

#include "runtime/engine/core/engine.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

struct buf;
struct requester;
struct err;

#define MCP_SERVERS_MAX 32u /* of a uid */
#define MCP_SERVER_ARGS_MAX 64u
#define MCP_SERVER_ENV_FILES_MAX 16u
#define MCP_SERVER_ARGV_MAX (MCP_SERVER_ARGS_MAX + 2 * MCP_SERVER_ENV_FILES_MAX + 8)

void mcp_server_init(struct engine *engine);
void mcp_server_done(struct engine *engine);
void mcp_server_client_disconnected(struct engine *engine, uint64_t connection);
/* Adds the tools of all servers to the inventory. */
void mcp_server_recover(struct engine *engine);

/* ERR_NOT_FOUND says what to do. */
int mcp_server_find(struct engine *engine, uint32_t uid, const char *name, struct buf *text, struct mcp_server_doc *ret,
		    struct err *e);
/* {"command" or "url","env","envFiles","keyFile","caFile","stateful"} as far as it has them. New reference. */
json_t *mcp_server_settings(const struct mcp_server_doc *d);
/*
 * Changes `where`, parameters of a start, for a server with these settings. *ret_operator: its sandbox has what the
 * operator who registered the server has granted, and not only what the turn has.
 */
int mcp_server_sandbox(struct engine *engine, const json_t *settings, json_t *where, bool *ret_operator, struct err *e);
/* The command of bailiff-tool; tool NULL = it lists the tools; keep NULL = the server ends with it. New reference. */
json_t *mcp_server_argv(struct engine *engine, const json_t *settings, const char *tool, const char *keep);
/* The strings of that array; returns their number. */
static inline size_t mcp_server_strv(const json_t *words, const char *ret[MCP_SERVER_ARGV_MAX])
{
	size_t n = 0;

	while (n < json_array_size(words) && n < MCP_SERVER_ARGV_MAX) {
		ret[n] = json_string_value(json_array_get(words, n));
		n++;
	}
	return n;
}
/* The words of the server's command, quoted for a shell. The caller frees it. */
char *mcp_server_text(const json_t *settings);
/* The same for a call, if the server is one of its session, which an agent may have added. NULL = it is not. */
char *mcp_server_chosen(struct engine *engine, const struct tool_call_doc *call);
/* The command for a call of a tool mcp__NAME__TOOL; `where` as above. `by`, who requested the turn, becomes an operator
 * if the server needs it. New reference; NULL with e. */
json_t *mcp_server_launch(struct engine *engine, const struct tool_call_doc *call, json_t *where, struct requester *by,
			  struct err *e);

/* ---- methods ---- */

/* NULL = not given. Replies when the server has listed its tools. */
struct mcp_registration {
	const char *name, *url, *key_file, *ca_file, *cwd, *profile;
	const char *session_id;        /* only for its turns (mcp_session.h) */
	const json_t *command;         /* an array of strings; this or url, with `test` neither */
	const json_t *env, *env_files; /* objects: variables with their values, and with the files of their values */
	bool stateful, insecure, replace;
	bool test; /* of a registered server: nothing is stored */
};
void engine_add_mcp_server(struct engine *engine, const struct mcp_registration *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
/* session_id NULL = of all sessions. */
void engine_remove_mcp_server(struct engine *engine, const char *name, const char *session_id, const struct caller *c,
			      engine_reply_fn fn, void *ctx);
/* ERR_NOT_ALLOWED unless the caller may change the servers of this session, NULL = of all. */
int mcp_server_authority(const struct caller *c, const char *session_id, struct err *e);
/* {"servers":[…],"nextCursor"?}; limit 1 … 1000, cursor NULL = from the first. */
int engine_list_mcp_servers(struct engine *engine, uint32_t uid, unsigned limit, const char *cursor, struct buf *out,
			    struct err *e);
int engine_get_mcp_server(struct engine *engine, uint32_t uid, const char *name, struct buf *out, struct err *e);

#endif
