/*
 * One client: the handshake of both eras, dispatch of messages, and the connection to the daemon.
 *
 * The daemon is connected when the first call needs it, not before: clients start gateways that they never use. A lost
 * connection is not an end either; the next call reconnects and resumes the same daemon session.
 *
 * Loops over calls go by serial (mcp_call_after) where the body may end calls. Input is bounded by the number of calls
 * and by the bytes of their messages (mcp_session_busy): a transport stops reading then, so a client that does not wait
 * for replies is slowed down instead of rejected.
 */

#include "supervisor/gateway/mcp/mcp_session.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_client_state.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_request_state.h"
#include "supervisor/gateway/mcp/mcp_resource.h"
#include "supervisor/gateway/mcp/mcp_task.h"
#include "supervisor/gateway/mcp/mcp_version.h"
#include "supervisor/gateway/mcp/mcp_workspace.h"

#include <event2/event.h>
#include <string.h>

/* ---- handshake ---- */

static const char instructions[] =
	"Runs commands in a sandbox and records them. exec runs a shell command in the working directory; policy "
	"decides "
	"what it may read, write and reach, and denials are reported in the result. Commands share /tmp and "
	"localhost. Long-running commands: use background, then wait and read_output.";

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

	if (!json_is_string(asked))
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "protocolVersion: expected a string");
	if (m->version)
		return mcp_call_fail(c, RPC_INVALID_REQUEST, NULL, "this session is already initialized");
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

	if (level < 0)
		return mcp_call_fail(
			c, RPC_INVALID_PARAMS, NULL,
			"level: expected debug, info, notice, warning, error, critical, alert or emergency");
	c->mcp->log_level = level;
	mcp_call_finish(c, json_object());
}

#define BATCH_MAX 100u
#define MAX_WEIGHT (64u << 20)
#define MAX_PARKED 256u /* in addition to those that run; above this, the client's input is paused */

void mcp_session_free(struct mcp_session *m)
{
	struct mcp_call_private *p;

	if (!m)
		return;
	/* From here on nothing is sent, and no parked call is started. */
	m->left = true;
	event_del(&m->unpark);
	mcp_tasks_detach(m);
	while ((p = TAILQ_FIRST(&m->calls)))
		mcp_call_cancel(p);
	mcp_tasks_free(m);
	mcp_client_state_free(m->memory, m->up);
	gateway_session_free(m->up);
	json_decref(m->client_caps);
	json_decref(m->client_info);
	json_decref(m->subscribed);
	json_decref(m->unsent);
	json_decref(m->unsent_tasks);
	free(m->root);
	free(m->transport);
	free(m->principal);
	free(m);
}

/* ---- the daemon ---- */

static void on_ready(void *ctx, const struct err *failed)
{
	struct mcp_session *m = ctx;
	struct mcp_call_private *p;
	uint64_t at = 0;

	m->up_failed = failed != NULL;
	for (p = mcp_call_after(m, 0); p && failed; p = mcp_call_after(m, at)) {
		at = p->serial;
		if (p->parked)
			mcp_call_fail(&p->call, RPC_INTERNAL_ERROR, NULL, "%s", failed->message);
	}
	if (!failed)
		mcp_call_unpark(m);
}

static void on_event(void *ctx, struct jval event)
{
	struct mcp_session *m = ctx;
	struct mcp_call_private *p;
	uint64_t at = 0;

	for (p = mcp_call_after(m, 0); p; p = mcp_call_after(m, at)) {
		at = p->serial;
		mcp_call_event(p, event);
	}
	mcp_resource_event(m, event);
}

static int connect_daemon(struct mcp_session *m, struct err *e)
{
	static const struct gateway_session_ops ops = { .ready = on_ready, .event = on_event };
	const json_t *elicits = json_object_get(m->client_caps, "elicitation");
	char folder[PATH_MAX];
	struct err ignored = ERR_INIT;
	const struct gateway_session_options o = {
		.base = m->o.base,
		.client_name = json_get_string(m->client_info, "name"),
		.client_version = json_get_string(m->client_info, "version"),
		.native_protocol = "mcp",
		.transport = m->o.transport,
		.asks = json_is_object(elicits),
		.session_id = m->o.config->session_id,
		.folder = mcp_workspace_folder(m, m->root, folder, &ignored) == 0 ? folder : NULL,
	};

	if (!m->up)
		return gateway_session_open(&o, &ops, m, &m->up, e);
	if (!m->up_failed)
		return 0;
	if (gateway_session_reconnect(m->up, e) < 0)
		return -1;
	m->up_failed = false;
	return 0;
}

/* Connects mcp_call.c to the modules above it. */
static const struct mcp_call_ops call_ops = {
	.connect = connect_daemon,
	.event = mcp_question_event,
	.drop_questions = mcp_question_done,
	.can_be_task = mcp_task_possible,
	.task_ended = mcp_task_ended,
	.task_add_process = mcp_task_owns,
	.task_asks = mcp_task_asks,
};

static void on_unpark(evutil_socket_t fd, short what, void *arg) { mcp_call_unpark(arg); }

struct mcp_session *mcp_session_new(const struct mcp_session_options *o)
{
	struct mcp_session *m = mem_zalloc(1, sizeof(*m));

	m->o = *o;
	m->call_ops = &call_ops;
	m->o.transport = m->transport = mem_strdup(o->transport);
	m->o.principal = m->principal = mem_strdup(o->principal ? o->principal : "");
	m->log_level = mcp_log_level("info");
	m->subscribed = json_object();
	m->unsent = json_object();
	m->unsent_tasks = json_object();
	m->memory = mcp_client_state_new();
	evtimer_assign(&m->unpark, o->base, on_unpark, m);
	TAILQ_INIT(&m->calls);
	TAILQ_INIT(&m->tasks);
	return m;
}

/* ---- messages ---- */

void mcp_session_shutdown(struct mcp_session *m) { mcp_listen_end(m); }

static struct mcp_call_private *find_call(struct mcp_session *m, const json_t *id)
{
	struct mcp_call_private *p;

	TAILQ_FOREACH (p, &m->calls, entry)
		if (json_equal(p->id, id))
			return p;
	return NULL;
}

/*
 * Modern clients that share a session over HTTP cancel a request by closing its connection. Their ids may collide, so a
 * cancellation by id is ignored.
 */
static void on_notification(struct mcp_session *m, const struct rpc_message *msg, bool shared)
{
	const json_t *id = json_object_get(msg->params, "requestId");

	if (strcmp(msg->method, "notifications/roots/list_changed") == 0 && !shared)
		mcp_roots_forget(m);
	if (strcmp(msg->method, "notifications/cancelled") != 0 || !id || shared)
		return; /* "initialized" and others need no action */
	struct mcp_call_private *p = find_call(m, id);
	if (p && !p->task && strcmp(p->method->name, "initialize") != 0)
		mcp_call_cancel(p);
}

void mcp_session_note_size(struct mcp_session *m, size_t bytes) { m->next_weight = bytes; }

/* A batch: only version 2025-03-26 has them, and they are accepted only where replies need not be sent together. */
static bool feed_batch(struct mcp_session *m, json_t *batch, const void *stream)
{
	json_t *one;
	size_t i;

	if (!json_is_array(batch) || stream || !m->version || strcmp(m->version, "2025-03-26") != 0 ||
	    !json_array_size(batch) || json_array_size(batch) > BATCH_MAX)
		return false;
	json_array_foreach (batch, i, one)
		mcp_session_feed(m, json_is_array(one) ? json_null() : json_incref(one), NULL, MCP_HINT_NONE);
	json_decref(batch);
	return true;
}

static void mcp_request(struct mcp_session *m, const struct rpc_message *msg, void *stream, enum mcp_hint hint);

void mcp_session_feed(struct mcp_session *m, json_t *message, void *stream, enum mcp_hint hint)
{
	rpc_message_auto struct rpc_message msg = { 0 };
	struct rpc_problem bad = { 0 };

	if (feed_batch(m, message, stream))
		return;
	if (rpc_message_of(message, RPC_VERSIONED, &msg, &bad) < 0) {
		mcp_session_bad(m, stream, bad.id, bad.code, bad.message);
		rpc_problem_done(&bad);
		return;
	}
	switch (msg.kind) {
	case RPC_REQUEST: mcp_request(m, &msg, stream, hint); return;
	case RPC_NOTIFICATION: on_notification(m, &msg, stream && !m->version); break;
	case RPC_RESPONSE: mcp_question_response(m, msg.id, msg.result, msg.error); break;
	}
	if (stream)
		mcp_send(m, stream, NULL, true);
}

void mcp_session_stream_closed(struct mcp_session *m, void *stream, bool cancel)
{
	struct mcp_call_private *p;
	uint64_t at = 0;

	for (p = mcp_call_after(m, 0); p; p = mcp_call_after(m, at)) {
		at = p->serial;
		if (p->stream != stream)
			continue;
		p->stream = NULL;
		if (cancel)
			mcp_call_cancel(p);
	}
}

bool mcp_session_busy(const struct mcp_session *m)
{
	return m->ncalls >= mcp_session_max_calls(m) + MAX_PARKED || m->weight > MAX_WEIGHT;
}

bool mcp_session_is_legacy(const struct mcp_session *m) { return m->version != NULL; }

/* ---- deferred notifications ---- */

void mcp_session_drained(struct mcp_session *m)
{
	const char *uri;
	json_t *yes;
	void *next;

	json_object_foreach_safe (m->unsent, next, uri, yes) {
		if (mcp_is_behind(m))
			return;
		mcp_listen_notify_updated(m, uri);
		json_object_del(m->unsent, uri);
	}
	mcp_tasks_notify(m);
	mcp_call_unpark(m);
}

/* ---- dispatch of requests ---- */

static const struct mcp_method methods[] = {
#define MCP_METHOD(name, eras, flags, run) { name, eras, flags, run },
#include "supervisor/gateway/mcp/mcp_methods.def"
#undef MCP_METHOD
};

static const struct mcp_method *mcp_method_find(const char *name)
{
	for (size_t i = 0; i < countof(methods); i++)
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	return NULL;
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
				      ? "starts with initialize"
				      : "is not supported");
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
	/* The daemon gets one name for the session; of several clients that share it, the first one's. */
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

/* Ids are unique within a stream. Modern clients that share a session over HTTP choose them independently. */
static bool is_under_way(const struct mcp_session *m, const json_t *id, const void *stream)
{
	const struct mcp_call_private *p;

	TAILQ_FOREACH (p, &m->calls, entry)
		if (p->stream == stream && !p->task && json_equal(p->id, id))
			return true;
	return false;
}

/* Creates and runs a call for a request, or rejects it. */
static void mcp_request(struct mcp_session *m, const struct rpc_message *msg, void *stream, enum mcp_hint hint)
{
	enum mcp_era era = mcp_version_era(msg->method, msg->params, hint, m->version != NULL, m->modern);
	const struct mcp_method *method = mcp_method_find(msg->method);
	const json_t *meta = json_object_get(msg->params, "_meta");

	if (json_is_null(msg->id))
		return mcp_session_bad(m, stream, NULL, RPC_INVALID_REQUEST, "id: must not be null");
	if (is_under_way(m, msg->id, stream))
		return reject_request(m, msg, stream, RPC_INVALID_REQUEST, "id: a request with this id is in progress");
	if (!method || !(method->eras & era)) {
		mem_auto char *text = mem_printf("there is no method %.100s%s", msg->method,
						 method ? " in this version of the protocol" : "");
		reject_request(m, msg, stream, RPC_METHOD_NOT_FOUND, text);
		return;
	}
	if (msg->params && !json_is_object(msg->params))
		return reject_request(m, msg, stream, RPC_INVALID_PARAMS, "params: expected an object");
	if (era == MCP_LEGACY && !m->version && !(method->flags & MCP_EARLY))
		return reject_request(m, msg, stream, RPC_INVALID_REQUEST, "initialize must come first");
	struct mcp_call_private *p = mcp_call_new(m, method, msg->id, stream);
	p->era = era;
	p->version = m->version;
	p->call.params = msg->params ? json_incref(msg->params) : json_object();
	/* Reads the members of params._meta that both eras have. */
	json_t *token = json_object_get(meta, "progressToken");
	const char *trace = json_get_string(meta, "traceparent");
	if (json_is_string(token) || json_is_integer(token))
		p->progress_token = json_incref(token);
	if (trace && rpc_message_is_traceparent(trace))
		p->traceparent = mem_strdup(trace);
	if (era == MCP_MODERN && read_modern(p, meta))
		return;
	if (read_round(p) == 0)
		mcp_call_run(p);
}
