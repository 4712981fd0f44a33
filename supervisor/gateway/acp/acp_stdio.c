/*
 * `bailiff acp`: one editor on standard input and output, one message per line.
 *
 * The end of stdin, a signal and a write error all end in on_leave: running turns are interrupted, and the loop
 * continues until the daemon has received those requests. Then no event is left, and loop_run returns.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/acp/acp_server.h"
#include "supervisor/gateway/common/gateway_program.h"
#include "supervisor/gateway/common/line_stream.h"
#include "supervisor/gateway/common/rpc_message.h"

#include <event2/event.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_BYTES (16u << 20)

struct stdio {
	struct event_base *base;
	struct line_stream *lines;
	struct acp_server *server;
	struct event *signals[GATEWAY_SIGNALS], *leave;
};

static void on_line(void *ctx, const char *line, size_t len)
{
	struct stdio *s = ctx;

	if (s->server)
		acp_server_feed(s->server, line, len);
}

static void on_too_long(void *ctx)
{
	struct stdio *s = ctx;

	if (s->server)
		acp_server_too_long(s->server);
}

static bool on_busy(void *ctx) { return false; }

/* May be called from inside a write, so the server is freed on the next turn of the loop. */
static void on_end(void *ctx) { event_active(((struct stdio *)ctx)->leave, 0, 0); }

static void on_leave(evutil_socket_t fd, short what, void *arg)
{
	struct stdio *s = arg;

	if (s->server)
		acp_server_free(mem_take(&s->server));
	if (s->lines)
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

static bool on_lags(void *ctx)
{
	const struct stdio *s = ctx;

	return s->lines && line_stream_is_behind(s->lines);
}

static int serve_stdio(const struct acp_options *o)
{
	static const struct line_stream_ops line_ops = {
		.line = on_line, .too_long = on_too_long, .busy = on_busy, .end = on_end
	};
	static const struct acp_server_ops ops = { .send = on_send, .lags = on_lags };
	struct stdio s = { .base = event_base_new() };

	if (!s.base)
		abort();
	s.leave = event_new(s.base, -1, 0, on_leave, &s);
	s.server = acp_server_new(s.base, o, &ops, &s);
	s.lines = line_stream_new(s.base, STDIN_FILENO, STDOUT_FILENO, LINE_MAX_BYTES, &line_ops, &s);
	gateway_signals_add(s.base, on_signal, &s, s.signals);
	int r = loop_run(s.base);
	for (size_t i = 0; i < GATEWAY_SIGNALS; i++)
		event_free(s.signals[i]);
	event_free(s.leave);
	event_base_free(s.base);
	return r;
}

/* Limits of each turn, as numbers of JSON. */
static int read_limits(const struct gateway_options *options, json_t **ret, struct err *e)
{
	static const struct {
		const char *option, *member;
	} rows[] = { { "max-cost", "maxCostUsd" }, { "max-requests", "maxRequests" }, { "max-tokens", "maxTokens" } };
	json_t *limits = json_object();

	for (size_t i = 0; i < countof(rows); i++) {
		const char *text = gateway_option(options, rows[i].option);
		json_t *v = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

		if (text && !json_is_number(v)) {
			json_decref(v);
			json_decref(limits);
			return err_set(e, ERR_INVALID, "--%s: '%.40s' is not a number", rows[i].option, text);
		}
		if (v)
			json_object_set_new(limits, rows[i].member, v);
	}
	*ret = limits;
	return 0;
}

int acp_stdio_main(int argc, char **argv)
{
	gateway_options_auto struct gateway_options options = { 0 };
	struct acp_options o = { 0 };
	struct err e = ERR_INIT;

	if (gateway_options_parse("acp", argc, argv, &options, &e) < 0 || read_limits(&options, &o.limits, &e) < 0) {
		fprintf(stderr, "bailiff acp: %s\n", e.message);
		return 2;
	}
	o.model = gateway_option(&options, "model");
	o.profile = gateway_option(&options, "profile");
	if (gateway_check_daemon(&e) < 0 || gateway_sandbox_enter(NULL, &e) < 0) {
		fprintf(stderr, "bailiff acp: %s\n", e.message);
		json_decref(o.limits);
		return 1;
	}
	int r = serve_stdio(&o);
	json_decref(o.limits);
	return r < 0 ? 1 : 0;
}
