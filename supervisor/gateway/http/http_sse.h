#ifndef BAILIFF_GATEWAY_HTTP_SSE_H
#define BAILIFF_GATEWAY_HTTP_SSE_H

/*
 * Server-sent events on an exchange: a stream of "data:" blocks, with periodic comments so that intermediaries do not
 * time out a quiet stream. A client that does not read is dropped: if more than HTTP_SSE_QUEUE_MOST bytes are queued
 * when an event is added, the connection is closed and `gone` is called, as for a disconnect.
 */

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct http_exchange;
struct http_sse;

#define HTTP_SSE_QUEUE_MOST (4u << 20)
#define HTTP_SSE_COMMENT_S 15

/* Takes ownership of the exchange and sends the head. `gone`: as for the exchange; the sse has been freed then. */
struct http_sse *http_sse_new(struct event_base *base, struct http_exchange *x, void (*gone)(void *ctx), void *ctx);
/* id may be NULL. False: the client was too slow and `gone` was called. */
bool http_sse_event(struct http_sse *s, const char *event, const char *id, const char *data, size_t n);
/*
 * Sends an event without data: it gives the client an id to resume after from the start, and the delay before it does.
 */
bool http_sse_prime(struct http_sse *s, const char *id, unsigned retry_ms);
/* Bytes that the client has not taken yet: a source that can wait should do so before HTTP_SSE_QUEUE_MOST. */
size_t http_sse_queued(const struct http_sse *s);
/* Ends the stream and frees the sse. */
void http_sse_end(struct http_sse *s);

#endif
