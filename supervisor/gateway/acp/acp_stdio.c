/* `bailiff acp`: one editor on standard input and output. When it leaves, running turns are interrupted. */

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/acp/acp_server.h"
#include "supervisor/gateway/common/gateway_program.h"
#include "supervisor/gateway/common/gateway_stdio.h"

#include <stdio.h>

#define LINE_MAX_BYTES (16u << 20)

static void on_line(void *server, const char *line, size_t len) { acp_server_feed(server, line, len); }
static void on_too_long(void *server) { acp_server_too_long(server); }
static void on_free(void *server) { acp_server_free(server); }

static int serve_stdio(const struct acp_options *o)
{
	static const struct gateway_stdio_ops io_ops = {
		.line = on_line, .too_long = on_too_long, .free = on_free, .line_max = LINE_MAX_BYTES
	};
	static const struct acp_server_ops ops = { .send = gateway_stdio_send, .lags = gateway_stdio_lags };
	struct gateway_stdio *io = gateway_stdio_new(&io_ops);

	return gateway_stdio_run(io, acp_server_new(gateway_stdio_base(io), o, &ops, io));
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
