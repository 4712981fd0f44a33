#ifndef BAILIFF_ENGINE_MCP_SESSION_H
#define BAILIFF_ENGINE_MCP_SESSION_H

/*
 * MCP servers of one session (add_mcp_server with sessionId), such as those that an editor configures. They are kept in
 * memory and belong to the connection that added them, as registered tools do: they leave with it, and a client adds
 * them again after a restart of the runtime. Their calls run in the sandbox that the turn asks for, but not together
 * with its commands, which could read the values of their variables. They get no right that the turn has not; so agents
 * may add them. The values are in no event.
 */

#include "runtime/base/strmap.h"
#include "runtime/engine/core/core.h"

#include <jansson.h>

struct mcp_server_state {
	struct strmap probes;     /* process id → struct probe (mcp_probe.c) */
	struct strmap of_session; /* "UID SESSION NAME" → struct mcp_session_server */
};

struct mcp_session_server {
	char name[ID_SIZE], session_id[ID_SIZE];
	struct requester by;
	uint64_t connection;
	json_t *settings; /* as mcp_server_settings; owned */
};

#define MCP_SESSION_SERVERS_MAX 64u /* of a uid */

const struct mcp_session_server *mcp_session_find(struct engine *engine, uint32_t uid, const char *session_id,
						  const char *name);
size_t mcp_session_count(struct engine *engine, uint32_t uid);
/* Adds a copy of `s` (by reference: settings) with its tools, or replaces the session's server of this name. */
void mcp_session_add(struct engine *engine, const struct mcp_session_server *s, const json_t *tools,
		     struct transaction *tx);
/* ERR_NOT_FOUND. Adds mcp_server.removed. */
int mcp_session_remove(struct engine *engine, const struct requester *by, const char *session_id, const char *name,
		       struct transaction *tx, struct err *e);
void mcp_session_client_disconnected(struct engine *engine, uint64_t connection);
void mcp_session_done(struct engine *engine);

#endif
