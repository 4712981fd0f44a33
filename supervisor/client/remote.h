#ifndef BAILIFF_CLIENT_REMOTE_H
#define BAILIFF_CLIENT_REMOTE_H

/*
 * A client's end of the control socket: the command line's and the gateways'.
 *
 * Requests may be pipelined; each is answered through its callback, in any order. When the connection breaks because
 * the daemon restarts, it connects again (backing off up to a second between attempts), calls `connected` and sends
 * every unanswered request once more. That is safe: reading twice is harmless, and every mutating request carries an
 * idempotency key (remote_key), so that nothing is started, written or signalled twice. Subscriptions end with their
 * connection; `connected` subscribes again, from the last sequence number seen.
 *
 * A caller with other descriptors to watch uses remote_prepare_poll and remote_process_poll around its own poll; others
 * use remote_call.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct jw;
struct pollfd;
struct remote;

/* Exactly one of result and error is set (the other has type JT_NONE); both point into a buffer that the next poll
 * reuses. */
typedef void (*remote_reply_fn)(void *ctx, struct jval result, struct jval error);

struct remote_options {
	bool start;          /* start an embedded daemon when none answers */
	bool start_if_store; /* … but only where there is a store already */
	/*
	 * For callers that serve others meanwhile: nothing blocks, neither for a daemon without space for another
	 * connection nor for one that has to be started first; polls continue the attempt, and the last one reports
	 * failure.
	 */
	bool later;
};

/* ERR_UNAVAILABLE when no daemon answers; with `later` only if none can be started. */
int remote_open(const struct remote_options *o, struct remote **ret, struct err *e);
void remote_free(struct remote *r);
const char *remote_socket_path(const struct remote *r);
const char *remote_kind(const struct remote *r); /* home.h's kind */

/*
 * The first request of this connection and of every one after it, before any that is sent again: where a connection
 * gives up a role, nothing may run earlier. Its replies on later connections are ignored.
 */
int remote_handshake(struct remote *r, const char *method, const struct buf *params, struct err *e);
void remote_handshake_async(struct remote *r, const char *method, const struct buf *params, remote_reply_fn fn,
			    void *ctx);

/* From now on no daemon is started: a client that is about to exit needs none. */
void remote_start_none(struct remote *r);

/* `connected` is called after each reconnect (not the first connect); `event` for each notified event. */
void remote_listen(struct remote *r, void (*connected)(void *ctx), void (*event)(void *ctx, struct jval event),
		   void *ctx);

/* `params`: a JSON object's text, or NULL for none. fn may be NULL. */
void remote_send(struct remote *r, const char *method, const struct buf *params, remote_reply_fn fn, void *ctx);
/* The same, but not sent again: answered with an error that is remote_broken when the connection breaks first. */
void remote_send_once(struct remote *r, const char *method, const struct buf *params, remote_reply_fn fn, void *ctx);
bool remote_broken(struct jval error);
/* Writes "idempotencyKey": a new one for each call. */
void remote_key(struct remote *r, struct jw *w);

/* Fills *p (fd −1 while disconnected) and returns the longest time to poll for, −1 = as long as it takes. */
int remote_prepare_poll(struct remote *r, bool want_input, struct pollfd *p);
/* After poll: reads, writes, dispatches, reconnects. −1 when the daemon cannot be reached. */
int remote_process_poll(struct remote *r, short revents, struct err *e);

/* The text of an answer; result or error point into it. */
struct remote_answer {
	struct buf text;
	struct jval result;
	struct jval error;
	bool done;
};
#define REMOTE_ANSWER_INIT ((struct remote_answer){ 0 })
void remote_answer_done(struct remote_answer *a);
#define remote_answer_auto __attribute__((cleanup(remote_answer_done)))
/* A remote_reply_fn that fills a struct remote_answer. */
void remote_answer_fill(void *answer, struct jval result, struct jval error);

/* Sends and waits; an answer with an error is −1 with *e filled, and stays readable in *ret. */
int remote_call(struct remote *r, const char *method, const struct buf *params, struct remote_answer *ret,
		struct err *e);
int remote_call_once(struct remote *r, const char *method, const struct buf *params, struct remote_answer *ret,
		     struct err *e);
/* Waits until `a` (given to remote_send with remote_answer_fill) is there; result as remote_call. */
int remote_await(struct remote *r, struct remote_answer *a, struct err *e);

/* A JSON-RPC error object as struct err; returns −1. */
int remote_error(struct jval error, struct err *e);

#endif
