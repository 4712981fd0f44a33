#include "supervisor/gateway/common/gateway_session.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/loop/loop.h"
#include "supervisor/client/link.h"
#include "supervisor/gateway/common/rpc_message.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#define NAME_SHOWN 60    /* bytes of a client's name in a title */
#define FOLDER_SHOWN 400 /* bytes of its directory in a title */
#define LEAVE_POLL_MS 20
#define LEAVE_MS 5000 /* how long a closed session waits for outstanding replies */
#define OPEN_MS 30000 /* how long a session may take to become ready */

/*
 * An object that a request creates. If the requester gave up before the reply arrived, no one holds its id, so it is
 * undone: `id` is the member of the reply with the id, `undo` the method that takes it.
 */
struct made {
	const char *id, *undo;
};

static const struct made a_process = { "processId", "terminate_process" }, a_task = { "taskId", "cancel_task" };

struct request {
	TAILQ_ENTRY(request) entry;
	struct gateway_session *session;
	struct link *on;             /* the link it was sent on; NULL: not sent */
	gateway_session_reply_fn fn; /* NULL: the reply is discarded */
	void *ctx;
	const struct made *made; /* or NULL */
	bool awaited;            /* a closing session waits for its reply */
	char *method;            /* not NULL: queued until the person's connection has completed its handshake */
	struct buf params;
};

#define FOLDER_NAME 5

struct gateway_session {
	struct gateway_session_options o;
	char *names[FOLDER_NAME + 1]; /* owns the strings of `o` */
	struct gateway_session_ops ops;
	void *ctx;
	struct link *agent, *person;
	char id[72], channel[72], token[128];
	uint64_t last_sequence;
	TAILQ_HEAD(, request) requests;
	size_t nrequests;   /* only those with `awaited` */
	struct event later; /* deferred work that must not run inside a link's callback */
	struct event late;  /* fires when the session did not become ready in time */
	uint64_t leave_by;  /* clock_boot_ns; deadline of a closing session */
	bool agent_lost, agent_greeted, person_lost, person_greeted;
	struct err why;               /* why the connection was lost */
	bool ready, left, unanswered; /* left: closing; unanswered: a request was dropped while closing */
	gateway_session_left_fn on_left;
	void *left_ctx;
};

static void on_later(evutil_socket_t fd, short what, void *arg);
static void connect_channel(struct gateway_session *s);

static void arm_soon(struct gateway_session *s, unsigned ms)
{
	const struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	loop_add(&s->later, &tv);
}

static void request_free(struct request *q)
{
	TAILQ_REMOVE(&q->session->requests, q, entry);
	q->session->nrequests -= q->awaited;
	free(q->method);
	buf_done(&q->params);
	free(q);
}

/* ---- requests ---- */

static json_t *parse_reply(struct jval v) { return json_loadb(v.text, v.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL); }

static void on_reply(void *ctx, struct jval result, struct jval error)
{
	struct request *q = ctx;
	struct gateway_session *s = q->session;

	if (q->fn) {
		json_auto_t *r = error.type == JT_NONE ? parse_reply(result) : NULL;
		json_auto_t *e = error.type == JT_NONE ? NULL : parse_reply(error);

		if (!r && !e)
			e = json_pack("{si ss}", "code", RPC_INTERNAL_ERROR, "message",
				      "the daemon's reply could not be parsed");
		q->fn(q->ctx, r, e);
	} else if (q->made && error.type == JT_NONE) {
		/* The reply arrived after its requester gave up: terminate the process or cancel the task. */
		char id[72];
		if (jval_str(jval_get(result, q->made->id), id, sizeof(id)))
			gateway_session_mutate(s, q->made->undo,
					       json_pack("{ss ss}", q->made->id, id, "reason", "cancelled"), NULL, NULL,
					       NULL);
	}
	request_free(q);
	if (s->left && !s->nrequests)
		arm_soon(s, 0);
}

enum how { PLAIN, STARTS, CREATES, OFFER, ONCE }; /* ONCE: bound to this connection, not resent on the next one */

/* `l` NULL: no connection; the request fails from the loop (answer_unsent). */
static void send_on(struct gateway_session *s, struct link *l, const char *method, json_t *params, enum how how,
		    gateway_session_reply_fn fn, void *ctx)
{
	buf_auto struct buf text = BUF_INIT;
	struct request *q = mem_zalloc(1, sizeof(*q));

	*q = (struct request){ .session = s, .on = l, .fn = fn, .ctx = ctx, .awaited = how != OFFER };
	q->made = how == STARTS ? &a_process : how == CREATES ? &a_task : NULL;
	TAILQ_INSERT_TAIL(&s->requests, q, entry);
	s->nrequests += q->awaited;
	if (params)
		rpc_message_write(params, false, &text);
	json_decref(params);
	if (l && l == s->person && !s->person_greeted) {
		q->method = mem_strdup(method);
		q->params = text;
		text = BUF_INIT;
	} else if (l && how == ONCE) {
		link_send_once(l, method, &text, on_reply, q);
	} else if (l) {
		link_send(l, method, &text, on_reply, q);
	} else {
		arm_soon(s, 0); /* reply from the loop, never from inside this call */
	}
}

static json_t *with_key(struct link *l, json_t *params, const char *traceparent)
{
	buf_auto struct buf key = BUF_INIT;
	struct jw w = jw_on(&key);

	if (!l)
		return params;
	jw_obj(&w);
	remote_key(link_remote(l), &w);
	/* The remote writes the key as members of an object; merge them. */
	jw_obj_end(&w);
	json_auto_t *members = json_loadb(key.data, key.len, 0, NULL);
	if (!params)
		params = json_object();
	json_object_update_missing(params, members); /* the caller's own idempotency key has precedence */
	if (traceparent)
		json_object_set_new(params, "traceparent", json_string(traceparent));
	return params;
}

static struct link *agent_link(struct gateway_session *s) { return s->agent_lost ? NULL : s->agent; }

void gateway_session_query(struct gateway_session *s, const char *method, json_t *params, gateway_session_reply_fn fn,
			   void *ctx)
{
	send_on(s, agent_link(s), method, params, PLAIN, fn, ctx);
}

void gateway_session_mutate(struct gateway_session *s, const char *method, json_t *params, const char *traceparent,
			    gateway_session_reply_fn fn, void *ctx)
{
	send_on(s, agent_link(s), method, with_key(agent_link(s), params, traceparent), PLAIN, fn, ctx);
}

void gateway_session_terminate(struct gateway_session *s, const char *process_id, const char *reason)
{
	gateway_session_mutate(s, "terminate_process", json_pack("{ss ss}", "processId", process_id, "reason", reason),
			       NULL, NULL, NULL);
}

void gateway_session_mutate_async(struct gateway_session *s, const char *method, json_t *params,
				  const char *traceparent)
{
	send_on(s, agent_link(s), method, with_key(agent_link(s), params, traceparent), OFFER, NULL, NULL);
}

void gateway_session_start(struct gateway_session *s, json_t *params, const char *traceparent,
			   gateway_session_reply_fn fn, void *ctx)
{
	json_object_set_new(params, "sessionId", json_string(s->id));
	send_on(s, agent_link(s), "start_process", with_key(agent_link(s), params, traceparent), STARTS, fn, ctx);
}

void gateway_session_create_task(struct gateway_session *s, json_t *params, const char *traceparent,
				 gateway_session_reply_fn fn, void *ctx)
{
	json_object_set_new(params, "sessionId", json_string(s->id));
	send_on(s, agent_link(s), "create_task", with_key(agent_link(s), params, traceparent), CREATES, fn, ctx);
}

/* The requests stay queued: a reply without a callback undoes what was created (on_reply). */
void gateway_session_cancel_callbacks(struct gateway_session *s, const void *ctx)
{
	struct request *q;

	TAILQ_FOREACH (q, &s->requests, entry)
		if (q->ctx == ctx)
			q->fn = NULL;
}

/* Clearing `made` keeps the process or task: a detached start is not undone. */
void gateway_session_detach_callbacks(struct gateway_session *s, const void *ctx)
{
	struct request *q;

	TAILQ_FOREACH (q, &s->requests, entry)
		if (q->ctx == ctx) {
			q->fn = NULL;
			q->made = NULL;
		}
}

bool gateway_session_ready(const struct gateway_session *s) { return s->ready; }

const char *gateway_session_id(const struct gateway_session *s) { return s->id; }

const char *gateway_session_channel_id(const struct gateway_session *s) { return s->channel; }

/* ---- the person's connection ---- */

static void on_person_lost(void *ctx, const struct err *e)
{
	struct gateway_session *s = ctx;

	s->person_lost = true;
	s->why = *e;
	arm_soon(s, 0);
}

/* Answers are recorded in the channel's name, so none is sent before the daemon has accepted the handshake. */
static void on_person_greeted(void *ctx, struct jval result, struct jval error)
{
	struct gateway_session *s = ctx;
	struct request *q;

	if (error.type != JT_NONE) {
		remote_error(error, &s->why);
		s->person_lost = true;
		arm_soon(s, 0);
		return;
	}
	s->person_greeted = true;
	TAILQ_FOREACH (q, &s->requests, entry) {
		if (q->on != s->person || !q->method)
			continue;
		link_send(s->person, q->method, &q->params, on_reply, q);
		free(mem_take(&q->method));
	}
}

static int open_person(struct gateway_session *s, struct err *e)
{
	static const struct link_ops ops = { .lost = on_person_lost };
	const struct remote_options o = { .later = true };
	buf_auto struct buf hello = BUF_INIT;
	struct remote *r;
	struct jw w = jw_on(&hello);

	if (remote_open(&o, &r, e) < 0)
		return -1;
	jw_obj(&w);
	jw_kopt(&w, "clientName", s->o.client_name);
	jw_kstr(&w, "channelId", s->channel);
	jw_obj_end(&w);
	remote_handshake_async(r, "initialize", &hello, on_person_greeted, s);
	s->person = link_new(s->o.base, r, &ops, s);
	s->person_greeted = false;
	return 0;
}

void gateway_session_answer(struct gateway_session *s, const char *method, json_t *params, gateway_session_reply_fn fn,
			    void *ctx)
{
	if (!s->person)
		(void)open_person(s, &s->why);
	struct link *l = s->person_lost ? NULL : s->person;
	send_on(s, l, method, with_key(l, params, NULL), PLAIN, fn, ctx);
}

/* ---- the channel ---- */

static void on_event(void *ctx, struct jval event)
{
	struct gateway_session *s = ctx;
	uint64_t sequence = jval_uint(jval_get(event, "sequence"), 0);

	/* After a reconnect the daemon may send events again. */
	if (sequence && sequence <= s->last_sequence)
		return;
	if (sequence)
		s->last_sequence = sequence;
	if (s->ops.event && !s->left)
		s->ops.event(s->ctx, event);
}

static void take_str(const json_t *from, const char *key, char *to, size_t cap)
{
	const char *v = json_get_string(from, key);

	if (v)
		snprintf(to, cap, "%s", v);
}

static void on_failed(struct gateway_session *s, const char *what, const json_t *error)
{
	const char *message = json_get_string(error, "message");

	const bool unknown = json_text_is(json_object_get(error, "data"), "category", "not_found");

	err_set(&s->why, unknown ? ERR_NOT_FOUND : ERR_UNAVAILABLE, "%s: %s", what,
		message ? message : "the daemon gave no reason");
	s->agent_lost = true;
	arm_soon(s, 0);
}

/* Code 0: the connection broke. Nothing to report; the next connection tries again. */
static bool is_broken(const json_t *error) { return error && json_integer_value(json_object_get(error, "code")) == 0; }

static void on_subscribed(void *ctx, json_t *result, json_t *error)
{
	struct gateway_session *s = ctx;

	if (is_broken(error))
		return;
	if (error)
		return on_failed(s, "subscribe to the session's events", error);
	s->ready = true;
	event_del(&s->late);
	if (!s->left)
		s->ops.ready(s->ctx, NULL);
}

static void on_channel(void *ctx, json_t *result, json_t *error)
{
	struct gateway_session *s = ctx;

	if (is_broken(error))
		return;
	if (error)
		return on_failed(s, "connect the client's channel", error);
	take_str(result, "channelId", s->channel, sizeof(s->channel));
	take_str(result, "sessionId", s->id, sizeof(s->id));
	take_str(result, "resumeToken", s->token, sizeof(s->token));
	if (!s->ready) /* otherwise a channel that could not be resumed: continue after the last event received */
		s->last_sequence = (uint64_t)json_integer_value(json_object_get(result, "sequence"));
	send_on(s, s->agent, "subscribe_events",
		json_pack("{ss sI}", "sessionId", s->id, "afterSequence", (json_int_t)s->last_sequence), ONCE,
		on_subscribed, s);
}

/* "claude-code in /home/me/shop": the title by which a person finds the session in a list. */
static json_t *title_of(const struct gateway_session *s)
{
	const char *name = s->o.client_name && *s->o.client_name ? s->o.client_name : s->o.native_protocol;
	buf_auto struct buf title = BUF_INIT;

	buf_append(&title, name, strlen(name) > NAME_SHOWN ? text_utf8_cut(name, NAME_SHOWN) : strlen(name));
	buf_str(&title, " in ");
	buf_append(&title, s->o.folder,
		   strlen(s->o.folder) > FOLDER_SHOWN ? text_utf8_cut(s->o.folder, FOLDER_SHOWN) : strlen(s->o.folder));
	return rpc_message_text(title.data, title.len);
}

void gateway_session_retitle(struct gateway_session *s, const char *folder)
{
	if (s->o.session_id || (s->o.folder && strcmp(s->o.folder, folder) == 0))
		return;
	free(s->names[FOLDER_NAME]);
	s->o.folder = s->names[FOLDER_NAME] = mem_strdup(folder);
	gateway_session_mutate(s, "update_session", json_pack("{ss so}", "sessionId", s->id, "title", title_of(s)),
			       NULL, NULL, NULL);
}

/*
 * A channel is bound to its connection. If the connection breaks before the session is ready, the next one creates a
 * new channel.
 */
static void connect_channel(struct gateway_session *s)
{
	if (s->o.reads_only) {
		event_del(&s->late);
		s->ready = true;
		s->ops.ready(s->ctx, NULL);
		return;
	}
	json_t *params = json_pack("{ss ss ss so}", "transport", s->o.transport, "peerRole", "client", "nativeProtocol",
				   s->o.native_protocol, "capabilities",
				   s->o.asks ? json_pack("[ss]", "streaming", "permissions")
					     : json_pack("[s]", "streaming"));

	if (s->o.session_id)
		json_object_set_new(params, "sessionId", json_string(s->o.session_id));
	else if (s->id[0])
		json_object_set_new(params, "sessionId", json_string(s->id));
	else if (s->o.folder)
		json_object_set_new(params, "title", title_of(s));
	send_on(s, s->agent, "connect_channel", with_key(s->agent, params, NULL), ONCE, on_channel, s);
}

/* A resumed channel keeps its subscription. If it cannot be resumed, create a new one. */
static void on_resumed(void *ctx, json_t *result, json_t *error)
{
	struct gateway_session *s = ctx;

	if (is_broken(error))
		return;
	if (error) {
		log_warning("resume the client's channel: %s", json_get_string(error, "message"));
		connect_channel(s);
		return;
	}
	take_str(result, "resumeToken", s->token, sizeof(s->token));
	if (s->ops.resumed && !s->left)
		s->ops.resumed(s->ctx);
}

static void on_connected(void *ctx)
{
	struct gateway_session *s = ctx;

	if (s->left)
		return;
	if (!s->ready && s->agent_greeted)
		connect_channel(s);
	else if (s->ready && !s->o.reads_only)
		send_on(s, s->agent, "reconnect_channel",
			with_key(s->agent,
				 json_pack("{ss ss sI}", "channelId", s->channel, "resumeToken", s->token,
					   "lastAckedSequence", (json_int_t)s->last_sequence),
				 NULL),
			ONCE, on_resumed, s);
}

static void on_lost(void *ctx, const struct err *e)
{
	struct gateway_session *s = ctx;

	s->agent_lost = true;
	s->why = *e;
	arm_soon(s, 0);
}

/* ---- opening and closing ---- */

static void on_greeted(void *ctx, struct jval result, struct jval error)
{
	struct gateway_session *s = ctx;

	if (s->left)
		return;
	if (error.type == JT_NONE) {
		s->agent_greeted = true;
		connect_channel(s);
		return;
	}
	remote_error(error, &s->why);
	s->agent_lost = true;
	arm_soon(s, 0);
}

/* Not ready after OPEN_MS: handled like a lost connection. */
static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct gateway_session *s = arg;

	err_set(&s->why, ERR_UNAVAILABLE, "the daemon does not respond");
	s->agent_lost = true;
	arm_soon(s, 0);
}

static int open_agent(struct gateway_session *s, struct err *e)
{
	static const struct link_ops ops = { .connected = on_connected, .event = on_event, .lost = on_lost };
	const struct remote_options o = { .start = true, .start_if_store = true, .later = true };
	const struct timeval patience = { .tv_sec = OPEN_MS / 1000 };
	buf_auto struct buf hello = BUF_INIT;
	struct remote *r;
	struct jw w = jw_on(&hello);

	if (remote_open(&o, &r, e) < 0)
		return -1;
	jw_obj(&w);
	jw_kopt(&w, "clientName", s->o.client_name);
	jw_kopt(&w, "clientVersion", s->o.client_version);
	jw_kstr(&w, "role", "agent");
	jw_obj_end(&w);
	remote_handshake_async(r, "initialize", &hello, on_greeted, s);
	s->agent = link_new(s->o.base, r, &ops, s);
	s->agent_lost = s->agent_greeted = false;
	loop_add(&s->late, &patience);
	return 0;
}

int gateway_session_open(const struct gateway_session_options *o, const struct gateway_session_ops *ops, void *ctx,
			 struct gateway_session **ret, struct err *e)
{
	struct gateway_session *s = mem_zalloc(1, sizeof(*s));
	const char **strings[] = { &s->o.client_name, &s->o.client_version, &s->o.native_protocol,
				   &s->o.transport,   &s->o.session_id,     &s->o.folder };

	s->o = *o;
	s->ops = *ops;
	s->ctx = ctx;
	for (size_t i = 0; i < countof(strings); i++)
		*strings[i] = s->names[i] = mem_strdup(*strings[i]);
	TAILQ_INIT(&s->requests);
	evtimer_assign(&s->later, o->base, on_later, s);
	evtimer_assign(&s->late, o->base, on_late, s);
	if (open_agent(s, e) < 0) {
		gateway_session_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

int gateway_session_reconnect(struct gateway_session *s, struct err *e)
{
	if (s->agent)
		return 0;
	return open_agent(s, e);
}

static void drop_link(struct gateway_session *s, struct link **l)
{
	struct request *q;
	TAILQ_FOREACH (q, &s->requests, entry)
		if (q->on == (*l))
			q->on = NULL;
	link_free(*l);
	*l = NULL;
}

static struct request *first_unsent(const struct gateway_session *s)
{
	struct request *q;

	TAILQ_FOREACH (q, &s->requests, entry)
		if (!q->on)
			return q;
	return NULL;
}

/* Frees the session; the only place that does. */
static void end_session(struct gateway_session *s)
{
	struct request *q;

	if (s->on_left)
		s->on_left(s->left_ctx, !s->unanswered && !s->nrequests);
	event_del(&s->later);
	event_del(&s->late);
	link_free(s->agent);
	link_free(s->person);
	while ((q = TAILQ_FIRST(&s->requests)))
		request_free(q);
	for (size_t i = 0; i < countof(s->names); i++)
		free(s->names[i]);
	free(s);
}

/*
 * Runs outside of link callbacks, so links can be freed here: drops lost links, fails their requests, and ends a
 * closing session.
 */
static void on_later(evutil_socket_t fd, short what, void *arg)
{
	struct gateway_session *s = arg;
	bool lost = s->agent_lost && s->agent;

	if (s->person_lost)
		drop_link(s, &s->person);
	s->person_lost = false;
	if (lost) {
		s->ready = false;
		event_del(&s->late);
		drop_link(s, &s->agent);
	}
	/*
	 * Fails every request that has no link. Restarts from the head each time, because a callback may add or remove
	 * requests.
	 */
	json_auto_t *error = json_pack("{si s:o}", "code", -32011, "message",
				       rpc_message_text(s->why.message, strlen(s->why.message)));
	struct request *q;
	while ((q = first_unsent(s))) {
		gateway_session_reply_fn fn = q->fn;
		void *with = q->ctx;

		s->unanswered |= s->left;
		request_free(q);
		if (fn)
			fn(with, NULL, error);
	}
	if (s->left && (!s->nrequests || clock_boot_ns() >= s->leave_by))
		end_session(s);
	else if (s->left)
		arm_soon(s,
			 LEAVE_POLL_MS); /* poll: libevent's clock is coarse, and the timer may fire slightly early */
	else if (lost)
		s->ops.ready(s->ctx, &s->why);
}

void gateway_session_close(struct gateway_session *s, gateway_session_left_fn fn, void *ctx)
{
	s->on_left = fn;
	s->left_ctx = ctx;
	gateway_session_free(s);
}

void gateway_session_free(struct gateway_session *s)
{
	struct request *q;

	if (!s || s->left)
		return;
	s->left = true;
	s->leave_by = clock_boot_ns() + LEAVE_MS * 1000000ull;
	/* No callback runs after this; `made` objects are still undone on reply. */
	TAILQ_FOREACH (q, &s->requests, entry)
		q->fn = NULL;
	if (s->agent)
		remote_start_none(link_remote(s->agent));
	if (s->agent && !s->agent_lost && s->ready)
		gateway_session_mutate(s, "disconnect_channel",
				       json_pack("{ss ss}", "channelId", s->channel, "reason", "the client has left"),
				       NULL, NULL, NULL);
	arm_soon(s, s->nrequests && s->agent && !s->agent_lost ? LEAVE_MS : 0);
}
