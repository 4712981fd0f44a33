#ifndef BAILIFF_GATEWAY_HTTP_CONSOLE_WATCH_H
#define BAILIFF_GATEWAY_HTTP_CONSOLE_WATCH_H

/*
 * The processes whose output a page follows, on the connection of its event stream.
 *
 * It works like `bailiff attach`: process.output events say that there is more, and read_output returns the bytes, as
 * base64 and in pieces, one request at a time for each stream. So the bytes are exact and in order, and nothing is read
 * faster than the page takes it, because its event stream pauses the connection. After a reconnect reading continues
 * where it was.
 */

#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stdint.h>

struct console_link;
struct console_watches;
struct event_base;
struct http_exchange;

#define CONSOLE_WATCHES_MOST 32

struct console_watches_ops {
	/* Sends {"processId","stream","offset","request","data"}. False: the page is gone, and the watches were freed.
	 */
	bool (*output)(void *ctx, const char *json, size_t n);
};

/* `link` is borrowed. */
struct console_watches *console_watches_new(struct event_base *base, struct console_link *link,
					    const struct console_watches_ops *ops, void *ctx);
/* After the link was freed. Exchanges without a response get 503. */
void console_watches_free(struct console_watches *w);
/*
 * Follows the output of a process from an offset of each stream on; NULL: from now on. Responds through the exchange:
 * 204, the daemon's error with 404, or 503 if it does not answer within CONSOLE_WAIT_MS. A process that is followed
 * already continues there. `request` is repeated with the bytes, so that the page can tell those of this request from
 * those of an earlier one, which may still be on their way.
 */
void console_watches_add(struct console_watches *w, const char *process_id, const uint64_t *offset, uint64_t request,
			 struct http_exchange *x);
void console_watches_remove(struct console_watches *w, const char *process_id);
/* An event of the log. */
void console_watches_event(struct console_watches *w, struct jval event);
/* The link is up again. */
void console_watches_resume(struct console_watches *w);

/* The daemon's name of the stream that the console calls "stdout", "stderr" or "terminal"; NULL for any other name. */
const char *console_watch_stream(const char *name);

#endif
