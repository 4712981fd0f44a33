#include "supervisor/gateway/mcp/mcp_session.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/mcp/mcp_client_state.h"
#include "supervisor/gateway/mcp/mcp_listen.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_request.h"
#include "supervisor/gateway/mcp/mcp_resource.h"
#include "supervisor/gateway/mcp/mcp_roots.h"
#include "supervisor/gateway/mcp/mcp_task.h"
#include "supervisor/gateway/mcp/mcp_workspace.h"
#include "supervisor/gateway/rpc_message.h"

#include <event2/event.h>
#include <string.h>
#include <sys/random.h>

#define BATCH_MAX 100u
#define MAX_CALLS 64u
#define MAX_WEIGHT (64u << 20)
#define HUMAN_MS 1000u  /* to see a question, read it and press a key */
#define MAX_PARKED 256u /* more than may run; then the client is held back */

/* For tests and for clients with a patience of their own; what is no number of milliseconds is not heeded. */
static unsigned env_ms(const char *name)
{
	const char *v = getenv(name);
	char *end;
	unsigned long ms = v ? strtoul(v, &end, 10) : 0;

	return v && *v && !*end && ms <= 24ul * 3600 * 1000 ? (unsigned)ms : 0;
}

void mcp_config_init(struct mcp_config *c)
{
	*c = (struct mcp_config){
		.heartbeat_ms = env_ms("BAILIFF_MCP_HEARTBEAT_MS"),
		.ask_ms = env_ms("BAILIFF_MCP_ASK_MS"),
		.quick_ms = env_ms("BAILIFF_MCP_QUICK_MS"),
		.human_ms = getenv("BAILIFF_MCP_HUMAN_MS") ? env_ms("BAILIFF_MCP_HUMAN_MS") : HUMAN_MS,
	};
	if (getrandom(c->key, sizeof(c->key), 0) != sizeof(c->key))
		abort();
}

static void on_unpark(evutil_socket_t fd, short what, void *arg) { mcp_call_unpark(arg); }

struct mcp_session *mcp_session_new(const struct mcp_session_options *o)
{
	struct mcp_session *m = mem_zalloc(1, sizeof(*m));

	m->o = *o;
	m->o.transport = m->transport = mem_strdup(o->transport);
	m->o.principal = m->principal = mem_strdup(o->principal ? o->principal : "");
	m->log_level = mcp_log_level("info");
	m->subscribed = json_object();
	m->untold = json_object();
	m->untold_tasks = json_object();
	m->memory = mcp_client_state_new();
	evtimer_assign(&m->unpark, o->base, on_unpark, m);
	TAILQ_INIT(&m->calls);
	TAILQ_INIT(&m->tasks);
	return m;
}

void mcp_session_free(struct mcp_session *m)
{
	struct mcp_call_private *p;

	if (!m)
		return;
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
	json_decref(m->untold);
	json_decref(m->untold_tasks);
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

int mcp_session_connect(struct mcp_session *m, struct err *e)
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

/* ---- messages ---- */

void mcp_send(struct mcp_session *m, void *where, json_t *message, bool last)
{
	if (m->left)
		json_decref(message);
	else
		m->o.out.send(m->o.ctx, where, message, last);
}

/* An error that answers no request that could be told: MCP's schemas have no null for an id, and let it be left out. */
static void send_error(struct mcp_session *m, void *where, json_t *id, int code, const char *text)
{
	json_t *message = rpc_message_error(RPC_VERSIONED, id, code, text, NULL);

	if (json_is_null(json_object_get(message, "id")))
		json_object_del(message, "id");
	mcp_send(m, where, message, true);
}

void mcp_session_bad(struct mcp_session *m, void *where, json_t *id, int code, const char *message)
{
	send_error(m, where, id, code, message);
}

void mcp_session_shutdown(struct mcp_session *m) { mcp_listen_end(m); }

static struct mcp_call_private *find_call(struct mcp_session *m, const json_t *id)
{
	struct mcp_call_private *p;

	TAILQ_FOREACH (p, &m->calls, entry)
		if (json_equal(p->id, id))
			return p;
	return NULL;
}

/* Modern clients that share a session over HTTP cancel by closing their request: ids say nothing of whose it is. */
static void notified(struct mcp_session *m, const struct rpc_message *msg, bool shared)
{
	const json_t *id = json_object_get(msg->params, "requestId");

	if (strcmp(msg->method, "notifications/roots/list_changed") == 0 && !shared)
		mcp_roots_forget(m);
	if (strcmp(msg->method, "notifications/cancelled") != 0 || !id || shared)
		return; /* initialized and others tell us nothing that we need */
	struct mcp_call_private *p = find_call(m, id);
	if (p && !p->task && strcmp(p->method->name, "initialize") != 0)
		mcp_call_cancel(p);
}

void mcp_session_note_size(struct mcp_session *m, size_t bytes) { m->next_weight = bytes; }

/* Several messages at once: only one version of the protocol has that, and only where answers need not come back
 * together. */
static bool feed_batch(struct mcp_session *m, json_t *batch, const void *where)
{
	json_t *one;
	size_t i;

	if (!json_is_array(batch) || where || !m->version || strcmp(m->version, "2025-03-26") != 0 ||
	    !json_array_size(batch) || json_array_size(batch) > BATCH_MAX)
		return false;
	json_array_foreach (batch, i, one)
		mcp_session_feed(m, json_is_array(one) ? json_null() : json_incref(one), NULL, MCP_HINT_NONE);
	json_decref(batch);
	return true;
}

void mcp_session_feed(struct mcp_session *m, json_t *message, void *where, enum mcp_hint hint)
{
	rpc_message_auto struct rpc_message msg = { 0 };
	struct rpc_problem bad = { 0 };

	if (feed_batch(m, message, where))
		return;
	if (rpc_message_of(message, RPC_VERSIONED, &msg, &bad) < 0) {
		send_error(m, where, bad.id, bad.code, bad.message);
		rpc_problem_done(&bad);
		return;
	}
	switch (msg.kind) {
	case RPC_REQUEST: mcp_request(m, &msg, where, hint); return;
	case RPC_NOTIFICATION: notified(m, &msg, where && !m->version); break;
	case RPC_RESPONSE: mcp_question_response(m, msg.id, msg.result, msg.error); break;
	}
	if (where)
		mcp_send(m, where, NULL, true);
}

void mcp_session_stream_closed(struct mcp_session *m, void *where, bool cancel)
{
	struct mcp_call_private *p;
	uint64_t at = 0;

	for (p = mcp_call_after(m, 0); p; p = mcp_call_after(m, at)) {
		at = p->serial;
		if (p->where != where)
			continue;
		p->where = NULL;
		if (cancel)
			mcp_call_cancel(p);
	}
}

bool mcp_session_busy(const struct mcp_session *m)
{
	return m->ncalls >= mcp_session_max_calls(m) + MAX_PARKED || m->weight > MAX_WEIGHT;
}

unsigned mcp_session_max_calls(const struct mcp_session *m)
{
	return m->o.config->max_calls ? m->o.config->max_calls : MAX_CALLS;
}

bool mcp_session_is_legacy(const struct mcp_session *m) { return m->version != NULL; }

const struct mcp_config *mcp_session_config(const struct mcp_session *m) { return m->o.config; }

struct mcp_client_state *mcp_session_client_state(struct mcp_session *m) { return m->memory; }

const char *mcp_session_version(const struct mcp_session *m) { return m->version; }

/* ---- what changes by itself ---- */

bool mcp_is_behind(const struct mcp_session *m) { return m->o.out.lags && m->o.out.lags(m->o.ctx); }

bool mcp_full(const struct mcp_session *m) { return m->o.out.full && m->o.out.full(m->o.ctx); }

static void tell_updated(struct mcp_session *m, const char *uri)
{
	mcp_listen_resource(m, uri);
	if (json_object_get(m->subscribed, uri))
		mcp_send(m, NULL,
			 rpc_message_notification(RPC_VERSIONED, "notifications/resources/updated",
						  json_pack("{ss}", "uri", uri)),
			 false);
}

/* Changes come for as long as there are processes, so a client that does not read is owed at most one word of each URI.
 */
void mcp_session_resource_updated(struct mcp_session *m, const char *uri)
{
	if (!mcp_is_behind(m))
		tell_updated(m, uri);
	else if (json_object_get(m->subscribed, uri) || mcp_listen_wants(m, uri))
		json_object_set_new(m->untold, uri, json_true());
}

void mcp_session_drained(struct mcp_session *m)
{
	const char *uri;
	json_t *yes;
	void *next;

	json_object_foreach_safe (m->untold, next, uri, yes) {
		if (mcp_is_behind(m))
			return;
		tell_updated(m, uri);
		json_object_del(m->untold, uri);
	}
	mcp_tasks_notify(m);
	mcp_call_unpark(m);
}

void mcp_session_list_changed(struct mcp_session *m, const char *what)
{
	mem_auto char *method = mem_printf("notifications/%s/list_changed", what);

	mcp_listen_list(m, what);
	if (m->version)
		mcp_send(m, NULL, rpc_message_notification(RPC_VERSIONED, method, NULL), false);
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
