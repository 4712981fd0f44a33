#ifndef BAILIFF_GATEWAY_HTTP_SERVER_H
#define BAILIFF_GATEWAY_HTTP_SERVER_H

/*
 * An HTTP/1.1 server for programs on this machine; it binds to loopback addresses only.
 *
 * The caller registers paths as rows of a table, so that all gateways share one listener. When a handler is called, the
 * request is complete, within the limits, has a Host and an Origin of this machine and, unless the path is open, a
 * valid token (http_access.h).
 *
 * Why not evhttp: libevent 2.1's has no limit on connections and no deadline for a whole request (each byte of a slow
 * client restarts it), parses heads leniently (bare line feeds, folded lines), and cannot be fuzzed in isolation. This
 * server uses bufferevents and the strict parser of the proxy.
 *
 *   limit                   effect
 *   head, body too long     431, 413, and the connection closes
 *   request too slow        the connection closes; the time counts from the first byte, not from the last
 *   idle connection         closes
 *   too many connections    evicts the one that has been without a request for longest; if there is none: 503
 *   client does not read    its connection is dropped when no byte was written for stalled_ms
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct event_base;
struct http_address;
struct http_exchange;
struct http_refusal;
struct http_request;
struct http_server;
struct http_tokens;

struct http_limits {
	size_t body_bytes;
	size_t connections;
	unsigned request_ms; /* from the first byte of a request to its last */
	unsigned idle_ms;    /* between requests */
	unsigned stalled_ms; /* no byte could be written */
};
#define HTTP_LIMITS_DEFAULT                             \
	((struct http_limits){ .body_bytes = 16u << 20, \
			       .connections = 512,      \
			       .request_ms = 20000,     \
			       .idle_ms = 120000,       \
			       .stalled_ms = 60000 })

/* For paths that anybody on this machine can use: bodies are kept in memory. */
#define HTTP_ANONYMOUS_BYTES 4096u

struct http_route {
	const char *path;    /* exact match; static string */
	bool prefix;         /* also all paths that begin with it */
	const char *methods; /* "GET, POST": others get 405 */
	bool open;           /* no token needed */
	size_t body_bytes;   /* longest body; 0 = that of the server */
	/* A further check of the head, before the body is read; or NULL. False: *ret is the response. */
	bool (*allows)(void *ctx, const struct http_request *r, struct http_refusal *ret);
	void (*handle)(void *ctx, struct http_exchange *x);
};

struct http_counts {
	uint64_t accepted, refused_connections, evicted;
	uint64_t requests, bad_requests, refused; /* refused: rejected by http_access */
	uint64_t by_class[6];                     /* responses 1xx to 5xx */
	uint64_t connections, streams;            /* current numbers */
};

/* `tokens` is borrowed and must outlive the server. NULL: there are none, and every path is open. */
struct http_server *http_server_new(struct event_base *base, const struct http_limits *limits,
				    struct http_tokens *tokens);
void http_server_free(struct http_server *s);
void http_server_route(struct http_server *s, const struct http_route *route, void *ctx);
/* Binds and listens. *ret has the actual port if 0 was requested. */
int http_server_listen(struct http_server *s, const struct http_address *a, struct http_address *ret, struct err *e);
/* Adds a connection and takes ownership of its descriptor. Used by the listener and by tests. */
void http_server_accept(struct http_server *s, int fd);
/* Accepts no more connections and requests; responses in progress are still sent. */
void http_server_stop(struct http_server *s);
bool http_server_idle(const struct http_server *s);
const struct http_counts *http_server_counts(const struct http_server *s);

#endif
