/*
 * `bailiff codex-exec-server`: the executor on standard input and output, one JSON-RPC message per line.
 *
 * Order of startup: options, then the reaper (a fork, which the sandbox would forbid), then the sandbox, then the first
 * byte of the client.
 */

#include "runtime/base/err.h"
#include "supervisor/gateway/codex/codex_server.h"
#include "supervisor/gateway/codex/session_reaper.h"
#include "supervisor/gateway/common/gateway_program.h"
#include "supervisor/gateway/common/gateway_stdio.h"

#include <stdio.h>

/* A file is written with a single message, in base64. */
#define LINE_MAX_BYTES (64u << 20)
#define APPROVAL_MS (120u * 1000)
#define LINGER_MS (30u * 1000)

static bool lost; /* the daemon is unreachable: the exit status is 1 */

static void on_line(void *server, const char *line, size_t len) { codex_server_feed(server, line, len); }
static void on_too_long(void *server) { codex_server_too_long(server); }
static bool on_busy(void *server) { return codex_server_busy(server); }
static void on_free(void *server) { codex_server_free(server); }

static void on_lost(void *io, const struct err *e)
{
	fprintf(stderr, "bailiff codex-exec-server: %s\n", e->message);
	lost = true;
	gateway_stdio_leave(io);
}

static int serve_stdio(const struct codex_options *o)
{
	static const struct gateway_stdio_ops io_ops = {
		.line = on_line, .too_long = on_too_long, .busy = on_busy, .free = on_free, .line_max = LINE_MAX_BYTES
	};
	static const struct codex_server_ops ops = { .send = gateway_stdio_send,
						     .flushed = gateway_stdio_flushed,
						     .wake = gateway_stdio_wake,
						     .lost = on_lost };
	struct gateway_stdio *io = gateway_stdio_new(&io_ops);
	int r = gateway_stdio_run(io, codex_server_new(gateway_stdio_base(io), o, &ops, io));

	return r < 0 || lost;
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
