/* Registered MCP servers. Each uid has its own; root sees and changes only root's. */

#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/engine/call/mcp_server.h"

int method_add_mcp_server(struct call *c, const struct add_mcp_server_params *p, struct buf *out, struct err *e)
{
	const struct mcp_registration r = { .name = p->name,
					    .session_id = p->sessionId,
					    .url = p->url,
					    .cwd = p->cwd,
					    .profile = p->profile,
					    .command = p->command,
					    .key_file = p->keyFile,
					    .ca_file = p->caFile,
					    .env = p->env,
					    .env_files = p->envFiles,
					    .stateful = p->stateful.value,
					    .insecure = p->insecure.value,
					    .replace = p->replace.value };

	engine_add_mcp_server(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_test_mcp_server(struct call *c, const struct test_mcp_server_params *p, struct buf *out, struct err *e)
{
	const struct mcp_registration r = { .name = p->name, .cwd = p->cwd, .profile = p->profile, .test = true };

	engine_add_mcp_server(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_list_mcp_servers(struct call *c, const struct list_mcp_servers_params *p, struct buf *out, struct err *e)
{
	return engine_list_mcp_servers(call_engine(c), c->caller.uid, param_page_limit(p->limit, 100), p->cursor, out,
				       e) < 0
		       ? -1
		       : CALL_REPLY;
}

int method_get_mcp_server(struct call *c, const struct get_mcp_server_params *p, struct buf *out, struct err *e)
{
	return engine_get_mcp_server(call_engine(c), c->caller.uid, p->name, out, e) < 0 ? -1 : CALL_REPLY;
}

int method_remove_mcp_server(struct call *c, const struct remove_mcp_server_params *p, struct buf *out, struct err *e)
{
	engine_remove_mcp_server(call_engine(c), p->name, p->sessionId, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}
