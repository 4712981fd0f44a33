#include "supervisor/gateway/http/console_stream.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/http/console_link.h"
#include "supervisor/gateway/http/console_reply.h"
#include "supervisor/gateway/http/console_session.h"
#include "supervisor/gateway/http/console_watch.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_sse.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_BYTES (1u << 20)
#define CONTINUE_BYTES (256u << 10)
#define DRAIN_MS 10

struct console_stream {
	TAILQ_ENTRY(console_stream) entry;
	struct console_session *of;
	char id[CONSOLE_SECRET_TEXT];
	struct http_exchange *x; /* before the first event … */
	struct http_sse *sse;    /* … and from then on */
	struct event *late;      /* the daemon does not answer the first request */
	struct event *drain;     /* runs while paused */
	struct console_link *link;
	struct console_watches *watches;
	bool connected;  /* the latest state that was sent */
	bool positioned; /* `last` is valid */
	uint64_t last;   /* the last event that was sent or skipped */
	uint64_t newest, oldest;
	char *role, *version;
};

/* Everything but the connection to the page. */
static void free_stream(struct console_stream *st)
{
	TAILQ_REMOVE(&st->of->streams, st, entry);
	st->of->nstreams--;
	console_link_free(st->link);
	console_watches_free(st->watches);
	event_free(st->late);
	event_free(st->drain);
	free(st->role);
	free(st->version);
	free(st);
}

static void on_gone(void *ctx) { free_stream(ctx); }

void console_stream_free(struct console_stream *st)
{
	struct http_exchange *x = st->x;
	struct http_sse *sse = st->sse;

	free_stream(st);
	if (x)
		console_reply_error(x, 503, "unavailable", "the console's session has ended");
	if (sse)
		http_sse_end(sse);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct console_stream *st = arg;
	struct http_exchange *x = st->x;

	free_stream(st);
	console_reply_error(x, 503, "unavailable", "the daemon does not answer");
}

/* ---- sending ---- */

static void on_drain(evutil_socket_t fd, short what, void *arg)
{
	struct console_stream *st = arg;

	if (http_sse_queued(st->sse) > CONTINUE_BYTES)
		return;
	event_del(st->drain);
	console_link_pause(st->link, false);
}

/* False: the page is gone and the stream was freed. */
static bool send_frame(struct console_stream *st, const char *event, const char *id, const char *data, size_t n)
{
	static const struct timeval tv = { 0, DRAIN_MS * 1000 };

	if (!http_sse_event(st->sse, event, id, data, n))
		return false;
	if (http_sse_queued(st->sse) > PAUSE_BYTES && !event_pending(st->drain, EV_TIMEOUT, NULL)) {
		console_link_pause(st->link, true);
		loop_add(st->drain, &tv);
	}
	return true;
}

static bool send_state(struct console_stream *st, const char *state)
{
	char text[48];
	int n = snprintf(text, sizeof(text), "{\"daemon\":\"%s\"}", state);

	return send_frame(st, "state", NULL, text, (size_t)n);
}

static bool on_output(void *ctx, const char *json, size_t n) { return send_frame(ctx, "output", NULL, json, n); }

/* The first frames. False: the page is gone. */
static bool begin_stream(struct console_stream *st)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	struct http_exchange *x = st->x;

	if (st->sse)
		return st->connected || (st->connected = true, send_state(st, "connected"));
	st->x = NULL;
	st->connected = true;
	evtimer_del(st->late);
	st->sse = http_sse_new(st->of->base, x, on_gone, st);
	jw_obj(&w);
	jw_kstr(&w, "stream", st->id);
	jw_kuint(&w, "seq", st->last);
	jw_kstr(&w, "role", st->role);
	jw_kstr(&w, "version", st->version);
	jw_obj_end(&w);
	return send_frame(st, "hello", NULL, out.data, out.len) && send_state(st, "connected");
}

/* ---- the daemon ---- */

static void on_event(void *ctx, struct jval event)
{
	struct console_stream *st = ctx;
	uint64_t sequence = jval_uint(jval_get(event, "sequence"), 0);
	char id[24];

	if (!st->sse || sequence <= st->last)
		return;
	st->last = sequence;
	snprintf(id, sizeof(id), "%" PRIu64, sequence);
	if (send_frame(st, "event", id, event.text, event.len))
		console_watches_event(st->watches, event);
}

static void subscribe(struct console_stream *st);

/* What was asked for is no longer there, or not yet: the log is another one. Continue with what comes next. */
static void skip_expired(struct console_stream *st)
{
	char text[48];
	int n = snprintf(text, sizeof(text), "{\"oldest\":%" PRIu64 "}", st->oldest);

	st->last = st->newest;
	if (begin_stream(st) && send_frame(st, "expired", NULL, text, (size_t)n))
		subscribe(st);
}

static void on_subscribed(void *ctx, struct jval result, struct jval error)
{
	struct console_stream *st = ctx;
	struct http_exchange *x = st->x;
	struct http_sse *sse = st->sse;

	if (remote_broken(error))
		return;
	if (error.type == JT_NONE) {
		if (begin_stream(st))
			console_watches_resume(st->watches);
		return;
	}
	if (st->last + 1 < st->oldest || st->last > st->newest)
		return skip_expired(st);
	/* A limit: the page tries again. */
	free_stream(st);
	if (x)
		console_reply_raw(x, 503, "error", error);
	else
		http_sse_end(sse);
}

static void subscribe(struct console_stream *st)
{
	buf_auto struct buf params = BUF_INIT;

	buf_printf(&params, "{\"afterSequence\":%" PRIu64 "}", st->last);
	console_link_send(st->link, "subscribe_events", &params, on_subscribed, st);
}

static void on_up(void *ctx, struct jval hello)
{
	struct console_stream *st = ctx;

	st->newest = jval_uint(jval_get(hello, "lastSequence"), 0);
	st->oldest = jval_uint(jval_get(hello, "firstSequence"), 0);
	free(st->role);
	free(st->version);
	st->role = jval_strdup(jval_get(hello, "role"));
	st->version = jval_strdup(jval_get(hello, "serverVersion"));
	if (!st->positioned)
		st->last = st->newest;
	st->positioned = true;
	subscribe(st);
}

static void on_down(void *ctx)
{
	struct console_stream *st = ctx;

	if (st->sse && st->connected) {
		st->connected = false;
		send_state(st, "disconnected");
	}
}

/* ---- requests ---- */

void console_stream_open(struct console_session *s, struct http_exchange *x)
{
	static const struct console_link_ops ops = { .up = on_up, .down = on_down, .event = on_event };
	static const struct console_watches_ops watch_ops = { .output = on_output };
	static const struct http_exchange_ops exchange_ops = { .gone = on_gone };
	static const struct timeval late = { CONSOLE_WAIT_MS / 1000, 0 };
	const struct http_request *r = http_exchange_request(x);
	buf_auto struct buf after = BUF_INIT;
	struct console_stream *st;

	int resumes = http_request_query(r, "after", &after);
	if (resumes &&
	    (resumes < 0 || after.len == 0 || after.len > 19 || strspn(after.data, "0123456789") != after.len))
		return console_reply_error(x, 400, "invalid", "after: expected a sequence number");
	if (s->nstreams >= CONSOLE_STREAMS_MOST)
		return console_reply_error(x, 429, "resource_exhausted", "too many tabs of this session are open");
	st = mem_zalloc(1, sizeof(*st));
	*st = (struct console_stream){
		.of = s, .x = x, .positioned = resumes > 0, .last = strtoull(buf_cstr(&after), NULL, 10)
	};
	console_secret_new(st->id);
	st->late = evtimer_new(s->base, on_late, st);
	st->drain = event_new(s->base, -1, EV_PERSIST, on_drain, st);
	if (!st->late || !st->drain)
		abort();
	loop_add(st->late, &late);
	st->link = console_link_new(s->base, s->role, &ops, st);
	st->watches = console_watches_new(s->base, st->link, &watch_ops, st);
	TAILQ_INSERT_TAIL(&s->streams, st, entry);
	s->nstreams++;
	http_exchange_listen(x, &exchange_ops, st);
}

static struct console_stream *find_stream(struct console_session *s, const char *id)
{
	struct console_stream *st;

	TAILQ_FOREACH (st, &s->streams, entry)
		if (strcmp(st->id, id) == 0)
			return st;
	return NULL;
}

void console_stream_watch(struct console_session *s, struct http_exchange *x)
{
	json_auto_t *body = console_reply_body(x);
	const char *id = json_string_value(json_object_get(body, "stream")),
		   *process = json_string_value(json_object_get(body, "processId"));
	const json_t *on = json_object_get(body, "on"), *offset = json_object_get(body, "offset"),
		     *request = json_object_get(body, "request");
	struct console_stream *st = id ? find_stream(s, id) : NULL;

	if (!body)
		return;
	if (!st)
		return console_reply_error(x, 404, "not_found", "stream: this session has no such stream open");
	if (!process)
		return console_reply_error(x, 400, "invalid", "processId: expected the id of a process");
	if (on && !json_is_boolean(on))
		return console_reply_error(x, 400, "invalid", "on: expected true or false");
	if (offset && (!json_is_integer(offset) || json_integer_value(offset) < 0))
		return console_reply_error(x, 400, "invalid", "offset: expected a number of bytes");
	if (request && (!json_is_integer(request) || json_integer_value(request) < 0))
		return console_reply_error(x, 400, "invalid", "request: expected a number, 0 or more");
	if (json_is_false(on)) {
		console_watches_remove(st->watches, process);
		return http_exchange_reply(x, 204, NULL, NULL, 0);
	}
	uint64_t from = (uint64_t)json_integer_value(offset);
	console_watches_add(st->watches, process, offset ? &from : NULL, (uint64_t)json_integer_value(request), x);
}
