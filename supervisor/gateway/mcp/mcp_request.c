#include "supervisor/gateway/mcp/mcp_request.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_request_state.h"
#include "supervisor/gateway/mcp/mcp_version.h"

#include <string.h>

static const struct mcp_method methods[] = {
#define MCP_METHOD(name, eras, flags, run) { name, eras, flags, run },
#include "supervisor/gateway/mcp/mcp_methods.def"
#undef MCP_METHOD
};

const struct mcp_method *mcp_method_find(const char *name)
{
	for (size_t i = 0; i < countof(methods); i++)
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	return NULL;
}

/* "00-<32 hex>-<16 hex>-<2 hex>". An invalid value is ignored, not rejected, as the trace specification requires. */
static bool is_traceparent(const char *s)
{
	static const char shape[] = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

	for (size_t i = 0; i < sizeof(shape); i++) {
		if (shape[i] == 'x' ? !(s[i] && strchr("0123456789abcdef", s[i])) : s[i] != shape[i])
			return false;
	}
	return strncmp(s + 3, "00000000000000000000000000000000", 32) != 0 &&
	       strncmp(s + 36, "0000000000000000", 16) != 0;
}

/* Reads the members of params._meta that both eras have. */
static void read_meta(struct mcp_call_private *p, const json_t *meta)
{
	json_t *token = json_object_get(meta, "progressToken");
	const char *trace = json_get_string(meta, "traceparent");

	if (json_is_string(token) || json_is_integer(token))
		p->progress_token = json_incref(token);
	if (trace && is_traceparent(trace))
		p->traceparent = mem_strdup(trace);
}

/* A modern request describes its client completely. 1: the call has failed. */
static int read_modern(struct mcp_call_private *p, const json_t *meta)
{
	struct mcp_session *m = p->call.mcp;
	const json_t *version = json_object_get(meta, MCP_META "protocolVersion");
	json_t *caps = json_object_get(meta, MCP_META "clientCapabilities"),
	       *info = json_object_get(meta, MCP_META "clientInfo");

	if (!json_is_string(version)) {
		mcp_call_fail(&p->call, RPC_INVALID_PARAMS, NULL,
			      "params._meta[\"" MCP_META "protocolVersion\"]: is required");
		return 1;
	}
	p->version = mcp_version_modern(json_string_value(version));
	if (!p->version) {
		mcp_call_fail(&p->call, MCP_VERSION_UNSUPPORTED,
			      json_pack("{so sO}", "supported", mcp_version_list(), "requested", version),
			      "the protocol version %.40s %s", json_string_value(version),
			      strcmp(mcp_version_negotiate(json_string_value(version)), json_string_value(version)) == 0
				      ? "begins with initialize"
				      : "is not spoken here");
		return 1;
	}
	if (!json_is_object(caps)) {
		mcp_call_fail(&p->call, RPC_INVALID_PARAMS, NULL,
			      "params._meta[\"" MCP_META "clientCapabilities\"]: is required, an object");
		return 1;
	}
	p->client_caps = json_incref(caps);
	p->log_level = mcp_log_level(json_string_value(json_object_get(meta, MCP_META "logLevel")));
	m->modern = true;
	if (!m->client_info && json_is_object(info))
		m->client_info = json_incref(info);
	if (!m->client_caps)
		m->client_caps = json_incref(caps);
	return 0;
}

/* Reads the state of the second and later rounds of a call. 1: the call has failed. */
static int read_round(struct mcp_call_private *p)
{
	json_t *state = json_object_get(p->call.params, "requestState"),
	       *responses = json_object_get(p->call.params, "inputResponses");
	const struct mcp_request_state s = {
		.key = p->call.mcp->o.config->key,
		.method = p->method->name,
		.params = p->call.params,
		.principal = p->call.mcp->principal,
		.now_s = clock_real_us() / 1000000,
	};
	struct err e = ERR_INIT;

	if (p->era != MCP_MODERN || !(p->method->flags & MCP_MAY_ASK))
		return 0;
	if (responses && !json_is_object(responses)) {
		mcp_call_fail(&p->call, RPC_INVALID_PARAMS, NULL, "inputResponses: expected an object");
		return 1;
	}
	p->responses = responses ? json_incref(responses) : NULL;
	if (!state)
		return 0;
	if (json_is_string(state) && strlen(json_string_value(state)) == json_string_length(state))
		p->call.kept = mcp_request_state_verify(&s, json_string_value(state), &e);
	else
		err_field(&e, "requestState", "expected a string");
	if (p->call.kept)
		return 0;
	mcp_call_fail(&p->call, RPC_INVALID_PARAMS, NULL, "%s: %s", e.field, e.message);
	return 1;
}

static void reject_request(struct mcp_session *m, const struct rpc_message *msg, void *stream, int code,
			   const char *text)
{
	mcp_send(m, stream, rpc_message_error(RPC_VERSIONED, msg->id, code, text, NULL), true);
}

static bool is_under_way(const struct mcp_session *m, const json_t *id, const void *stream)
{
	const struct mcp_call_private *p;

	TAILQ_FOREACH (p, &m->calls, entry)
		if (p->stream == stream && !p->task && json_equal(p->id, id))
			return true;
	return false;
}

void mcp_request(struct mcp_session *m, const struct rpc_message *msg, void *stream, enum mcp_hint hint)
{
	enum mcp_era era = mcp_version_era(msg->method, msg->params, hint, m->version != NULL, m->modern);
	const struct mcp_method *method = mcp_method_find(msg->method);
	const json_t *meta = json_object_get(msg->params, "_meta");

	if (json_is_null(msg->id)) {
		mcp_session_bad(m, stream, NULL, RPC_INVALID_REQUEST, "id: must not be null");
		return;
	}
	if (is_under_way(m, msg->id, stream)) {
		reject_request(m, msg, stream, RPC_INVALID_REQUEST, "id: a request with this id is under way");
		return;
	}
	if (!method || !(method->eras & era)) {
		mem_auto char *text = mem_printf("there is no method %.100s%s", msg->method,
						 method ? " in this version of the protocol" : "");
		reject_request(m, msg, stream, RPC_METHOD_NOT_FOUND, text);
		return;
	}
	if (msg->params && !json_is_object(msg->params)) {
		reject_request(m, msg, stream, RPC_INVALID_PARAMS, "params: expected an object");
		return;
	}
	if (era == MCP_LEGACY && !m->version && !(method->flags & MCP_EARLY)) {
		reject_request(m, msg, stream, RPC_INVALID_REQUEST, "initialize comes first");
		return;
	}
	struct mcp_call_private *p = mcp_call_new(m, method, msg->id, stream);
	p->era = era;
	p->version = m->version;
	p->call.params = msg->params ? json_incref(msg->params) : json_object();
	read_meta(p, meta);
	if (era == MCP_MODERN && read_modern(p, meta))
		return;
	if (read_round(p) == 0)
		mcp_call_run(p);
}
