#include "supervisor/gateway/http/http_sse.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/http/http_exchange.h"

#include <event2/event.h>
#include <string.h>

struct http_sse {
	struct http_exchange *x;
	struct event *comments;
	void (*gone)(void *ctx);
	void *ctx;
};

static void free_sse(struct http_sse *s)
{
	event_free(s->comments);
	free(s);
}

/* Frees the object before calling `gone`: the callee may free its own state, but must not use this one. */
static void notify_gone(struct http_sse *s)
{
	void (*gone)(void *ctx) = s->gone;
	void *ctx = s->ctx;

	free_sse(s);
	gone(ctx);
}

static void on_exchange_closed(void *ctx) { notify_gone(ctx); }

static bool write_bytes(struct http_sse *s, const char *p, size_t n)
{
	if (http_exchange_queued(s->x) > HTTP_SSE_QUEUE_MOST) {
		http_exchange_drop(s->x);
		notify_gone(s);
		return false;
	}
	http_exchange_write(s->x, p, n);
	return true;
}

/* Runs every HTTP_SSE_COMMENT_S seconds. */
static void on_comment(evutil_socket_t fd, short what, void *arg)
{
	struct http_sse *s = arg;

	/* Queued output keeps the connection alive as well. */
	if (http_exchange_queued(s->x) == 0)
		write_bytes(s, ": ping\n\n", 8);
}

struct http_sse *http_sse_new(struct event_base *base, struct http_exchange *x, void (*gone)(void *ctx), void *ctx)
{
	static const struct http_exchange_ops ops = { .gone = on_exchange_closed };
	struct http_sse *s = mem_zalloc(1, sizeof(*s));
	struct timeval tv = { HTTP_SSE_COMMENT_S, 0 };

	s->x = x;
	s->gone = gone;
	s->ctx = ctx;
	s->comments = event_new(base, -1, EV_PERSIST, on_comment, s);
	if (!s->comments)
		abort();
	loop_add(s->comments, &tv);
	http_exchange_listen(x, &ops, s);
	http_exchange_header(x, "X-Accel-Buffering", "no");
	http_exchange_stream(x, 200, "text/event-stream");
	return s;
}

bool http_sse_event(struct http_sse *s, const char *event, const char *id, const char *data, size_t n)
{
	buf_auto struct buf out = BUF_INIT;

	buf_printf(&out, "event: %s\n", event);
	if (id)
		buf_printf(&out, "id: %s\n", id);
	/* A line feed inside the data starts another "data:" line, as the format requires. */
	for (size_t at = 0; at <= n;) {
		const char *end = memchr(data + at, '\n', n - at);
		size_t len = end ? (size_t)(end - data) - at : n - at;

		buf_str(&out, "data: ");
		buf_append(&out, data + at, len);
		buf_byte(&out, '\n');
		at += len + 1;
	}
	buf_byte(&out, '\n');
	return write_bytes(s, out.data, out.len);
}

bool http_sse_prime(struct http_sse *s, const char *id, unsigned retry_ms)
{
	buf_auto struct buf out = BUF_INIT;

	buf_printf(&out, "id: %s\nretry: %u\ndata:\n\n", id, retry_ms);
	return write_bytes(s, out.data, out.len);
}

size_t http_sse_queued(const struct http_sse *s) { return http_exchange_queued(s->x); }

void http_sse_end(struct http_sse *s)
{
	struct http_exchange *x = s->x;

	free_sse(s);
	http_exchange_end(x);
}
