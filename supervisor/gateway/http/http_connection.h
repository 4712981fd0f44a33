#ifndef BAILIFF_GATEWAY_HTTP_CONNECTION_H
#define BAILIFF_GATEWAY_HTTP_CONNECTION_H

/*
 * One connection. Requests are handled one after another: each is answered before the next is parsed. Pipelined
 * requests wait in the bounded input buffer. Private to http_server.
 *
 *   RESTING    between requests; closes after idle_ms, and can be evicted
 *   READING    part of a request was received; closes after request_ms
 *   ANSWERING  a handler owns the exchange; ends with the response or when the client disconnects
 *   CLOSING    the last response is being written
 */

#include "supervisor/gateway/http/http_server.h"

#include <stdint.h>

struct event_base;
struct http_connection;
struct http_refusal;
struct http_request;
struct http_token;

enum http_connection_state { HTTP_RESTING, HTTP_READING, HTTP_ANSWERING, HTTP_CLOSING };

struct http_connection_ops {
	/*
	 * The head is complete, the body is not. It may lower the limit of the body. False rejects the request
	 * without reading the body; *ret is the response.
	 */
	bool (*head)(void *ctx, struct http_request *r, struct http_refusal *ret);
	/* The request is complete; answer through the exchange. */
	void (*request)(void *ctx, struct http_exchange *x);
	/* The connection is closed and freed after this call. */
	void (*closed)(void *ctx, struct http_connection *c);
};

struct http_connection *http_connection_new(struct event_base *base, int fd, const struct http_limits *limits,
					    struct http_counts *counts, const struct http_connection_ops *ops,
					    void *ctx);
enum http_connection_state http_connection_state(const struct http_connection *c);
uint64_t http_connection_since(const struct http_connection *c); /* clock_boot_ns when it entered its state */
bool http_connection_trusted(const struct http_connection *c);   /* at least one request carried a valid token */
/* Records that the request was allowed, with this token or (NULL) without one. */
void http_connection_authorise(struct http_connection *c, const struct http_token *who);
/* Closes it now; an exchange in progress gets `gone`. */
void http_connection_drop(struct http_connection *c);
/* Frees a dropped connection now instead of on the next turn of the loop. */
void http_connection_free(struct http_connection *c);
/* Closes it after the current response; now if there is none. */
void http_connection_finish(struct http_connection *c);

struct http_connection *http_exchange_connection(struct http_exchange *x);

/* The server's list of connections. */
struct http_connection *http_connection_next(const struct http_connection *c);
void http_connection_link(struct http_connection *c, struct http_connection **head);
void http_connection_unlink(struct http_connection *c);

#endif
