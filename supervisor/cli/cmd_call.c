#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <unistd.h>

#define PARAMS_MOST (15u << 20)

static int read_stdin(struct buf *out)
{
	for (;;) {
		char *room = buf_reserve(out, 64u << 10);
		ssize_t n = read(STDIN_FILENO, room, 64u << 10);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		out->len += (size_t)n;
		out->data[out->len] = 0;
		if (out->len > PARAMS_MOST) {
			errno = EFBIG;
			return -1;
		}
	}
}

/*
 * The text must be one object and nothing else, on one line, because the daemon reads lines. The daemon
 * reports errors inside it.
 */
static bool normalise_object(struct buf *text)
{
	struct jval v = jval_of(buf_cstr(text), text->len);

	if (v.type != JT_OBJECT)
		return false;
	for (const char *p = v.text + v.len; p < text->data + text->len; p++)
		if (!strchr(" \t\r\n", *p))
			return false;
	for (size_t i = 0; i < text->len; i++)
		if (text->data[i] == '\n' || text->data[i] == '\r')
			text->data[i] = ' ';
	return true;
}

/* After a disconnect only requests that cannot take effect twice are resent. */
static bool may_repeat(const char *method, const struct buf *params)
{
	static const char *const reading[] = { "get_", "list_", "read_", "wait_" };

	for (size_t i = 0; i < sizeof(reading) / sizeof(reading[0]); i++)
		if (strncmp(method, reading[i], strlen(reading[i])) == 0)
			return true;
	return jval_get(jval_of(buf_cstr(params), params->len), "idempotencyKey").type == JT_STRING;
}

int cmd_call(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, out = BUF_INIT;
	const char *method = c->opts.nargs ? c->opts.args[0] : NULL,
		   *given = c->opts.nargs > 1 ? c->opts.args[1] : "{}";
	struct err e = ERR_INIT;
	int r;

	if (!method || c->opts.nargs > 2)
		return cli_usage(c, method ? "too many arguments; pass the parameters as one JSON object"
					   : "which method?");
	if (strcmp(given, "-") != 0)
		buf_str(&params, given);
	else if (read_stdin(&params) < 0)
		return cli_usage(c, "read stdin: %s", strerror(errno));
	if (!normalise_object(&params))
		return cli_usage(c, "the parameters are not a JSON object");
	if (cli_connect(c, CLI_START_ALWAYS) < 0)
		return EXIT_FAILED;
	if (may_repeat(method, &params))
		r = remote_call(c->remote, method, &params, &a, &e);
	else
		r = remote_call_once(c->remote, method, &params, &a, &e);
	if (r < 0) {
		cli_fail(c, EXIT_FAILED, &e, "%s", method);
		if (a.error.type != JT_NONE)
			cli_hint("%.*s", (int)(a.error.len < 4096 ? a.error.len : 4096), a.error.text);
		return EXIT_FAILED;
	}
	buf_append(&out, a.result.text, a.result.len);
	buf_byte(&out, '\n');
	return format_out(&out);
}
