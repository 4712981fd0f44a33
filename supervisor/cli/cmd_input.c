#include "pty/sanitize.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/screen_wait.h"
#include "supervisor/client/keys.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <unistd.h>

#define CHUNK (64u << 10)

/* Shows the output printed meanwhile: stdout, stderr or pty, one after the other. */
static int show_yielded(struct jval result)
{
	buf_auto struct buf out = BUF_INIT;

	for (struct jiter it = jiter_on(jval_get(result, "output")); jiter_next(&it);) {
		buf_auto struct buf text = BUF_INIT, bytes = BUF_INIT;
		struct sanitize s = SANITIZE_INIT;

		jval_str_buf(jval_get(it.value, "data"), &text);
		if (jval_is_str(jval_get(it.value, "encoding"), "base64"))
			(void)text_base64_decode(buf_cstr(&text), text.len, &bytes);
		else
			buf_append(&bytes, text.data, text.len);
		sanitize_feed(&s, buf_cstr(&bytes), bytes.len, &out);
		sanitize_end(&s, &out);
	}
	return format_out(&out);
}

/* Writes n bytes, or closes the process's stdin if n is 0. `ret`: the daemon's reply. */
static int send_input(struct cli *c, const char *id, const void *p, size_t n, uint64_t yield_ms,
		      struct remote_answer *ret)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	if (n) {
		jw_key(&w, "data");
		jw_base64(&w, p, n);
		jw_kstr(&w, "encoding", "base64");
	}
	if (yield_ms)
		jw_kuint(&w, "yieldMs", yield_ms);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, n ? "write_process_stdin" : "close_process_stdin", &params, ret, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	return yield_ms ? show_yielded(ret->result) : 0;
}

static int send_stdin(struct cli *c, const char *id)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	mem_auto char *chunk = mem_alloc(CHUNK);

	for (;;) {
		ssize_t n = read(STDIN_FILENO, chunk, CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			cli_error("input: read stdin: %s", strerror(errno));
			return EXIT_FAILED;
		}
		if (n == 0)
			return 0;
		if (send_input(c, id, chunk, (size_t)n, 0, &a))
			return EXIT_FAILED;
	}
}

/* The arguments joined like echo does, then the keys. */
static int read_typed(const struct opts *o, struct buf *ret, struct err *e)
{
	for (size_t i = 1; i < o->nargs; i++)
		buf_printf(ret, "%s%s", i > 1 ? " " : "", o->args[i]);
	for (size_t i = 0; i < o->ngiven; i++)
		if (o->given[i].option == OPT_input_KEY && keys_parse(o->given[i].value, ret, e) < 0)
			return -1;
	return 0;
}

static int print_key_names(struct cli *c, const struct err *e)
{
	buf_auto struct buf names = BUF_INIT;
	int status = cli_usage(c, "option '--key': %s", e->message);

	keys_names(&names);
	cli_hint("valid keys: single characters, C-x, M-x, %s", names.data);
	return status;
}

/* The wait considers only output after the offset at which the input was taken. */
static int send_typed(struct cli *c, const char *id, const struct buf *bytes, uint64_t yield_ms, struct screen_wait *l)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	int status = send_input(c, id, bytes->data, bytes->len, yield_ms, &a), late;

	if (status || !l->wanted)
		return status;
	l->has_after = jval_get(a.result, "offset").type == JT_NUMBER;
	l->after = jval_uint(jval_get(a.result, "offset"), 0);
	late = screen_wait_run(c, id, l, &a, &e);
	if (late < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	screen_wait_append_text(a.result, &out);
	if (format_out(&out))
		return EXIT_FAILED;
	if (late)
		screen_wait_print_timeout(id);
	return late ? EXIT_TIME_LIMIT : 0;
}

static const struct screen_wait_options screen_wait_options = { OPT_input_WAIT, OPT_input_REGEX, OPT_input_IDLE, -1,
								OPT_input_TIMEOUT };

/* 0, or the exit status after a usage error. */
static int read_options(struct cli *c, struct buf *ret_bytes, uint64_t *ret_yield_ms, struct screen_wait *ret_look)
{
	const char *yield = opts_get(&c->opts, OPT_input_YIELD);
	struct err e = ERR_INIT;
	int status;

	if (c->opts.nargs < 1)
		return cli_usage(c, "which process?");
	if (read_typed(&c->opts, ret_bytes, &e) < 0)
		return print_key_names(c, &e);
	if ((status = screen_wait_parse(c, &screen_wait_options, ret_look)) != 0)
		return status;
	if ((yield || ret_look->wanted) && !ret_bytes->len)
		return cli_usage(c, "--yield, --wait, --regex and --idle need TEXT or --key");
	if (yield && ret_look->wanted)
		return cli_usage(c, "--yield excludes --wait, --regex and --idle");
	if (yield && text_duration_ms(yield, ret_yield_ms, &e) < 0)
		return cli_usage(c, "option '--yield': %s", e.message);
	return 0;
}

int cmd_input(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	bool typed = c->opts.nargs > 1 || opts_has(&c->opts, OPT_input_KEY);
	buf_auto struct buf bytes = BUF_INIT;
	struct screen_wait l = { 0 };
	uint64_t yield_ms = 0;
	char id[ID_LOOKUP_MAX];
	int status = read_options(c, &bytes, &yield_ms, &l);

	if (status)
		return status;
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || id_lookup_process(c, c->opts.args[0], id) < 0)
		return EXIT_FAILED;
	if (!typed)
		status = send_stdin(c, id);
	else
		status = bytes.len ? send_typed(c, id, &bytes, yield_ms, &l) : 0;
	return status || !opts_has(&c->opts, OPT_input_EOF) ? status : send_input(c, id, NULL, 0, 0, &a);
}
