#include "supervisor/gateway/http/console_session.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/http/console_link.h"
#include "supervisor/gateway/http/console_stream.h"

#include <event2/event.h>
#include <string.h>

struct console_call {
	TAILQ_ENTRY(console_call) entry;
	struct console_session *of;
	char *method;
	struct buf params;
	bool repeatable, sent;
	struct event *late; /* runs while it waits for a connection */
	console_reply_fn fn;
	void *ctx;
};

/* ---- methods ---- */

enum method_kind { METHOD_READING, METHOD_MUTATING, METHOD_FORWARDED, METHOD_UNKNOWN };

static const struct {
	const char *name;
	enum method_kind kind;
} methods[] = {
#define MEMBERS(name)
#define METHOD(name, role, kind, flags, summary) { #name, METHOD_##kind },
#define PARAM(name, type, flags, detail, summary)
#define OBJECT(name, members, flags, summary)
#define END()
#include "supervisor/control/methods.def"
#undef MEMBERS
#undef METHOD
#undef PARAM
#undef OBJECT
#undef END
};

static enum method_kind kind_of(const char *method)
{
	for (size_t i = 0; i < countof(methods); i++)
		if (strcmp(methods[i].name, method) == 0)
			return methods[i].kind;
	return METHOD_UNKNOWN;
}

const char *console_method_refused(const char *method)
{
	static const struct {
		const char *name, *why;
	} rows[] = {
		{ "initialize",
		  "method: initialize is sent when the session begins; log in with another role instead" },
		{ "open_output", "method: open_output passes a descriptor; use GET /api/output instead" },
		{ "subscribe_events", "method: subscribe_events is not available here; use GET /api/stream instead" },
		{ "unsubscribe_events",
		  "method: unsubscribe_events is not available here; close GET /api/stream instead" },
		{ "connect_channel", "method: connect_channel needs a connection of its own; use the control socket" },
		{ "reconnect_channel",
		  "method: reconnect_channel needs a connection of its own; use the control socket" },
		{ "register_tools", "method: register_tools needs a connection of its own; use the control socket" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		if (strcmp(rows[i].name, method) == 0)
			return rows[i].why;
	return NULL;
}

/* ---- calls ---- */

static void free_call(struct console_call *c)
{
	TAILQ_REMOVE(&c->of->calls, c, entry);
	c->of->ncalls--;
	event_free(c->late);
	buf_done(&c->params);
	free(c->method);
	free(c);
}

static void finish_call(struct console_call *c, unsigned status, struct jval result, struct jval error)
{
	console_reply_fn fn = c->fn;
	void *ctx = c->ctx;

	free_call(c);
	if (fn)
		fn(ctx, status, result, error);
}

static void fail_call(struct console_call *c, const char *error)
{
	finish_call(c, 503, (struct jval){ 0 }, jval_of(error, strlen(error)));
}

static void on_reply(void *ctx, struct jval result, struct jval error)
{
	struct console_call *c = ctx;

	if (!remote_broken(error))
		return finish_call(c, 200, result, error);
	c->sent = false;
	if (!c->repeatable)
		return fail_call(c, "{\"code\":\"unavailable\",\"message\":\"the connection to the daemon broke before "
				    "the reply; whether it was done is not known\"}");
	struct timeval tv = { CONSOLE_WAIT_MS / 1000, 0 };
	loop_add(c->late, &tv);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	fail_call(arg, "{\"code\":\"unavailable\",\"message\":\"the daemon does not answer\",\"hint\":\"bailiff doctor "
		       "says why; a daemon that was stopped starts with the next bailiff run\"}");
}

static void send_call(struct console_call *c)
{
	c->sent = true;
	evtimer_del(c->late);
	console_link_send(c->of->link, c->method, &c->params, on_reply, c);
}

/* The daemon may drop the connection again while these are sent, so each is checked. */
static void on_up(void *ctx, struct jval hello)
{
	struct console_session *s = ctx;
	struct console_call *c, *next;

	for (c = TAILQ_FIRST(&s->calls); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (!c->sent && console_link_is_up(s->link))
			send_call(c);
	}
}

/* A key is added to what takes one, so that it can be sent again. */
static void write_params(struct console_call *c, const json_t *given, enum method_kind kind)
{
	json_auto_t *params = given ? json_copy((json_t *)given) : json_object();

	if ((kind == METHOD_MUTATING || kind == METHOD_FORWARDED) && !json_object_get(params, "idempotencyKey")) {
		char key[CONSOLE_SECRET_TEXT], text[CONSOLE_SECRET_TEXT + 8];

		console_secret_new(key);
		snprintf(text, sizeof(text), "console-%.32s", key);
		json_object_set_new(params, "idempotencyKey", json_string(text));
	}
	mem_auto char *text = json_dumps(params, JSON_COMPACT);
	buf_str(&c->params, text);
}

struct console_call *console_session_call(struct console_session *s, const char *method, const json_t *params,
					  console_reply_fn fn, void *ctx)
{
	struct console_call *c = mem_zalloc(1, sizeof(*c));
	enum method_kind kind = kind_of(method);
	struct timeval tv = { CONSOLE_WAIT_MS / 1000, 0 };

	*c = (struct console_call){
		.of = s, .method = mem_strdup(method), .repeatable = kind != METHOD_UNKNOWN, .fn = fn, .ctx = ctx
	};
	write_params(c, params, kind);
	c->late = evtimer_new(s->base, on_late, c);
	if (!c->late)
		abort();
	TAILQ_INSERT_TAIL(&s->calls, c, entry);
	s->ncalls++;
	if (console_link_is_up(s->link))
		send_call(c);
	else
		loop_add(c->late, &tv);
	return c;
}

void console_call_cancel(struct console_call *c) { c->fn = NULL; }

/* ---- sessions ---- */

struct console_session *console_session_new(struct event_base *base, const struct console_code *code)
{
	static const struct console_link_ops ops = { .up = on_up };
	struct console_session *s = mem_zalloc(1, sizeof(*s));

	s->base = base;
	console_secret_new(s->cookie);
	console_secret_new(s->key);
	snprintf(s->role, sizeof(s->role), "%s", code->role);
	snprintf(s->principal, sizeof(s->principal), "%s", code->principal);
	TAILQ_INIT(&s->calls);
	TAILQ_INIT(&s->downloads);
	TAILQ_INIT(&s->streams);
	s->link = console_link_new(base, s->role, &ops, s);
	return s;
}

void console_session_free(struct console_session *s)
{
	struct console_stream *stream;
	struct console_call *c;

	while ((stream = TAILQ_FIRST(&s->streams)))
		console_stream_free(stream);
	console_link_free(s->link);
	while ((c = TAILQ_FIRST(&s->calls)))
		fail_call(c, "{\"code\":\"unavailable\",\"message\":\"the console's session has ended\"}");
	free(s);
}
