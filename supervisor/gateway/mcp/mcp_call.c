/*
 * A request in progress, and the part of a session that calls need.
 *
 * A call is parked first if the daemon is not connected yet, or if too many calls run; it then has no `up`, and starts
 * when the reason is gone (mcp_call_unpark). Parking bounds the requests that are pending at the daemon.
 *
 * A call can outlive its request: it becomes a task when it takes long (mcp_task.c). While the daemon creates the task
 * (`becoming`) the handler may finish; its response is then kept in `ended`, and everything that could call the handler
 * again is released.
 *
 * Requests to the daemon are in `ups`. Freeing the call cancels their callbacks, so a handler never runs for a call
 * that is gone; mcp_call_detach frees the call and lets the requests complete without it.
 */

#include "supervisor/gateway/mcp/mcp_call.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_version.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- sending ---- */

/* The lowest part of a session: sending, and the settings that the other files read. */

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

static bool mcp_full(const struct mcp_session *m) { return m->o.out.full && m->o.out.full(m->o.ctx); }

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

#define HEARTBEAT_MS 5000u
#define CACHE_MS 60000

/* ---- creation ---- */

/* A request to the daemon on behalf of a call. */
struct mcp_up {
	LIST_ENTRY(mcp_up) entry;
	struct mcp_call_private *call;
	mcp_call_reply_fn fn;
	bool owns;       /* the process that it starts belongs to the call */
	bool makes_task; /* sent by the protocol layer, not by the handler */
};

static void on_beat(evutil_socket_t fd, short what, void *arg);
static void on_later(evutil_socket_t fd, short what, void *arg);
static void on_slow(evutil_socket_t fd, short what, void *arg);
static void free_requests(struct mcp_call_private *p);

struct mcp_call_private *mcp_call_new(struct mcp_session *m, const struct mcp_method *method, json_t *id, void *stream)
{
	struct mcp_call_private *p = mem_zalloc(1, sizeof(*p));

	p->call = (struct mcp_call){ .mcp = m, .priv = p };
	p->method = method;
	p->id = json_incref(id);
	p->stream = stream;
	p->log_level = -1;
	p->progress = -1;
	p->began_ns = p->sent_ns = p->ran_ns = clock_boot_ns();
	LIST_INIT(&p->owned);
	LIST_INIT(&p->ups);
	TAILQ_INIT(&p->questions);
	evtimer_assign(&p->beat, m->o.base, on_beat, p);
	evtimer_assign(&p->later, m->o.base, on_later, p);
	evtimer_assign(&p->slow, m->o.base, on_slow, p);
	p->counted = true;
	p->serial = ++m->serials;
	p->weight = m->next_weight;
	m->weight += p->weight;
	TAILQ_INSERT_TAIL(&m->calls, p, entry);
	m->ncalls++;
	return p;
}

static void add_ms(struct event *ev, unsigned ms)
{
	const struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	loop_add(ev, &tv);
}

static unsigned heartbeat_ms(const struct mcp_session *m)
{
	return m->o.config->heartbeat_ms ? m->o.config->heartbeat_ms : HEARTBEAT_MS;
}

void mcp_call_run(struct mcp_call_private *p)
{
	struct mcp_session *m = p->call.mcp;
	struct err e = ERR_INIT;

	if (p->progress_token)
		add_ms(&p->beat, heartbeat_ms(m));
	if (p->method->flags & MCP_NEEDS_UP) {
		if (m->call_ops->connect(m, &e) < 0)
			return mcp_call_fail(&p->call, RPC_INTERNAL_ERROR, NULL, "%s", e.message);
		if (!(gateway_session_ready(m->up) && m->ncalls - m->nparked <= mcp_session_max_calls(m))) {
			p->parked = true;
			m->nparked++;
			return;
		}
		p->call.up = m->up;
	}
	p->method->run(&p->call);
}

struct mcp_call_private *mcp_call_after(const struct mcp_session *m, uint64_t serial)
{
	struct mcp_call_private *p;

	TAILQ_FOREACH (p, &m->calls, entry)
		if (p->serial > serial)
			return p;
	return NULL;
}

void mcp_call_unpark(struct mcp_session *m)
{
	struct mcp_call_private *p;
	uint64_t at = 0;

	while (m->nparked && !mcp_full(m) && m->up && gateway_session_ready(m->up) &&
	       m->ncalls - m->nparked < mcp_session_max_calls(m) && (p = mcp_call_after(m, at))) {
		at = p->serial;
		if (!p->parked)
			continue;
		p->parked = false;
		m->nparked--;
		p->call.up = m->up;
		p->method->run(&p->call);
	}
}

void mcp_call_uncount(struct mcp_call_private *p)
{
	if (p->counted)
		p->call.mcp->ncalls--;
	p->counted = false;
}

static void on_slow(evutil_socket_t fd, short what, void *arg)
{
	struct mcp_call_private *p = arg;

	p->slow_fn(&p->call);
}

void mcp_call_slow(struct mcp_call_private *p, unsigned ms, mcp_call_fn fn)
{
	p->slow_fn = fn;
	add_ms(&p->slow, ms);
}

/* ---- end ---- */

static void mcp_call_free(struct mcp_call_private *p)
{
	struct mcp_session *m = p->call.mcp;
	struct mcp_owned *o;

	TAILQ_REMOVE(&m->calls, p, entry);
	mcp_call_uncount(p);
	m->weight -= p->weight;
	if (p->parked)
		m->nparked--;
	free_requests(p);
	p->call.mcp->call_ops->drop_questions(p);
	event_del(&p->beat);
	event_del(&p->later);
	event_del(&p->slow);
	while ((o = LIST_FIRST(&p->owned))) {
		LIST_REMOVE(o, entry);
		free(o);
	}
	if (p->call.data_free)
		p->call.data_free(p->call.data);
	json_decref(p->id);
	json_decref(p->call.params);
	json_decref(p->call.arguments);
	json_decref(p->call.vars);
	json_decref(p->call.kept);
	json_decref(p->client_caps);
	json_decref(p->progress_token);
	json_decref(p->responses);
	json_decref(p->approving);
	json_decref(p->ended);
	free(p->traceparent);
	free(p->root);
	free(p);
	if (m->left)
		return;
	/* From the loop and not here: the caller may be iterating over the calls. */
	if (m->nparked)
		add_ms(&m->unpark, 0);
	if (m->o.out.wake)
		m->o.out.wake(m->o.ctx);
}

void mcp_call_add_meta(struct mcp_call_private *p, json_t *result)
{
	json_t *meta = json_object_get(result, "_meta");

	if (p->era != MCP_MODERN)
		return;
	if (!json_object_get(result, "resultType"))
		json_object_set_new(result, "resultType", json_string("complete"));
	if (!meta)
		json_object_set_new(result, "_meta", meta = json_object());
	json_object_set_new(meta, MCP_META "serverInfo", mcp_server_info());
}

/*
 * The handler has finished, so none of its callbacks may run again. The call stays only until the daemon has created
 * its task.
 */
static void release_handler(struct mcp_call_private *p)
{
	struct mcp_owned *o;
	struct mcp_up *u;

	event_del(&p->later);
	p->watch = NULL;
	p->call.cancelled = NULL;
	LIST_FOREACH (u, &p->ups, entry)
		if (!u->makes_task) /* the request that creates the task stays */
			u->fn = NULL;
	p->call.mcp->call_ops->drop_questions(p);
	while ((o = LIST_FIRST(&p->owned))) {
		LIST_REMOVE(o, entry);
		free(o);
	}
}

/* Sends the response, or stores it in the task. */
void mcp_call_end(struct mcp_call_private *p, json_t *message)
{
	struct mcp_session *m = p->call.mcp;
	void *stream = p->stream;
	bool task = p->task != NULL;

	if (p->becoming) {
		p->ended = message;
		release_handler(p);
		return;
	}
	if (task)
		m->call_ops->task_ended(p->task, message);
	else
		mcp_call_plain(m, json_object_get(message, "result"));
	mcp_call_free(p);
	if (task)
		json_decref(message);
	else
		mcp_send(m, stream, message, true);
}

void mcp_call_finish(struct mcp_call *c, json_t *result)
{
	struct mcp_call_private *p = c->priv;

	if (!result) { /* json_pack failed: the daemon's reply lacks a member */
		mcp_call_fail(c, RPC_INTERNAL_ERROR, NULL, "the daemon's reply lacks a member");
		return;
	}
	mcp_call_add_meta(p, result);
	if (p->era == MCP_LEGACY && p->version)
		mcp_version_downgrade(p->version, result);
	if (p->era == MCP_MODERN && (p->method->flags & MCP_CACHED) &&
	    strcmp(json_get_string(result, "resultType"), "complete") == 0 && !json_object_get(result, "ttlMs")) {
		json_object_set_new(result, "ttlMs",
				    json_integer(strcmp(p->method->name, "resources/read") == 0 ? 0 : CACHE_MS));
		json_object_set_new(result, "cacheScope", json_string("private"));
	}
	mcp_call_end(p, rpc_message_result(RPC_VERSIONED, p->id, result));
}

void mcp_call_fail(struct mcp_call *c, int code, json_t *data, const char *fmt, ...)
{
	struct mcp_call_private *p = c->priv;
	buf_auto struct buf message = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&message, fmt, ap);
	va_end(ap);
	mcp_call_end(p, rpc_message_error(RPC_VERSIONED, p->id, code, buf_cstr(&message), data));
}

void mcp_call_plain(const struct mcp_session *m, json_t *result)
{
	if (!m->o.config->structured)
		json_object_del(result, "structuredContent");
}

void mcp_call_cancel(struct mcp_call_private *p)
{
	struct mcp_session *m = p->call.mcp;
	void *stream = p->stream;
	struct mcp_owned *o;
	bool task = p->task != NULL;

	if (p->call.cancelled)
		p->call.cancelled(&p->call);
	LIST_FOREACH (o, &p->owned, entry)
		gateway_session_terminate(p->call.up, o->process_id, "cancelled");
	mcp_call_free(p);
	if (stream && !task)
		mcp_send(m, stream, NULL, true);
}

/* ---- the daemon ---- */

static void free_requests(struct mcp_call_private *p)
{
	struct mcp_up *u;

	while ((u = LIST_FIRST(&p->ups))) {
		gateway_session_cancel_callbacks(p->call.up, u);
		LIST_REMOVE(u, entry);
		free(u);
	}
}

void mcp_call_detach(struct mcp_call_private *p)
{
	struct mcp_up *u;

	LIST_FOREACH (u, &p->ups, entry)
		gateway_session_detach_callbacks(p->call.up, u);
	mcp_call_free(p);
}

static void on_up(void *ctx, json_t *result, json_t *error)
{
	struct mcp_up *u = ctx;
	struct mcp_call_private *p = u->call;
	mcp_call_reply_fn fn = u->fn;

	/* Before the handler runs, which may remove it again (mcp_call_remove_process). */
	if (u->owns && !p->ended && json_is_string(json_object_get(result, "processId")))
		mcp_call_add_process(&p->call, json_get_string(result, "processId"));
	LIST_REMOVE(u, entry);
	free(u);
	if (fn)
		fn(&p->call, result, error);
}

static struct mcp_up *up_new(struct mcp_call *c, mcp_call_reply_fn fn)
{
	struct mcp_up *u = mem_zalloc(1, sizeof(*u));

	*u = (struct mcp_up){ .call = c->priv, .fn = fn };
	LIST_INSERT_HEAD(&c->priv->ups, u, entry);
	return u;
}

void mcp_call_query(struct mcp_call *c, const char *method, json_t *params, mcp_call_reply_fn fn)
{
	gateway_session_query(c->up, method, params, on_up, up_new(c, fn));
}

void mcp_call_mutate(struct mcp_call *c, const char *method, json_t *params, mcp_call_reply_fn fn)
{
	gateway_session_mutate(c->up, method, params, c->priv->traceparent, on_up, up_new(c, fn));
}

void mcp_call_mutate_async(struct mcp_call *c, const char *method, json_t *params)
{
	gateway_session_mutate_async(c->up, method, params, c->priv->traceparent);
}

void mcp_call_task(struct mcp_call *c, json_t *params, mcp_call_reply_fn fn)
{
	struct mcp_up *u = up_new(c, fn);

	u->makes_task = true;
	gateway_session_create_task(c->up, params, c->priv->traceparent, on_up, u);
}

void mcp_call_decide(struct mcp_call *c, const char *method, json_t *params, mcp_call_reply_fn fn)
{
	gateway_session_answer(c->up, method, params, on_up, up_new(c, fn));
}

void mcp_call_start(struct mcp_call *c, json_t *params, bool foreground, mcp_call_reply_fn fn)
{
	struct mcp_up *u = up_new(c, fn);

	u->owns = foreground;
	/*
	 * A process of a task, or of a call that may become one, must outlive the connection. Without a task, the end
	 * of the call terminates it.
	 */
	json_object_set_new(params, "onDisconnect",
			    json_string(foreground && !c->mcp->call_ops->can_be_task(c->priv) ? "terminate" : "keep"));
	if (c->priv->task)
		json_object_set_new(params, "taskId", json_string(c->priv->task_id));
	gateway_session_start(c->up, params, c->priv->traceparent, on_up, u);
}

void mcp_call_add_process(struct mcp_call *c, const char *process_id)
{
	struct mcp_owned *o = mem_zalloc(1, sizeof(*o));

	snprintf(o->process_id, sizeof(o->process_id), "%s", process_id);
	LIST_INSERT_HEAD(&c->priv->owned, o, entry);
	if (c->priv->task)
		c->mcp->call_ops->task_add_process(c->priv->task, process_id);
}

void mcp_call_remove_process(struct mcp_call *c, const char *process_id)
{
	struct mcp_owned *o, *next;

	for (o = LIST_FIRST(&c->priv->owned); o; o = next) {
		next = LIST_NEXT(o, entry);
		if (strcmp(o->process_id, process_id) == 0) {
			LIST_REMOVE(o, entry);
			free(o);
		}
	}
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
	struct mcp_call_private *p = arg;

	p->later_fn(&p->call);
}

void mcp_call_set_timer(struct mcp_call *c, unsigned ms, mcp_call_fn fn)
{
	c->priv->later_fn = fn;
	add_ms(&c->priv->later, ms);
}

void mcp_call_get_process(struct mcp_call *c, const char *process_id, mcp_call_reply_fn fn)
{
	mcp_call_query(c, "get_process", json_pack("{ss}", "processId", process_id), fn);
}

void mcp_call_read_output(struct mcp_call *c, const char *ref, uint64_t offset, uint64_t length, mcp_call_reply_fn fn)
{
	mcp_call_query(c, "read_output",
		       json_pack("{ss sI sI ss}", "outputRef", ref, "offset", (json_int_t)offset, "length",
				 (json_int_t)length, "encoding", "base64"),
		       fn);
}

void mcp_call_free_json(void *data) { json_decref(data); }

void mcp_call_watch(struct mcp_call *c, void (*event)(struct mcp_call *c, struct jval event))
{
	c->priv->watch = event;
}

void mcp_call_event(struct mcp_call_private *p, struct jval event)
{
	if (p->call.mcp->call_ops->event(p, event))
		return; /* the call may have been freed */
	if (p->watch)
		p->watch(&p->call, event);
}

size_t mcp_call_count(const struct mcp_session *m, bool (*which)(const struct mcp_call_private *p))
{
	const struct mcp_call_private *p;
	size_t n = 0;

	TAILQ_FOREACH (p, &m->calls, entry)
		n += which(p);
	return n;
}

const char *mcp_call_root(const struct mcp_call *c) { return c->priv->root ? c->priv->root : c->mcp->root; }

bool mcp_call_is_task(const struct mcp_call *c) { return c->priv->task != NULL; }

/* ---- notifications during the call ---- */

static void send_notice(struct mcp_call_private *p, const char *method, json_t *params)
{
	mcp_send(p->call.mcp, p->stream, rpc_message_notification(RPC_VERSIONED, method, params), false);
}

void mcp_call_progress(struct mcp_call *c, double progress, double total, const char *message)
{
	struct mcp_call_private *p = c->priv;
	double seconds = (double)(clock_boot_ns() - p->began_ns) / 1e9;

	if (!p->progress_token || mcp_is_behind(c->mcp)) /* droppable: the next one supersedes it */
		return;
	if (progress < 0)
		progress = seconds > p->progress ? seconds : p->progress + 0.001;
	if (progress <= p->progress)
		return;
	p->progress = progress;
	p->sent_ns = clock_boot_ns();
	json_t *params = json_pack("{sO sf}", "progressToken", p->progress_token, "progress", progress);
	if (progress == (double)(json_int_t)progress)
		json_object_set_new(params, "progress", json_integer((json_int_t)progress));
	if (total >= 0)
		json_object_set_new(params, "total",
				    total == (double)(json_int_t)total ? json_integer((json_int_t)total)
								       : json_real(total));
	/* `message` exists since 2025-03-26. */
	if (message && mcp_version_at_least(p->version, "2025-03-26"))
		json_object_set_new(params, "message", rpc_message_text(message, strlen(message)));
	send_notice(p, "notifications/progress", params);
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
	struct mcp_call_private *p = arg;
	unsigned every = heartbeat_ms(p->call.mcp);
	uint64_t quiet = (clock_boot_ns() - p->sent_ns) / 1000000;

	/* Timers may fire a little early; 10 ms of tolerance avoid a second beat right after the first. */
	if (quiet + 10 >= every) {
		char text[64];

		snprintf(text, sizeof(text), "%s for %u s", p->answered ? "waiting for an answer" : "running",
			 (unsigned)((clock_boot_ns() - p->ran_ns) / 1000000000));
		mcp_call_progress(&p->call, -1, -1, text);
		quiet = 0;
	}
	add_ms(&p->beat, every > quiet ? (unsigned)(every - quiet) : 1);
}

void mcp_call_log(struct mcp_call *c, const char *level, const char *logger, json_t *data)
{
	struct mcp_call_private *p = c->priv;
	int rank = mcp_log_level(level), least = p->era == MCP_MODERN ? p->log_level : c->mcp->log_level;

	if (least < 0 || rank < least || mcp_is_behind(c->mcp)) {
		json_decref(data);
		return;
	}
	p->sent_ns = clock_boot_ns();
	send_notice(p, "notifications/message",
		    json_pack("{ss ss so}", "level", level, "logger", logger ? logger : "bailiff", "data", data));
}
