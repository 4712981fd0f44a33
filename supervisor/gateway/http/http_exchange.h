#ifndef BAILIFF_GATEWAY_HTTP_EXCHANGE_H
#define BAILIFF_GATEWAY_HTTP_EXCHANGE_H

/*
 * One request and its answer: what a handler of a path gets. It answers now or later, in one of two ways:
 *
 *   http_exchange_reply                                    the whole answer
 *   http_exchange_stream, …_write…, http_exchange_end      one that goes on for as long as it takes
 *
 * reply and end finish the exchange: the pointer is dead after them. So it is after `gone` was called, which happens
 * when the client goes away first (it closed, the network failed, it did not read for too long, the server stops);
 * nothing is called after the handler finished it. A handler that answers later must set `gone`.
 */

#include <stdbool.h>
#include <stddef.h>

struct http_exchange;
struct http_request;

struct http_exchange_ops {
	void (*gone)(void *ctx);
};

const struct http_request *http_exchange_request(const struct http_exchange *x);
/* Who asks, by the token that came with the request; "" under a path that wants none. */
const char *http_exchange_principal(const struct http_exchange *x);
bool http_exchange_named(const struct http_exchange *x); /* … which is that of one client */
void http_exchange_listen(struct http_exchange *x, const struct http_exchange_ops *ops, void *ctx);

/* Of the answer's head; before reply or stream. The value must not hold line ends. */
void http_exchange_header(struct http_exchange *x, const char *name, const char *value);
/* type may be NULL when there is no body. */
void http_exchange_reply(struct http_exchange *x, unsigned status, const char *type, const char *body, size_t n);
void http_exchange_stream(struct http_exchange *x, unsigned status, const char *type);
void http_exchange_write(struct http_exchange *x, const char *p, size_t n);
void http_exchange_end(struct http_exchange *x);
/* Written, and not yet taken by the kernel. */
size_t http_exchange_queued(const struct http_exchange *x);
/* Cuts the connection without an end, without calling gone: for a client that cannot follow. The pointer is dead. */
void http_exchange_drop(struct http_exchange *x);

/* {"error":why} with the status. */
void http_exchange_refuse(struct http_exchange *x, unsigned status, const char *why);
const char *http_status_text(unsigned status);

#endif
