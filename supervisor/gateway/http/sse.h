#ifndef BAILIFF_GATEWAY_HTTP_SSE_H
#define BAILIFF_GATEWAY_HTTP_SSE_H

/*
 * Server-sent events on an exchange: the answer is a stream of "data:" blocks, with comments in between so that nobody
 * on the way takes a quiet stream for a dead one. Who does not read is not waited for: when more than SSE_QUEUE_MOST
 * bytes wait before an event is added, the connection is cut and `gone` called, as if the client had gone.
 */

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct http_exchange;
struct sse;

#define SSE_QUEUE_MOST (4u << 20)
#define SSE_COMMENT_S 15

/* Takes the exchange over and sends the head. `gone`: as of the exchange; the sse is dead then. */
struct sse *sse_new(struct event_base *base, struct http_exchange *x, void (*gone)(void *ctx), void *ctx);
/* id may be NULL. False: the client could not follow; gone was called. */
bool sse_event(struct sse *s, const char *id, const char *data, size_t n);
/* An event without data: what a client can resume after from the first moment on, and how long it should wait before it
 * does. */
bool sse_prime(struct sse *s, const char *id, unsigned retry_ms);
/* The end of the stream; the sse is dead. */
void sse_end(struct sse *s);

#endif
