/* The lowest part of a session: sending, and the settings that the other files read. */

#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"

#include <string.h>

#define MAX_CALLS 64u

void mcp_send(struct mcp_session *m, void *stream, json_t *message, bool last)
{
	if (m->left)
		json_decref(message);
	else
		m->o.out.send(m->o.ctx, stream, message, last);
}

/* An error without a usable request id. MCP's schemas do not allow a null id, but allow it to be omitted. */
void mcp_session_bad(struct mcp_session *m, void *stream, json_t *id, int code, const char *text)
{
	json_t *message = rpc_message_error(RPC_VERSIONED, id, code, text, NULL);

	if (json_is_null(json_object_get(message, "id")))
		json_object_del(message, "id");
	mcp_send(m, stream, message, true);
}

bool mcp_is_behind(const struct mcp_session *m) { return m->o.out.lags && m->o.out.lags(m->o.ctx); }

bool mcp_full(const struct mcp_session *m) { return m->o.out.full && m->o.out.full(m->o.ctx); }

unsigned mcp_session_max_calls(const struct mcp_session *m)
{
	return m->o.config->max_calls ? m->o.config->max_calls : MAX_CALLS;
}

const struct mcp_config *mcp_session_config(const struct mcp_session *m) { return m->o.config; }

struct mcp_client_state *mcp_session_client_state(struct mcp_session *m) { return m->memory; }

const char *mcp_session_version(const struct mcp_session *m) { return m->version; }

json_t *mcp_server_info(void)
{
	return json_pack("{ss ss ss}", "name", "bailiff", "title", "bailiff", "version", BAILIFF_VERSION);
}

int mcp_log_level(const char *name)
{
	static const char *const levels[] = { "debug", "info",     "notice", "warning",
					      "error", "critical", "alert",  "emergency" };

	for (size_t i = 0; name && i < countof(levels); i++)
		if (strcmp(levels[i], name) == 0)
			return (int)i;
	return -1;
}
