/*
 * `bailiff codex-exec-server`: the executor on standard input and output, one JSON-RPC message per line.
 *
 * Order of startup: options, then the reaper (a fork, which the sandbox would forbid), then the sandbox, then the first
 * byte of the client.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/loop/loop.h"
#include "supervisor/client/remote.h"
#include "supervisor/gateway/codex/codex_server.h"
#include "supervisor/gateway/codex/session_reaper.h"
#include "supervisor/gateway/common/gateway_program.h"
#include "supervisor/gateway/common/line_stream.h"
#include "supervisor/gateway/common/rpc_message.h"

#include <event2/event.h>
#include <stdio.h>
#include <unistd.h>

/* A file is written with a single message, in base64. */
#define LINE_MAX_BYTES (64u << 20)
#define APPROVAL_MS (120u * 1000)
#define LINGER_MS (30u * 1000)

struct stdio {
	struct event_base *base;
	struct line_stream *lines;
	struct codex_server *server;
	struct event *signals[GATEWAY_SIGNALS], *leave;
	int status;
};

static void on_line(void *ctx, const char *line, size_t len)
{
	struct stdio *s = ctx;

	if (s->server)
		codex_server_feed(s->server, line, len);
}

static void on_too_long(void *ctx)
{
	struct stdio *s = ctx;

	if (s->server)
		codex_server_too_long(s->server);
}

static bool on_busy(void *ctx)
{
	struct stdio *s = ctx;

	return s->server && codex_server_busy(s->server);
}

/*
 * May be called from inside a write, so the server is freed on the next turn of the loop. The loop then ends when the
 * daemon has received the last requests.
 */
static void on_end(void *ctx) { event_active(((struct stdio *)ctx)->leave, 0, 0); }

static void on_leave(evutil_socket_t fd, short what, void *arg)
{
	struct stdio *s = arg;

	if (s->server)
		codex_server_free(mem_take(&s->server));
	line_stream_free(mem_take(&s->lines));
	/* The signal events would keep the loop alive. */
	for (size_t i = 0; i < GATEWAY_SIGNALS; i++)
		event_del(s->signals[i]);
}

static void on_signal(evutil_socket_t sig, short what, void *arg) { on_end(arg); }

static void on_send(void *ctx, json_t *message)
{
	struct stdio *s = ctx;
	buf_auto struct buf line = BUF_INIT;

	rpc_message_write(message, true, &line);
	json_decref(message);
	if (s->lines)
		line_stream_write(s->lines, line.data, line.len);
}

static bool on_flushed(void *ctx)
{
	struct stdio *s = ctx;

	return !s->lines || line_stream_flushed(s->lines);
}

static void on_wake(void *ctx)
{
	struct stdio *s = ctx;

	if (s->lines)
		line_stream_wake(s->lines);
}

static void on_lost(void *ctx, const struct err *e)
{
	struct stdio *s = ctx;

	fprintf(stderr, "bailiff codex-exec-server: %s\n", e->message);
	s->status = 1;
	event_active(s->leave, 0, 0);
}

static int serve_stdio(const struct codex_options *o)
{
	static const struct line_stream_ops line_ops = {
		.line = on_line, .too_long = on_too_long, .busy = on_busy, .end = on_end
	};
	static const struct codex_server_ops ops = {
		.send = on_send, .flushed = on_flushed, .wake = on_wake, .lost = on_lost
	};
	struct stdio s = { .base = event_base_new() };

	if (!s.base)
		abort();
	s.leave = event_new(s.base, -1, 0, on_leave, &s);
	s.server = codex_server_new(s.base, o, &ops, &s);
	s.lines = line_stream_new(s.base, STDIN_FILENO, STDOUT_FILENO, LINE_MAX_BYTES, &line_ops, &s);
	gateway_signals_add(s.base, on_signal, &s, s.signals);
	if (loop_run(s.base) < 0)
		s.status = 1;
	for (size_t i = 0; i < GATEWAY_SIGNALS; i++)
		event_free(s.signals[i]);
	event_free(s.leave);
	event_base_free(s.base);
	return s.status;
}

int codex_stdio_main(int argc, char **argv)
{
	struct codex_options o = { .approval_ms = APPROVAL_MS };
	uint64_t linger = LINGER_MS;
	gateway_options_auto struct gateway_options options = { 0 };
	struct err e = ERR_INIT;

	if (gateway_options_parse("codex_exec_server", argc, argv, &options, &e) < 0 ||
	    gateway_option_ms(&options, "approval-timeout", &o.approval_ms, &e) < 0 ||
	    gateway_option_ms(&options, "linger", &linger, &e) < 0) {
		fprintf(stderr, "bailiff codex-exec-server: %s\n", e.message);
		return 2;
	}
	o.profile = gateway_option(&options, "profile");
	o.reaper_fd = session_reaper_start(linger);
	if (gateway_sandbox_enter(NULL, &e) < 0) {
		fprintf(stderr, "bailiff codex-exec-server: %s\n", e.message);
		return 1;
	}
	return serve_stdio(&o);
}
