#include "supervisor/gateway/mcp/mcp_session.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_client_state.h"
#include "supervisor/gateway/mcp/mcp_listen.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_request.h"
#include "supervisor/gateway/mcp/mcp_resource.h"
#include "supervisor/gateway/mcp/mcp_roots.h"
#include "supervisor/gateway/mcp/mcp_task.h"
#include "supervisor/gateway/mcp/mcp_workspace.h"

#include <event2/event.h>
#include <string.h>

#define BATCH_MAX 100u
#define MAX_WEIGHT (64u << 20)
#define MAX_PARKED 256u /* in addition to those that run; above this, the client's input is paused */

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
	m->untold = json_object();
	m->untold_tasks = json_object();
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

	json_object_foreach_safe (m->untold, next, uri, yes) {
		if (mcp_is_behind(m))
			return;
		mcp_listen_tell_updated(m, uri);
		json_object_del(m->untold, uri);
	}
	mcp_tasks_notify(m);
	mcp_call_unpark(m);
}
