#ifndef BAILIFF_GATEWAY_HTTP_CONSOLE_STREAM_H
#define BAILIFF_GATEWAY_HTTP_CONSOLE_STREAM_H

/*
 * GET /api/stream: the events of the log and the output of watched processes for one tab, as server-sent events.
 *
 *   hello    first: {"stream","seq","role","version"}; "stream" names it for /api/watch
 *   state    {"daemon":"connected"|"disconnected"}
 *   event    an event, with its sequence number as id
 *   expired  {"oldest":N}: events after the requested one were removed; the stream continues with new ones
 *   output   {"processId","stream","offset","data"}: bytes of a watched process (console_watch.h)
 *
 * It has a connection to the daemon of its own, so that it can wait for a page that reads slowly: while PAUSE_BYTES are
 * unsent nothing is read from the daemon. After a restart of the daemon it subscribes again after the last event that
 * was sent, so nothing is missing or comes twice. The HTTP client's own reconnect does the same with ?after=SEQ.
 */

#include <stdbool.h>

struct console_session;
struct console_stream;
struct http_exchange;

#define CONSOLE_STREAMS_MOST 16 /* of one session */

/* Takes the exchange; responds with 503 if the daemon cannot be reached. */
void console_stream_open(struct console_session *s, struct http_exchange *x);
/* Ends it. */
void console_stream_free(struct console_stream *st);
/* POST /api/watch. */
void console_stream_watch(struct console_session *s, struct http_exchange *x);

#endif
