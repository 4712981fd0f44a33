#ifndef BAILIFF_GATEWAY_HTTP_CONNECTION_H
#define BAILIFF_GATEWAY_HTTP_CONNECTION_H

/*
 * One connection: requests one after another, each answered before the next is read. Pipelined requests wait in the
 * input buffer, which is bounded. Of http_server alone.
 *
 *   RESTING    no byte of a request; closes after idle_ms, and makes room for others
 *   READING    half a request; closes after request_ms
 *   ANSWERING  a handler has it; ends when the client goes away
 *   CLOSING    the last answer is being written
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
	/* A head came whose body is still to come: false if the body need not be waited for, with what to answer. */
	bool (*head)(void *ctx, const struct http_request *r, struct http_refusal *ret);
	/* A request is complete: to be answered through the exchange. */
	void (*request)(void *ctx, struct http_exchange *x);
	/* The connection is closed; its memory goes away afterwards. */
	void (*closed)(void *ctx, struct http_connection *c);
};

struct http_connection *http_connection_new(struct event_base *base, int fd, const struct http_limits *limits,
					    struct http_counts *counts, const struct http_connection_ops *ops,
					    void *ctx);
enum http_connection_state http_connection_state(const struct http_connection *c);
uint64_t http_connection_since(const struct http_connection *c); /* clock_boot_ns when it came into its state */
bool http_connection_trusted(const struct http_connection *c);   /* had a request that came with a token */
/* Its request was allowed; who: with this token, or NULL. */
void http_connection_authorise(struct http_connection *c, const struct http_token *who);
/* Closes it at once; an exchange under way is gone. */
void http_connection_drop(struct http_connection *c);
/* Frees one that was dropped, without waiting for the loop's next turn. */
void http_connection_free(struct http_connection *c);
/* Closes it when the answer under way is written; at once when there is none. */
void http_connection_finish(struct http_connection *c);

struct http_connection *http_exchange_connection(struct http_exchange *x);

/* Links of the server's list. */
struct http_connection *http_connection_next(const struct http_connection *c);
void http_connection_link(struct http_connection *c, struct http_connection **head);
void http_connection_unlink(struct http_connection *c);

#endif
