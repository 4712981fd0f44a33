/* What is sent to the editor: replies and session/update. */

#include "supervisor/gateway/acp/acp_private.h"

#include "runtime/base/json_get.h"

#include <stdarg.h>
#include <stdio.h>

void acp_reply(struct acp_server *s, const json_t *id, json_t *result)
{
	s->ops.send(s->ctx, rpc_message_result(RPC_VERSIONED, id, result));
}

void acp_fail(struct acp_server *s, const json_t *id, int code, json_t *data, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	s->ops.send(s->ctx, rpc_message_error(RPC_VERSIONED, id, code, message, data));
}

void acp_fail_with(struct acp_server *s, const json_t *id, const char *what, const json_t *error)
{
	const char *message = json_get_string(error, "message");

	acp_fail(s, id, RPC_INTERNAL_ERROR, json_incref(json_object_get(error, "data")), "%s: %s", what,
		 message ? message : "the daemon gave no reason");
}

void acp_message_update(struct acp_session *s, json_t *update)
{
	struct acp_server *server = s->server;

	server->ops.send(server->ctx,
			 rpc_message_notification(RPC_VERSIONED, "session/update",
						  json_pack("{ss so}", "sessionId", s->id, "update", update)));
}

void acp_message_text(struct acp_session *s, const char *kind, const char *text, size_t n, const char *message_id)
{
	json_t *update = json_pack("{ss s{ss so}}", "sessionUpdate", kind, "content", "type", "text", "text",
				   rpc_message_text(text, n));

	if (message_id)
		json_object_set_new(update, "messageId", json_string(message_id));
	acp_message_update(s, update);
}
