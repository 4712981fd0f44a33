#include "runtime/base/json_get.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_task.h"
#include "supervisor/gateway/mcp/mcp_version.h"

#include <string.h>

static const char instructions[] =
	"Runs commands in a sandbox and keeps a record of them. exec runs a shell command in the working directory; "
	"what it may read, write and "
	"reach is decided by policy, and what was refused is told in the result. Each command has a "
	"/tmp and a localhost of its own. Long commands: background, then wait and read_output.";

static json_t *server_capabilities(const struct mcp_call_private *p)
{
	json_t *caps = json_pack("{s{sb} s{sb sb} s{sb} s{}}", "tools", "listChanged", 1, "resources", "subscribe", 1,
				 "listChanged", 1, "prompts", "listChanged", 1, "completions");

	json_object_set_new(caps, "logging", json_object());
	if (p->era == MCP_MODERN)
		json_object_set_new(caps, "extensions", json_pack("{s{}}", MCP_TASKS_EXTENSION));
	else if (mcp_version_at_least(p->version, "2025-11-25"))
		json_object_set_new(caps, "tasks",
				    json_pack("{s{} s{} s{s{s{}}}}", "list", "cancel", "requests", "tools", "call"));
	return caps;
}

void mcp_method_initialize(struct mcp_call *c)
{
	struct mcp_session *m = c->mcp;
	const json_t *asked = json_object_get(c->params, "protocolVersion");
	json_t *caps = json_object_get(c->params, "capabilities"), *info = json_object_get(c->params, "clientInfo");

	if (!json_is_string(asked)) {
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "protocolVersion: expected a string");
		return;
	}
	if (m->version) {
		mcp_call_fail(c, RPC_INVALID_REQUEST, NULL, "this session is initialized already");
		return;
	}
	m->version = c->priv->version = mcp_version_negotiate(json_string_value(asked));
	json_decref(m->client_caps);
	json_decref(m->client_info);
	m->client_caps = json_is_object(caps) ? json_incref(caps) : json_object();
	m->client_info = json_is_object(info) ? json_incref(info) : json_object();
	mcp_call_finish(c, json_pack("{ss so so ss}", "protocolVersion", m->version, "capabilities",
				     server_capabilities(c->priv), "serverInfo", mcp_server_info(), "instructions",
				     instructions));
}

void mcp_method_ping(struct mcp_call *c) { mcp_call_finish(c, json_object()); }

void mcp_method_discover(struct mcp_call *c)
{
	mcp_call_finish(c, json_pack("{so so ss}", "supportedVersions", mcp_version_list(), "capabilities",
				     server_capabilities(c->priv), "instructions", instructions));
}

void mcp_method_set_level(struct mcp_call *c)
{
	int level = mcp_log_level(json_get_string(c->params, "level"));

	if (level < 0) {
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL,
			      "level: expected debug, info, notice, warning, error, critical, alert or emergency");
		return;
	}
	c->mcp->log_level = level;
	mcp_call_finish(c, json_object());
}
