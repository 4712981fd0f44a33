#ifndef BAILIFF_GATEWAY_GATEWAY_SESSION_H
#define BAILIFF_GATEWAY_GATEWAY_SESSION_H

/*
 * A gateway client's side of the daemon: a connection limited to the role agent, a channel that names the client's
 * protocol, a bailiff session in which everything runs for the client, and that session's events.
 *
 * Opening never blocks, since the gateway serves other clients: `ready` is called when the channel is connected, and
 * requests may be sent only then. It fails if that takes more than half a minute. A session survives a restart of the
 * daemon: pending requests are sent again (mutating ones carry an idempotency key, so that nothing is done twice), the
 * channel is resumed, and events continue where they stopped. If the daemon is away for half a minute, the session is
 * lost: every request gets an error, `ready` is called with the reason, and gateway_session_reconnect starts again.
 *
 * Answers to questions of permission do not go over this connection, which could not give them: gateway_session_answer
 * opens one more, with the role of the user who runs the gateway and in the channel's name, so that the record says
 * through which client a person decided. A gateway calls it only with what a person has said through its client.
 *
 * JSON is jansson's here, because gateways build and take apart trees. `params` is always taken over and may be NULL;
 * results and errors belong to the session and end with the callback.
 */

#include "runtime/base/jscan.h"

#include <jansson.h>
#include <stdbool.h>

struct err;
struct event_base;
struct gateway_session;

/* One of result and error is not NULL; error is the daemon's: {code, message, data}. */
typedef void (*gateway_session_reply_fn)(void *ctx, json_t *result, json_t *error);

struct gateway_session_ops {
	void (*ready)(void *ctx, const struct err *failed); /* failed NULL: requests may be sent */
	void (*event)(void *ctx, struct jval event);        /* each event of the session, in order; or NULL */
};

struct gateway_session_options {
	struct event_base *base;
	const char *client_name, *client_version; /* of whoever speaks to us; may be NULL */
	const char *native_protocol;              /* "mcp", "codex" */
	const char *transport;                    /* connect_channel's: stdio, http_json, … */
	bool asks;              /* the client can ask its user: the channel has the capability "permissions" */
	const char *session_id; /* to go on in, or NULL: made … */
	const char *folder;     /* … with a title that names the client and this folder; or NULL */
};

/* −1: no daemon is available. */
int gateway_session_open(const struct gateway_session_options *o, const struct gateway_session_ops *ops, void *ctx,
			 struct gateway_session **ret, struct err *e);
/*
 * May be called at any time, also from callbacks, none of which comes afterwards. Lets the daemon answer what was sent
 * (a few seconds at most), so that what was asked to end has ended; then the connections are closed.
 */
void gateway_session_free(struct gateway_session *s);
/* The same, and says in the end whether the daemon has answered everything. Not of one that was freed. */
typedef void (*gateway_session_left_fn)(void *ctx, bool answered);
void gateway_session_close(struct gateway_session *s, gateway_session_left_fn fn, void *ctx);
bool gateway_session_ready(const struct gateway_session *s);
/* After it was lost: connects again; `ready` will be called. −1 as gateway_session_open. */
int gateway_session_reconnect(struct gateway_session *s, struct err *e);

/* The client works there: the title of a session that was made for it says so. */
void gateway_session_retitle(struct gateway_session *s, const char *folder);
const char *gateway_session_id(const struct gateway_session *s); /* of the daemon's session; "" until ready */
const char *gateway_session_channel_id(const struct gateway_session *s);

/* A reading request. */
void gateway_session_query(struct gateway_session *s, const char *method, json_t *params, gateway_session_reply_fn fn,
			   void *ctx);
/* A mutating one: with an idempotency key (a new one, unless params has one), and the caller's traceparent unless NULL.
 */
void gateway_session_mutate(struct gateway_session *s, const char *method, json_t *params, const char *traceparent,
			    gateway_session_reply_fn fn, void *ctx);
/* The same of what may be taken late or never, like input for a process: nobody hears of it, and who leaves does not
 * wait for it. */
void gateway_session_mutate_async(struct gateway_session *s, const char *method, json_t *params,
				  const char *traceparent);
/* start_process in this session; if it was forgotten when the answer comes, the process is terminated. */
void gateway_session_start(struct gateway_session *s, json_t *params, const char *traceparent,
			   gateway_session_reply_fn fn, void *ctx);
/* create_task in this session; if it was forgotten when the answer comes, the task is cancelled. */
void gateway_session_create_task(struct gateway_session *s, json_t *params, const char *traceparent,
				 gateway_session_reply_fn fn, void *ctx);
/* No callback with this ctx will follow. */
void gateway_session_cancel_callbacks(struct gateway_session *s, const void *ctx);
/* The same, but what it starts or creates stays. */
void gateway_session_detach_callbacks(struct gateway_session *s, const void *ctx);
/* Requests that were not answered. */
size_t gateway_session_under_way(const struct gateway_session *s);
/* Like gateway_session_mutate, but as the person through whom it was decided: respond_action, apply_changes,
 * discard_changes. */
void gateway_session_answer(struct gateway_session *s, const char *method, json_t *params, gateway_session_reply_fn fn,
			    void *ctx);

#endif
