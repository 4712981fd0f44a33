#ifndef BAILIFF_CLIENT_REMOTE_H
#define BAILIFF_CLIENT_REMOTE_H

/*
 * The client's end of the control socket, used by the command line and the gateways.
 *
 * Requests may be pipelined; each is answered through its callback, in any order. When the connection breaks because
 * the daemon restarts, it reconnects (backing off up to a second between attempts), calls `connected` and resends every
 * unanswered request. That is safe: reading twice is harmless, and every mutating request carries an idempotency key
 * (remote_key), so that nothing is started, written or signalled twice. Subscriptions end with their connection;
 * `connected` must subscribe again, from the last sequence number seen.
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

/*
 * Exactly one of result and error is set (the other has type JT_NONE). Both point into a buffer that the next poll
 * reuses.
 */
typedef void (*remote_reply_fn)(void *ctx, struct jval result, struct jval error);

struct remote_options {
	bool start;          /* start an embedded daemon when none answers */
	bool start_if_store; /* … but only if there is a store already */
	/*
	 * For callers that serve others meanwhile: nothing blocks, neither on a daemon whose backlog is full nor on one
	 * that must be started first. Polls continue the attempt and finally report failure.
	 */
	bool later;
};

/* ERR_UNAVAILABLE if no daemon answers; with `later` only if none can be started. */
int remote_open(const struct remote_options *o, struct remote **ret, struct err *e);
void remote_free(struct remote *r);
const char *remote_socket_path(const struct remote *r);
const char *remote_kind(const struct remote *r); /* `kind` of struct home */

/*
 * Sends the first request of this connection. It is repeated first on every later connection, before any request that
 * is resent: a connection that gives up a role must do so before anything else runs. Replies on later connections are
 * ignored.
 */
int remote_handshake(struct remote *r, const char *method, const struct buf *params, struct err *e);
void remote_handshake_async(struct remote *r, const char *method, const struct buf *params, remote_reply_fn fn,
			    void *ctx);

/* No daemon is started from now on: a client that is about to exit needs none. */
void remote_start_none(struct remote *r);

/* `connected` is called after each reconnect (not the first connect); `event` for each notified event. */
void remote_listen(struct remote *r, void (*connected)(void *ctx), void (*event)(void *ctx, struct jval event),
		   void *ctx);

/* `params`: the text of a JSON object, or NULL. fn may be NULL. */
void remote_send(struct remote *r, const char *method, const struct buf *params, remote_reply_fn fn, void *ctx);
/*
 * Like remote_send, but not resent: if the connection breaks first, the reply is an error for which remote_broken is
 * true.
 */
void remote_send_once(struct remote *r, const char *method, const struct buf *params, remote_reply_fn fn, void *ctx);
bool remote_broken(struct jval error);
/* For the callback of open_output: the descriptor that came with the reply, now the caller's; −1 if there is none. */
int remote_take_fd(struct remote *r);
/* Writes "idempotencyKey": a new one for each call. */
void remote_key(struct remote *r, struct jw *w);

/* Fills *p (fd −1 while disconnected) and returns the timeout for poll; −1: no timeout. */
int remote_prepare_poll(struct remote *r, bool want_input, struct pollfd *p);
/* After poll: reads, writes, dispatches, reconnects. −1 if the daemon cannot be reached. */
int remote_process_poll(struct remote *r, short revents, struct err *e);

/* A reply; result and error point into `text`. */
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

/* Sends a request and waits. An error reply returns −1 with *e filled, and stays readable in *ret. */
int remote_call(struct remote *r, const char *method, const struct buf *params, struct remote_answer *ret,
		struct err *e);
int remote_call_once(struct remote *r, const char *method, const struct buf *params, struct remote_answer *ret,
		     struct err *e);
/* Waits until `a` (passed to remote_send with remote_answer_fill) is filled; returns as remote_call. */
int remote_await(struct remote *r, struct remote_answer *a, struct err *e);

/* Converts a JSON-RPC error object to struct err; returns −1. */
int remote_error(struct jval error, struct err *e);

#endif
