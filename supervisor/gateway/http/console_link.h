#ifndef BAILIFF_GATEWAY_HTTP_CONSOLE_LINK_H
#define BAILIFF_GATEWAY_HTTP_CONSOLE_LINK_H

/*
 * A connection to the daemon with a role, kept for as long as the object exists: after each loss it connects again, and
 * `up` is called with the new connection's initialize reply. Nothing is resent: a request whose connection broke is
 * answered with an error for which remote_broken is true, before `down` is called. A daemon that does not run is not
 * started: the console shows that it is gone.
 *
 * Callbacks come only from the loop. The object may be freed in one of them.
 */

#include "supervisor/client/remote.h"

#include <stdbool.h>

struct console_link;
struct event_base;

struct console_link_ops {
	void (*up)(void *ctx, struct jval hello);    /* requests may be sent from now on */
	void (*down)(void *ctx);                     /* … and no longer; or NULL */
	void (*event)(void *ctx, struct jval event); /* or NULL */
};

/* role "": the one that the user has. */
struct console_link *console_link_new(struct event_base *base, const char *role, const struct console_link_ops *ops,
				      void *ctx);
void console_link_free(struct console_link *l);
bool console_link_is_up(const struct console_link *l);
/* Must be up. No callback follows console_link_free. */
void console_link_send(struct console_link *l, const char *method, const struct buf *params, remote_reply_fn fn,
		       void *ctx);
/* Stops reading, also after a reconnect; the daemon then waits. */
void console_link_pause(struct console_link *l, bool paused);

#endif
