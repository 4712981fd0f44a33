/* Verbs about bailiff itself: help and version; and call, which reaches every method of the daemon. */

#include "runtime/base/build.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/client/daemon_program.h"

#include <errno.h>
#include <unistd.h>

#define PARAMS_MAX (15u << 20)

int cmd_help(struct cli *c)
{
	const char *name = c->opts.nargs ? c->opts.args[0] : NULL;
	const struct verb *v = name ? verb_find(c->verbs, name) : NULL;
	buf_auto struct buf out = BUF_INIT;

	if (name && !v) {
		const char *near = verb_nearest(c->verbs, name);

		cli_error("help: unknown verb '%s'", name);
		if (near)
			cli_hint("did you mean 'bailiff help %s'?", near);
		return EXIT_USAGE;
	}
	if (v)
		verb_help(v, &out);
	else
		verb_overview(c->verbs, &out);
	return format_out(&out);
}

/* Compares the texts: both were written by the same code. */
static bool members_equal(struct jval own, struct jval daemon, const char *key)
{
	struct jval a = jval_get(own, key), b = jval_get(daemon, key);

	return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

int cmd_version(struct cli *c)
{
	buf_auto struct buf own = BUF_INIT, daemon = BUF_INIT, out = BUF_INIT;
	struct err e = ERR_INIT;
	struct jw w = jw_on(&own);

	if (c->opts.nargs)
		return cli_usage(c, "unexpected argument '%s'", c->opts.args[0]);
	jw_obj(&w);
	build_write(&w);
	jw_obj_end(&w);
	int r = daemon_program_describe(&daemon, &e);
	struct jval ours = jval_of(own.data, own.len), whole = jval_of(buf_cstr(&daemon), daemon.len);
	if (opts_has(&c->opts, OPT_version_JSON)) {
		buf_append(&out, own.data, own.len - 1);
		w = (struct jw){ .buf = &out, .need_comma = true };
		if (r == 0)
			jw_kraw(&w, "daemon", whole.text, whole.len);
		else
			jw_kstr(&w, "daemonError", e.message);
		jw_obj_end(&w);
		buf_byte(&out, '\n');
		return format_out(&out);
	}
	/* Both programs are installed together, and one description is enough; a difference explains many problems. */
	bool same = r == 0 && members_equal(ours, whole, "version") && members_equal(ours, whole, "build") &&
		    members_equal(ours, whole, "type");
	build_text("bailiff", same ? whole : ours, &out);
	if (r < 0)
		buf_printf(&out, "%-14s%s\n", "bailiffd", e.message);
	else if (!same)
		build_text("bailiffd", whole, &out);
	return format_out(&out);
}

/* ---- call ---- */

/* 0, or −1 with errno. Limited, because the whole request is held in memory. */
static int read_stdin(struct buf *out)
{
	for (;;) {
		char *space = buf_reserve(out, 64u << 10);
		ssize_t n = read(STDIN_FILENO, space, 64u << 10);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		out->len += (size_t)n;
		out->data[out->len] = 0;
		if (out->len > PARAMS_MAX) {
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

	for (size_t i = 0; i < countof(reading); i++)
		if (strncmp(method, reading[i], strlen(reading[i])) == 0)
			return true;
	return jval_get(jval_of(buf_cstr(params), params->len), "idempotencyKey").type == JT_STRING;
}

/* For scripts and for methods without a verb: parameters and result are passed on as they are. */
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
