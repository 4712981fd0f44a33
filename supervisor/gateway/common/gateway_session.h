#ifndef BAILIFF_GATEWAY_GATEWAY_SESSION_H
#define BAILIFF_GATEWAY_GATEWAY_SESSION_H

/*
 * A gateway client's connection to the daemon: a connection limited to the role agent, a channel that names the
 * client's protocol, a bailiff session in which everything runs for the client, and that session's events.
 *
 * Opening never blocks, since the gateway serves other clients: `ready` is called when the channel is connected, and
 * requests may be sent only then. It fails if that takes more than half a minute. A session survives a restart of the
 * daemon: pending requests are sent again (mutating ones carry an idempotency key, so that nothing is done twice), the
 * channel is resumed, and events continue after the last one received. If the daemon is unreachable for half a minute,
 * the session is lost: every request gets an error, `ready` is called with the reason, and gateway_session_reconnect
 * starts again.
 *
 * The role agent may not answer approvals. gateway_session_answer therefore opens a second connection with the role of
 * the user who runs the gateway, bound to the channel, so that the log records through which client a person decided.
 * A gateway must call it only with an answer that a person gave through its client.
 *
 * JSON is jansson's here, because gateways build and modify trees. The session takes ownership of `params`, which may
 * be NULL. Results and errors are borrowed and valid only during the callback.
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
	void (*resumed)(void *ctx); /* there is another connection: what belonged to the old one is gone; or NULL */
};

struct gateway_session_options {
	struct event_base *base;
	const char *client_name, *client_version; /* of the gateway's client; may be NULL */
	const char *native_protocol;              /* "mcp", "codex", "acp" */
	const char *transport;                    /* connect_channel's: stdio, http_json, … */
	bool asks;              /* the client can ask its user: the channel has the capability "permissions" */
	const char *session_id; /* an existing session, or NULL: create one … */
	const char *folder;     /* … titled with the client and this directory; or NULL */
	bool reads_only;        /* no channel and no session, only gateway_session_query */
};

/* −1: no daemon is available. */
int gateway_session_open(const struct gateway_session_options *o, const struct gateway_session_ops *ops, void *ctx,
			 struct gateway_session **ret, struct err *e);
/*
 * May be called at any time, also from callbacks; no callback follows. The object stays alive for a few seconds at
 * most, until the daemon has answered the requests already sent, so that terminations take effect; then the connections
 * are closed.
 */
void gateway_session_free(struct gateway_session *s);
/*
 * Like gateway_session_free; finally reports whether the daemon answered every request. Not valid after
 * gateway_session_free.
 */
typedef void (*gateway_session_left_fn)(void *ctx, bool answered);
void gateway_session_close(struct gateway_session *s, gateway_session_left_fn fn, void *ctx);
bool gateway_session_ready(const struct gateway_session *s);
/* Reconnects a lost session; `ready` will be called. −1 as for gateway_session_open. */
int gateway_session_reconnect(struct gateway_session *s, struct err *e);

/* Sets the directory in the title, if the session was created here. */
void gateway_session_retitle(struct gateway_session *s, const char *folder);
const char *gateway_session_id(const struct gateway_session *s); /* of the daemon's session; "" until ready */
const char *gateway_session_channel_id(const struct gateway_session *s);

/* Sends a read-only request. */
void gateway_session_query(struct gateway_session *s, const char *method, json_t *params, gateway_session_reply_fn fn,
			   void *ctx);
/*
 * Sends a mutating request with an idempotency key (a new one, unless params has one) and, unless NULL, the caller's
 * traceparent.
 */
void gateway_session_mutate(struct gateway_session *s, const char *method, json_t *params, const char *traceparent,
			    gateway_session_reply_fn fn, void *ctx);
/*
 * Like gateway_session_mutate, best effort: the reply is discarded, and closing does not wait for it. For input to a
 * process.
 */
void gateway_session_mutate_async(struct gateway_session *s, const char *method, json_t *params,
				  const char *traceparent);
/* terminate_process; the reply is discarded, but closing waits for it. */
void gateway_session_terminate(struct gateway_session *s, const char *process_id, const char *reason);
/* start_process in this session. If its callback was cancelled before the reply arrives, the process is terminated. */
void gateway_session_start(struct gateway_session *s, json_t *params, const char *traceparent,
			   gateway_session_reply_fn fn, void *ctx);
/* create_task in this session. If its callback was cancelled before the reply arrives, the task is cancelled. */
void gateway_session_create_task(struct gateway_session *s, json_t *params, const char *traceparent,
				 gateway_session_reply_fn fn, void *ctx);
/* Cancels all callbacks with this ctx. */
void gateway_session_cancel_callbacks(struct gateway_session *s, const void *ctx);
/* Like gateway_session_cancel_callbacks, but processes and tasks that are being created are kept. */
void gateway_session_detach_callbacks(struct gateway_session *s, const void *ctx);
/*
 * Like gateway_session_mutate, with the authority of the person who decided: respond_action, apply_changes,
 * discard_changes, set_permission_mode.
 */
void gateway_session_answer(struct gateway_session *s, const char *method, json_t *params, gateway_session_reply_fn fn,
			    void *ctx);

#endif
