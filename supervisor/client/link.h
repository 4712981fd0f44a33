#ifndef BAILIFF_CLIENT_LINK_H
#define BAILIFF_CLIENT_LINK_H

/*
 * A struct remote in a libevent loop: one event for its descriptor and one timer for its reconnects, both rearmed after
 * each poll and each request. The link owns the remote.
 *
 * Callbacks come only from the loop, never from link_send. A link must not be freed in one of them; use a timer of 0 ms
 * instead.
 */

#include "supervisor/client/remote.h"

#include <stdbool.h>

struct event_base;
struct link;

struct link_ops {
	void (*connected)(void *ctx);                 /* after a reconnect; or NULL */
	void (*disconnected)(void *ctx);              /* reconnecting from now on; or NULL */
	void (*event)(void *ctx, struct jval event);  /* or NULL */
	void (*lost)(void *ctx, const struct err *e); /* the daemon cannot be reached: no callback follows */
};

struct link *link_new(struct event_base *base, struct remote *r, const struct link_ops *ops, void *ctx);
void link_free(struct link *l);
void link_send(struct link *l, const char *method, const struct buf *params, remote_reply_fn fn, void *ctx);
void link_send_once(struct link *l, const char *method, const struct buf *params, remote_reply_fn fn,
		    void *ctx);             /* as remote_send_once */
struct remote *link_remote(struct link *l); /* for remote_key, remote_start_none */
/* Stops reading; the full socket then throttles the daemon. */
void link_pause(struct link *l, bool paused);

#endif
