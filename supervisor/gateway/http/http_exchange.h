#ifndef BAILIFF_GATEWAY_HTTP_EXCHANGE_H
#define BAILIFF_GATEWAY_HTTP_EXCHANGE_H

/*
 * One request and its response, as a handler of a path gets it. The handler responds now or later, in one of two ways:
 *
 *   http_exchange_reply                                    the complete response
 *   http_exchange_stream, …_write…, http_exchange_end      a stream of unlimited duration
 *
 * reply and end free the exchange. It is also freed after `gone`, which is called when the client disconnects first (it
 * closed, the network failed, it did not read for too long, the server stops). `gone` is never called after reply or
 * end. A handler that responds later must set `gone`.
 */

#include <stdbool.h>
#include <stddef.h>

struct http_exchange;
struct http_request;

struct http_exchange_ops {
	void (*gone)(void *ctx);
};

const struct http_request *http_exchange_request(const struct http_exchange *x);
/* The principal of the request's token; "" on a path that needs no token. */
const char *http_exchange_principal(const struct http_exchange *x);
bool http_exchange_named(const struct http_exchange *x); /* the token belongs to one named client */
void http_exchange_listen(struct http_exchange *x, const struct http_exchange_ops *ops, void *ctx);

/* Adds a header to the response; before reply or stream. The value must not contain line endings. */
void http_exchange_header(struct http_exchange *x, const char *name, const char *value);
/* type may be NULL if there is no body. */
void http_exchange_reply(struct http_exchange *x, unsigned status, const char *type, const char *body, size_t n);
void http_exchange_stream(struct http_exchange *x, unsigned status, const char *type);
void http_exchange_write(struct http_exchange *x, const char *p, size_t n);
void http_exchange_end(struct http_exchange *x);
/* Bytes written to the exchange that the kernel has not taken yet. */
size_t http_exchange_queued(const struct http_exchange *x);
/*
 * Closes the connection in the middle of the response, without calling `gone`, for a client that reads too slowly.
 * Frees the exchange.
 */
void http_exchange_drop(struct http_exchange *x);

/* Replies {"error":why} with the status. */
void http_exchange_refuse(struct http_exchange *x, unsigned status, const char *why);

#endif
