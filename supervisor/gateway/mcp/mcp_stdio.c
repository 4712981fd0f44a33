/*
 * `bailiff mcp`: one client on standard input and output, one message per line.
 *
 * The end of stdin, a signal and a write error all end in on_end: the session is freed, which terminates foreground
 * processes, and the loop continues until the daemon has received those requests. Then no event is left, and loop_run
 * returns.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/common/gateway_program.h"
#include "supervisor/gateway/common/line_stream.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_session.h"
#include "supervisor/gateway/mcp/mcp_tables.h"

#include <event2/event.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_BYTES (16u << 20)

struct stdio {
	struct event_base *base;
	struct line_stream *lines;
	struct mcp_session *mcp;
	struct event *signals[GATEWAY_SIGNALS];
};

static void on_line(void *ctx, const char *line, size_t len)
{
	struct stdio *s = ctx;
	json_error_t bad;
	json_t *message = json_loadb(line, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &bad);

	if (message) {
		mcp_session_note_size(s->mcp, len);
		mcp_session_feed(s->mcp, message, NULL, MCP_HINT_NONE);
		return;
	}
	/* The text is not JSON, but its id can often be found: a client that waits for this id gets its error. */
	json_auto_t *id = rpc_message_find_id(line, len);
	mem_auto char *text = mem_printf("bad JSON at byte %d: %s", bad.position, bad.text);
	mcp_session_bad(s->mcp, NULL, id, RPC_PARSE_ERROR, text);
}

static void on_too_long(void *ctx)
{
	mcp_session_bad(((struct stdio *)ctx)->mcp, NULL, NULL, RPC_INVALID_REQUEST, "a message of more than 16 MiB");
}

static bool on_busy(void *ctx) { return mcp_session_busy(((struct stdio *)ctx)->mcp); }

/* The client has disconnected. The loop ends when the daemon has received the last requests. */
static void on_end(void *ctx)
{
	struct stdio *s = ctx;

	mcp_session_free(s->mcp);
	s->mcp = NULL;
	for (size_t i = 0; i < GATEWAY_SIGNALS; i++)
		event_del(s->signals[i]);
}

/* Handled like the end of stdin, so that foreground processes are terminated before this program exits. */
static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct stdio *s = arg;

	mcp_session_shutdown(s->mcp);
	on_end(s);
	line_stream_free(s->lines);
	s->lines = NULL;
}

static void on_send(void *ctx, void *stream, json_t *message, bool last)
{
	struct stdio *s = ctx;
	buf_auto struct buf line = BUF_INIT;

	if (!message)
		return;
	rpc_message_write(message, true, &line);
	json_decref(message);
	line_stream_write(s->lines, line.data, line.len);
}

static void on_wake(void *ctx)
{
	struct stdio *s = ctx;

	if (s->lines)
		line_stream_wake(s->lines);
}

static bool on_lags(void *ctx)
{
	const struct stdio *s = ctx;

	return s->lines && line_stream_is_behind(s->lines);
}

static bool on_full(void *ctx)
{
	const struct stdio *s = ctx;

	return s->lines && line_stream_full(s->lines);
}

static void on_drained(void *ctx)
{
	struct stdio *s = ctx;

	if (s->mcp)
		mcp_session_drained(s->mcp);
}

static int serve_stdio(const struct mcp_config *config)
{
	static const struct line_stream_ops line_ops = {
		.line = on_line,
		.too_long = on_too_long,
		.busy = on_busy,
		.end = on_end,
		.drained = on_drained,
	};
	struct stdio s = { .base = event_base_new() };
	char principal[32];

	if (!s.base)
		abort();
	snprintf(principal, sizeof(principal), "uid:%u", (unsigned)getuid());
	const struct mcp_session_options o = {
		.base = s.base,
		.config = config,
		.transport = "stdio",
		.principal = principal,
		.out = { .send = on_send, .wake = on_wake, .lags = on_lags, .full = on_full },
		.ctx = &s,
	};
	s.mcp = mcp_session_new(&o);
	s.lines = line_stream_new(s.base, STDIN_FILENO, STDOUT_FILENO, LINE_MAX_BYTES, &line_ops, &s);
	gateway_signals_add(s.base, on_signal, &s, s.signals);
	int r = loop_run(s.base);
	line_stream_free(s.lines);
	for (size_t i = 0; i < GATEWAY_SIGNALS; i++)
		event_free(s.signals[i]);
	event_base_free(s.base);
	return r;
}

int mcp_stdio_main(int argc, char **argv)
{
	struct mcp_config config;
	struct err e = ERR_INIT;

	gateway_options_auto struct gateway_options options = { 0 };

	mcp_config_init(&config);
	if (gateway_options_parse("mcp", argc, argv, &options, &e) < 0 || mcp_options_read(&options, &config, &e) < 0) {
		fprintf(stderr, "bailiff mcp: %s\n", e.message);
		return 2;
	}
	if (gateway_check_daemon(&e) < 0 || gateway_sandbox_enter(NULL, &e) < 0) {
		fprintf(stderr, "bailiff mcp: %s\n", e.message);
		return 1;
	}
	return serve_stdio(&config) < 0 ? 1 : 0;
}
