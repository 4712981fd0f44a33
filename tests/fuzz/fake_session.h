#ifndef BAILIFF_FUZZ_FAKE_SESSION_H
#define BAILIFF_FUZZ_FAKE_SESSION_H

/*
 * A gateway's session (supervisor/gateway/common/gateway_session.h) without a daemon, in place of the real one:
 * requests are kept until the target answers them. The target sets FAKE_SESSION_NO_ANSWERS to 1 if a person's answer
 * must never be sent, and `mood` from its input.
 */

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/gateway_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

struct request {
	TAILQ_ENTRY(request) entry;
	char method[64];
	gateway_session_reply_fn fn;
	void *ctx;
};

struct gateway_session {
	struct gateway_session_ops ops;
	void *ctx;
	bool ready;
	TAILQ_HEAD(, request) requests;
};

static struct gateway_session *up; /* the only one there is */
static uint8_t mood;

int gateway_session_open(const struct gateway_session_options *o, const struct gateway_session_ops *ops, void *ctx,
			 struct gateway_session **ret, struct err *e)
{
	if (up)
		return err_set(e, ERR_UNAVAILABLE, "there is only one session");
	up = mem_zalloc(1, sizeof(*up));
	up->ops = *ops;
	up->ctx = ctx;
	TAILQ_INIT(&up->requests);
	*ret = up;
	return 0;
}

void gateway_session_free(struct gateway_session *s)
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

void gateway_session_close(struct gateway_session *s, gateway_session_left_fn fn, void *ctx)
{
	gateway_session_free(s);
	fn(ctx, mood & 1);
}

bool gateway_session_ready(const struct gateway_session *s) { return s && s->ready; }

int gateway_session_reconnect(struct gateway_session *s, struct err *e) { return 0; }

const char *gateway_session_id(const struct gateway_session *s) { return "sess_1"; }

const char *gateway_session_channel_id(const struct gateway_session *s) { return "chan_1"; }

void gateway_session_query(struct gateway_session *s, const char *method, json_t *params, gateway_session_reply_fn fn,
			   void *ctx)
{
	struct request *q = mem_zalloc(1, sizeof(*q));

	if (params && !json_is_object(params))
		abort();
	json_decref(params);
	snprintf(q->method, sizeof(q->method), "%s", method);
	q->fn = fn;
	q->ctx = ctx;
	TAILQ_INSERT_TAIL(&s->requests, q, entry);
}

void gateway_session_mutate(struct gateway_session *s, const char *method, json_t *params, const char *traceparent,
			    gateway_session_reply_fn fn, void *ctx)
{
	gateway_session_query(s, method, params, fn, ctx);
}

void gateway_session_terminate(struct gateway_session *s, const char *process_id, const char *reason)
{
	gateway_session_query(s, "terminate_process", json_pack("{ss ss}", "processId", process_id, "reason", reason),
			      NULL, NULL);
}

void gateway_session_mutate_async(struct gateway_session *s, const char *method, json_t *params,
				  const char *traceparent)
{
	gateway_session_query(s, method, params, NULL, NULL);
}

void gateway_session_start(struct gateway_session *s, json_t *params, const char *traceparent,
			   gateway_session_reply_fn fn, void *ctx)
{
	if (!json_array_size(json_object_get(params, "command")) &&
	    !json_is_string(json_object_get(params, "commandLine")))
		abort();
	gateway_session_query(s, "start_process", params, fn, ctx);
}

void gateway_session_create_task(struct gateway_session *s, json_t *params, const char *traceparent,
				 gateway_session_reply_fn fn, void *ctx)
{
	gateway_session_query(s, "create_task", params, fn, ctx);
}

void gateway_session_answer(struct gateway_session *s, const char *method, json_t *params, gateway_session_reply_fn fn,
			    void *ctx)
{
	if (FAKE_SESSION_NO_ANSWERS)
		abort();
	gateway_session_query(s, method, params, fn, ctx);
}

void gateway_session_retitle(struct gateway_session *s, const char *folder)
{
	if (!folder)
		abort();
}

void gateway_session_cancel_callbacks(struct gateway_session *s, const void *ctx)
{
	struct request *q;

	TAILQ_FOREACH (q, &s->requests, entry)
		if (q->ctx == ctx)
			q->fn = NULL;
}

void gateway_session_detach_callbacks(struct gateway_session *s, const void *ctx)
{
	gateway_session_cancel_callbacks(s, ctx);
}

/* The next request to answer, for free(); NULL: none waits. */
static struct request *fake_session_take(void)
{
	struct request *q = up ? TAILQ_FIRST(&up->requests) : NULL;

	if (q)
		TAILQ_REMOVE(&up->requests, q, entry);
	return q;
}

#endif
