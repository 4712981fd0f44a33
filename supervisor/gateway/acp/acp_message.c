/* What is sent to the editor: replies, requests and session/update. */

#include "supervisor/gateway/acp/acp_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "bailiff-"

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
	json_t *data = json_object_get(error, "data");
	bool invalid = json_integer_value(json_object_get(error, "code")) == RPC_INVALID_PARAMS;
	bool unknown = json_text_is(data, "category", "not_found");

	acp_fail(s, id,
		 unknown   ? ACP_NOT_FOUND
		 : invalid ? RPC_INVALID_PARAMS
			   : RPC_INTERNAL_ERROR,
		 json_incref(data), "%s: %s", what, message ? message : "the daemon gave no reason");
}

uint64_t acp_request(struct acp_server *s, const char *method, json_t *params)
{
	json_auto_t *id = acp_request_id(++s->requests);

	s->ops.send(s->ctx, rpc_message_request(RPC_VERSIONED, id, method, params));
	return s->requests;
}

json_t *acp_request_id(uint64_t number)
{
	mem_auto char *text = mem_printf(PREFIX "%llu", (unsigned long long)number);

	return json_string(text);
}

uint64_t acp_request_number(const json_t *id)
{
	const char *text = json_string_value(id);

	return text && strncmp(text, PREFIX, strlen(PREFIX)) == 0 ? strtoull(text + strlen(PREFIX), NULL, 10) : 0;
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
