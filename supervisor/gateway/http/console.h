#ifndef BAILIFF_GATEWAY_HTTP_CONSOLE_H
#define BAILIFF_GATEWAY_HTTP_CONSOLE_H

/*
 * The console in a browser: its files under /ui/ and its data under /api/ (docs/console.md).
 *
 *   POST /api/code     a one-time code, for a client with the token
 *   POST /api/login    exchanges a code for the session's cookie
 *   POST /api/logout   ends the session
 *   POST /api/call     one method of the control socket
 *   GET  /api/stream   the events, and the output of watched processes (console_stream.h)
 *   POST /api/watch    begins or ends watching a process
 *   GET  /api/output   a stream of a process as a file (console_output.h)
 *   GET  /api/series   numbers over time (console_series.h)
 *
 * Any page can send a request, so every request to /api/ must come from the console's own page: Origin and
 * Sec-Fetch-Site must say so if they are present. Cookies are sent to all ports of a host, so a server on another port,
 * such as one that an agent published, can read the cookie when the user visits it. Therefore the session has a second
 * secret, its key, which the page keeps in the storage of its origin and sends as X-Bailiff; no form or link can do
 * that. Only the download, which is a link, has to do without. Before the login X-Bailiff is 1.
 */

#include <stdint.h>

struct console;
struct event_base;
struct http_server;

#define CONSOLE_SESSIONS_MOST 64
#define CONSOLE_SESSION_MS (12ull * 3600 * 1000)

/* Registers the paths. */
struct console *console_new(struct event_base *base, struct http_server *server);
/* The port is part of the cookie's name; 0 until then. */
void console_set_port(struct console *c, uint16_t port);
/* Ends the sessions and codes of this principal, whose token was removed. */
void console_forget(struct console *c, const char *principal);
/* Ends all sessions and streams. */
void console_stop(struct console *c);
void console_free(struct console *c);

#endif
