#include "supervisor/gateway/common/gateway_stdio.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/common/gateway_program.h"
#include "supervisor/gateway/common/line_stream.h"
#include "supervisor/gateway/common/rpc_message.h"

#include <event2/event.h>
#include <unistd.h>

struct gateway_stdio {
	struct event_base *base;
	struct gateway_stdio_ops ops;
	void *server;
	struct line_stream *lines;
	struct event *signals[GATEWAY_SIGNALS], *leave;
};

static void on_line(void *ctx, const char *line, size_t len)
{
	struct gateway_stdio *s = ctx;

	if (s->server)
		s->ops.line(s->server, line, len);
}

static void on_too_long(void *ctx)
{
	struct gateway_stdio *s = ctx;

	if (s->server)
		s->ops.too_long(s->server);
}

static bool on_busy(void *ctx)
{
	const struct gateway_stdio *s = ctx;

	return s->server && s->ops.busy && s->ops.busy(s->server);
}

/* May be called from inside a write, so the server is freed on the next turn of the loop. */
void gateway_stdio_leave(void *ctx) { event_active(((struct gateway_stdio *)ctx)->leave, 0, 0); }

static void on_leave(evutil_socket_t fd, short what, void *arg)
{
	struct gateway_stdio *s = arg;

	if (s->server)
		s->ops.free(mem_take(&s->server));
	if (s->lines)
		line_stream_free(mem_take(&s->lines));
	/* The signal events would keep the loop alive. */
	for (size_t i = 0; i < GATEWAY_SIGNALS; i++)
		event_del(s->signals[i]);
}

static void on_signal(evutil_socket_t sig, short what, void *arg) { gateway_stdio_leave(arg); }

void gateway_stdio_send(void *ctx, json_t *message)
{
	struct gateway_stdio *s = ctx;
	buf_auto struct buf line = BUF_INIT;

	rpc_message_write(message, true, &line);
	json_decref(message);
	if (s->lines)
		line_stream_write(s->lines, line.data, line.len);
}

bool gateway_stdio_lags(void *ctx)
{
	const struct gateway_stdio *s = ctx;

	return s->lines && line_stream_is_behind(s->lines);
}

bool gateway_stdio_flushed(void *ctx)
{
	const struct gateway_stdio *s = ctx;

	return !s->lines || line_stream_flushed(s->lines);
}

void gateway_stdio_wake(void *ctx)
{
	struct gateway_stdio *s = ctx;

	if (s->lines)
		line_stream_wake(s->lines);
}

struct gateway_stdio *gateway_stdio_new(const struct gateway_stdio_ops *ops)
{
	struct gateway_stdio *s = mem_zalloc(1, sizeof(*s));

	s->ops = *ops;
	s->base = event_base_new();
	if (!s->base)
		abort();
	s->leave = event_new(s->base, -1, 0, on_leave, s);
	return s;
}

struct event_base *gateway_stdio_base(const struct gateway_stdio *s) { return s->base; }

int gateway_stdio_run(struct gateway_stdio *s, void *server)
{
	static const struct line_stream_ops ops = {
		.line = on_line, .too_long = on_too_long, .busy = on_busy, .end = gateway_stdio_leave
	};

	s->server = server;
	s->lines = line_stream_new(s->base, STDIN_FILENO, STDOUT_FILENO, s->ops.line_max, &ops, s);
	gateway_signals_add(s->base, on_signal, s, s->signals);
	int r = loop_run(s->base);
	for (size_t i = 0; i < GATEWAY_SIGNALS; i++)
		event_free(s->signals[i]);
	event_free(s->leave);
	event_base_free(s->base);
	free(s);
	return r;
}
