#ifndef BAILIFF_FUZZ_FAKE_SESSION_H
#define BAILIFF_FUZZ_FAKE_SESSION_H

/*
 * A gateway's session (supervisor/gateway/session.h) without a daemon, in the place of the real one: requests are kept
 * until the target answers them. The target sets FAKE_SESSION_ASKS_NOBODY to 1 if no person's answer may ever go out,
 * and `mood` from its input.
 */

#include "runtime/base/mem.h"
#include "supervisor/gateway/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

struct request {
	TAILQ_ENTRY(request) entry;
	char method[64];
	session_reply_fn fn;
	void *ctx;
};

struct session {
	struct session_ops ops;
	void *ctx;
	bool ready;
	TAILQ_HEAD(, request) requests;
	size_t n;
};

static struct session *up; /* the only one there is */
static uint8_t mood;

int session_open(const struct session_options *o, const struct session_ops *ops, void *ctx, struct session **ret,
		 struct err *e)
{
	up = mem_zalloc(1, sizeof(*up));
	up->ops = *ops;
	up->ctx = ctx;
	TAILQ_INIT(&up->requests);
	*ret = up;
	return 0;
}

void session_free(struct session *s)
{
	struct request *q;

	if (!s)
		return;
	while ((q = TAILQ_FIRST(&s->requests))) {
		TAILQ_REMOVE(&s->requests, q, entry);
		free(q);
	}
	free(s);
	up = NULL;
}

void session_leave(struct session *s, session_left_fn fn, void *ctx)
{
	session_free(s);
	fn(ctx, mood & 1);
}

bool session_ready(const struct session *s) { return s && s->ready; }

int session_again(struct session *s, struct err *e) { return 0; }

const char *session_id(const struct session *s) { return "sess_1"; }

const char *session_channel_id(const struct session *s) { return "chan_1"; }

void session_ask(struct session *s, const char *method, json_t *params, session_reply_fn fn, void *ctx)
{
	struct request *q = mem_zalloc(1, sizeof(*q));

	if (params && !json_is_object(params))
		abort();
	json_decref(params);
	snprintf(q->method, sizeof(q->method), "%s", method);
	q->fn = fn;
	q->ctx = ctx;
	TAILQ_INSERT_TAIL(&s->requests, q, entry);
	s->n++;
}

void session_act(struct session *s, const char *method, json_t *params, const char *traceparent, session_reply_fn fn,
		 void *ctx)
{
	session_ask(s, method, params, fn, ctx);
}

void session_offer(struct session *s, const char *method, json_t *params, const char *traceparent)
{
	session_ask(s, method, params, NULL, NULL);
}

void session_start(struct session *s, json_t *params, const char *traceparent, session_reply_fn fn, void *ctx)
{
	if (!json_array_size(json_object_get(params, "command")) &&
	    !json_is_string(json_object_get(params, "commandLine")))
		abort();
	session_ask(s, "start_process", params, fn, ctx);
}

void session_create_task(struct session *s, json_t *params, const char *traceparent, session_reply_fn fn, void *ctx)
{
	session_ask(s, "create_task", params, fn, ctx);
}

void session_answer(struct session *s, const char *method, json_t *params, session_reply_fn fn, void *ctx)
{
	if (FAKE_SESSION_ASKS_NOBODY)
		abort();
	session_ask(s, method, params, fn, ctx);
}

void session_retitle(struct session *s, const char *folder)
{
	if (!folder)
		abort();
}

void session_forget(struct session *s, const void *ctx)
{
	struct request *q;

	TAILQ_FOREACH (q, &s->requests, entry)
		if (q->ctx == ctx)
			q->fn = NULL;
}

void session_release(struct session *s, const void *ctx) { session_forget(s, ctx); }

size_t session_under_way(const struct session *s) { return s->n; }

/* The next one to answer, for free(); NULL = none waits. */
static struct request *fake_session_take(void)
{
	struct request *q = up ? TAILQ_FIRST(&up->requests) : NULL;

	if (q) {
		TAILQ_REMOVE(&up->requests, q, entry);
		up->n--;
	}
	return q;
}

#endif
