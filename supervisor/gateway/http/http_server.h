#ifndef BAILIFF_GATEWAY_HTTP_SERVER_H
#define BAILIFF_GATEWAY_HTTP_SERVER_H

/*
 * An HTTP/1.1 server for programs on this machine: it binds to loopback addresses and to nothing else.
 *
 * A path is a row of the table that the caller adds to, so that all gateways share one listener. Before a handler is
 * called, the request was complete, within the limits, came with a Host and an Origin of this machine and, where the
 * path asks for it, with a token (http_access.h).
 *
 * Why not evhttp: that of libevent 2.1 has no limit on connections and no deadline for a request as a whole (each byte
 * of a slow client earns it a new one), reads heads leniently (bare line feeds, folded lines), and cannot be held by a
 * fuzzer. So this stands on bufferevents and on the strict parser that the proxy has already.
 *
 *   limit                   what happens
 *   head, body too long     431, 413, and the connection closes
 *   request too slow        the connection closes; the time counts from its first byte, not from its last
 *   idle connection         closes
 *   too many connections    the one that has been without a request under way for longest makes room; if none: 503
 *   client does not read    its connection is dropped when nothing moved for a while
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct event_base;
struct http_address;
struct http_exchange;
struct http_server;
struct http_tokens;

struct http_limits {
	size_t body_bytes;
	size_t connections;
	unsigned request_ms; /* from the first byte of a request to its last */
	unsigned idle_ms;    /* between requests */
	unsigned stalled_ms; /* the client takes nothing of what waits for it */
};
#define HTTP_LIMITS_DEFAULT                             \
	((struct http_limits){ .body_bytes = 16u << 20, \
			       .connections = 512,      \
			       .request_ms = 20000,     \
			       .idle_ms = 120000,       \
			       .stalled_ms = 60000 })

struct http_route {
	const char *path;    /* exactly this one; static */
	const char *methods; /* "GET, POST": others get 405 */
	bool open;           /* without the token */
	void (*handle)(void *ctx, struct http_exchange *x);
};

struct http_counts {
	uint64_t accepted, refused_connections, evicted;
	uint64_t requests, bad_requests, refused; /* refused: by http_access */
	uint64_t by_class[6];                     /* answers 1xx to 5xx */
	uint64_t connections, streams;            /* now */
};

/* `tokens` stay the caller's and must last. NULL: there are none, and every path is open. */
struct http_server *http_server_new(struct event_base *base, const struct http_limits *limits,
				    struct http_tokens *tokens);
void http_server_free(struct http_server *s);
void http_server_route(struct http_server *s, const struct http_route *route, void *ctx);
/* Binds and listens; *ret has the port that was chosen where 0 was asked for. */
int http_server_listen(struct http_server *s, const struct http_address *a, struct http_address *ret, struct err *e);
/* A new connection of which the descriptor is taken over: what the listener does, and tests. */
void http_server_accept(struct http_server *s, int fd);
/* No more connections and requests; streams are ended, answers under way are still sent. */
void http_server_stop(struct http_server *s);
bool http_server_idle(const struct http_server *s);
const struct http_counts *http_server_counts(const struct http_server *s);

#endif
