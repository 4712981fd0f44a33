/*
 * Handshake and dispatch. Requests are answered in any order; session/prompt is answered at the end of its turn, as the
 * protocol requires.
 */

#include "supervisor/gateway/acp/acp_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"

#include <string.h>

#define PROTOCOL_VERSION 1
#define NAME_MAX_BYTES 200

static const struct {
	const char *name;
	bool of_session;
	void (*run)(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params);
} methods[] = {
#define METHOD(name, of_session, run) { name, of_session, run },
#include "supervisor/gateway/acp/acp_methods.def"
#undef METHOD
};

/* ---- the handshake ---- */

static char *name_of(const json_t *info, const char *key)
{
	const char *name = json_get_string(info, key);

	return name ? mem_strndup(name, strnlen(name, NAME_MAX_BYTES)) : NULL;
}

void acp_server_initialize(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params)
{
	const json_t *info = json_object_get(params, "clientInfo"),
		     *can = json_object_get(params, "clientCapabilities");

	if (!json_is_integer(json_object_get(params, "protocolVersion")))
		return acp_fail(s, id, RPC_INVALID_PARAMS, NULL, "protocolVersion: must be an integer");
	free(s->client_name);
	free(s->client_version);
	s->client_name = name_of(info, "name");
	s->client_version = name_of(info, "version");
	s->terminals = json_get_flag(json_object_get(can, "_meta"), "terminal_output");
	s->forms = json_is_object(json_object_get(json_object_get(can, "elicitation"), "form"));
	s->buffers = json_get_flag(json_object_get(can, "fs"), "readTextFile");
	s->initialized = true;
	acp_reply(s, id,
		  json_pack("{si s{sb s{sb sb sb} s{sb sb} s{s{} s{} s{}}} s{ss ss ss} s[]}", "protocolVersion",
			    PROTOCOL_VERSION, "agentCapabilities", "loadSession", 1, "promptCapabilities", "image", 1,
			    "audio", 0, "embeddedContext", 1, "mcpCapabilities", "http", 0, "sse", 0,
			    "sessionCapabilities", "list", "resume", "close", "agentInfo", "name", "bailiff", "title",
			    "bailiff", "version", BAILIFF_VERSION, "authMethods"));
}

void acp_server_authenticate(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params)
{
	acp_fail(s, id, RPC_INVALID_PARAMS, NULL,
		 "methodId: there are no authentication methods; keys of models are set with bailiff model add");
}

/* ---- dispatch ---- */

static struct acp_session *find_session(const struct acp_server *s, const json_t *params)
{
	const char *id = json_get_string(params, "sessionId");
	struct acp_session *one;

	TAILQ_FOREACH (one, &s->sessions, entry)
		if (id && one->opening == ACP_OPEN && strcmp(one->id, id) == 0)
			return one;
	return NULL;
}

static void dispatch_request(struct acp_server *s, const struct rpc_message *m)
{
	for (size_t i = 0; i < countof(methods); i++) {
		struct acp_session *session = NULL;

		if (strcmp(methods[i].name, m->method) != 0)
			continue;
		if (!s->initialized && methods[i].run != acp_server_initialize)
			return acp_fail(s, m->id, RPC_INVALID_REQUEST, NULL, "initialize must be the first request");
		if (methods[i].of_session && !(session = find_session(s, m->params)))
			return acp_fail(
				s, m->id, ACP_NOT_FOUND, NULL,
				"sessionId: there is no such session; open it with session/new or session/load");
		return methods[i].run(s, session, m->id, m->params);
	}
	acp_fail(s, m->id, RPC_METHOD_NOT_FOUND, NULL, "the method %.100s is not supported", m->method);
}

void acp_server_feed(struct acp_server *s, const char *line, size_t len)
{
	rpc_message_auto struct rpc_message m = { 0 };
	struct rpc_problem problem = { 0 };
	struct acp_session *session;

	if (rpc_message_parse(line, len, RPC_VERSIONED, &m, &problem) < 0) {
		acp_fail(s, problem.id, problem.code, NULL, "%s", problem.message);
		rpc_problem_done(&problem);
	} else if (m.kind == RPC_REQUEST) {
		dispatch_request(s, &m);
	} else if (m.kind == RPC_RESPONSE) {
		uint64_t number = acp_request_number(m.id);

		if (number && !acp_buffer_response(s, number, m.result))
			acp_question_response(s, number, m.result, m.error);
	} else if (strcmp(m.method, "session/cancel") == 0 && (session = find_session(s, m.params))) {
		acp_session_cancel(session);
	}
}

void acp_server_too_long(struct acp_server *s)
{
	acp_fail(s, NULL, RPC_INVALID_REQUEST, NULL, "a message of more than 16 MiB");
}

struct acp_server *acp_server_new(struct event_base *base, const struct acp_options *o,
				  const struct acp_server_ops *ops, void *ctx)
{
	struct acp_server *s = mem_zalloc(1, sizeof(*s));

	*s = (struct acp_server){ .base = base, .o = *o, .ops = *ops, .ctx = ctx };
	TAILQ_INIT(&s->sessions);
	TAILQ_INIT(&s->lists);
	return s;
}

void acp_server_free(struct acp_server *s)
{
	struct acp_session *one;
	struct acp_list *list;

	while ((one = TAILQ_FIRST(&s->sessions)))
		acp_session_free(one);
	while ((list = TAILQ_FIRST(&s->lists)))
		acp_list_free(list);
	free(s->client_name);
	free(s->client_version);
	free(s);
}
