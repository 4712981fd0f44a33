/*
 * `screen` and `input`: what a terminal shows, and what is typed into a process. Both can wait for a condition on the
 * screen afterwards.
 */

#include "pty/sanitize.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/client/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define TIMEOUT_DEFAULT_MS 30000
#define CHUNK (64u << 10)

/* ---- waiting ---- */

/* The options of a verb that state the condition; −1 = no such option. */
struct screen_wait_options {
	int text, regex, idle, exit, timeout;
};

struct screen_wait {
	bool wanted; /* there are conditions; the wait ends with the first that becomes true */
	const char *text, *regex;
	uint64_t idle_ms; /* 0 = no condition */
	bool exit;
	uint64_t timeout_ms;
	bool has_after; /* ignore output before this offset */
	uint64_t after;
};

/* 0, or the exit status after a usage error. */
static int parse_wait(struct cli *c, const struct screen_wait_options *o, struct screen_wait *ret)
{
	const char *timeout = opts_get(&c->opts, o->timeout), *idle = opts_get(&c->opts, o->idle);
	struct screen_wait l = { .text = opts_get(&c->opts, o->text),
				 .regex = opts_get(&c->opts, o->regex),
				 .exit = o->exit >= 0 && opts_has(&c->opts, o->exit),
				 .timeout_ms = TIMEOUT_DEFAULT_MS };
	struct err e = ERR_INIT;

	if (l.text && !l.text[0])
		return cli_usage(c, "option '--%s': the text is empty", option_rows[o->text].name);
	if (idle && (text_duration_ms(idle, &l.idle_ms, &e) < 0 || !l.idle_ms))
		return cli_usage(c, "option '--%s': %s", option_rows[o->idle].name,
				 e.code ? e.message : "must be more than 0");
	l.wanted = l.text || l.regex || idle || l.exit;
	if (timeout && !l.wanted)
		return cli_usage(c, "option '--timeout' needs a condition to wait for");
	if (timeout && text_duration_ms(timeout, &l.timeout_ms, &e) < 0)
		return cli_usage(c, "option '--timeout': %s", e.message);
	*ret = l;
	return 0;
}

/* 0: a condition became true, 1: timed out, −1: q->e. The result is the screen at that moment, as text. */
static int run_wait(struct cli *c, const char *id, const struct screen_wait *l, struct request *q)
{
	jw_kstr(&q->w, "processId", id);
	jw_kobj(&q->w, "until");
	jw_kopt(&q->w, "text", l->text);
	jw_kopt(&q->w, "regex", l->regex);
	if (l->idle_ms)
		jw_kuint(&q->w, "idleMs", l->idle_ms);
	if (l->exit)
		jw_kbool(&q->w, "exit", true);
	jw_obj_end(&q->w);
	if (l->has_after)
		jw_kuint(&q->w, "after", l->after);
	jw_kuint(&q->w, "timeoutMs", l->timeout_ms);
	if (request_read(c, q, "wait_screen") < 0)
		return -1;
	return jval_bool(jval_get(q->result, "matched"), false) ? 0 : 1;
}

/* The rows of a text screen, for a person. */
static void append_rows(struct jval screen, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	jval_str_buf(jval_get(screen, "text"), &text);
	text_sanitize(buf_cstr(&text), text.len, out);
	if (out->len && out->data[out->len - 1] != '\n')
		buf_byte(out, '\n');
}

/* Prints the screen; `late`: as the wait returned it. The exit status. */
static int print_screen(const char *id, const struct buf *out, int late)
{
	if (format_out(out))
		return EXIT_FAILED;
	if (late)
		cli_error("%s: timed out waiting; this is the current screen", id);
	return late ? EXIT_TIME_LIMIT : 0;
}

/* ---- screen ---- */

int cmd_screen(struct cli *c)
{
	static const struct screen_wait_options wait_options = { OPT_screen_WAIT, OPT_screen_REGEX, OPT_screen_IDLE,
								 OPT_screen_EXIT, OPT_screen_TIMEOUT };
	const char *format = opts_get(&c->opts, OPT_screen_FORMAT), *after = opts_get(&c->opts, OPT_screen_AFTER);
	request_auto struct request wait = REQUEST_INIT(wait), get = REQUEST_INIT(get);
	bool scrollback = opts_has(&c->opts, OPT_screen_SCROLLBACK);
	buf_auto struct buf out = BUF_INIT;
	struct screen_wait l = { 0 };
	char id[ID_LOOKUP_MAX];
	int status = cli_one_process(c), late = 0;

	if (status)
		return status;
	if (!format)
		format = "text";
	if (strcmp(format, "text") != 0 && strcmp(format, "ansi") != 0 && strcmp(format, "cells") != 0)
		return cli_usage(c, "option '--format': '%s' is not text, ansi or cells", format);
	if ((status = parse_wait(c, &wait_options, &l)) != 0)
		return status;
	if (after && (!after[0] || strspn(after, "0123456789") != strlen(after) || strlen(after) > 18))
		return cli_usage(c, "option '--after': '%s' is not an offset", after);
	if (after && !l.wanted)
		return cli_usage(c, "option '--after' needs a condition: --wait, --regex, --idle or --exit");
	l.has_after = after != NULL;
	l.after = after ? strtoull(after, NULL, 10) : 0;
	if (id_lookup_connect(c, id) < 0)
		return EXIT_FAILED;
	if (l.wanted && (late = run_wait(c, id, &l, &wait)) < 0)
		return cli_fail(c, EXIT_FAILED, &wait.e, "%s", id);
	struct jval screen = wait.result;
	/* The wait returns the screen of that moment as text; other formats need another request. */
	if (!l.wanted || strcmp(format, "text") != 0 || scrollback) {
		jw_kstr(&get.w, "processId", id);
		jw_kstr(&get.w, "format", format);
		if (scrollback)
			jw_kbool(&get.w, "scrollback", true);
		if (request_read(c, &get, "get_screen") < 0)
			return cli_fail(c, EXIT_FAILED, &get.e, "%s", id);
		screen = get.result;
	}
	if (cli_as_json(c) || strcmp(format, "cells") == 0)
		buf_printf(&out, "%.*s\n", (int)screen.len, screen.text);
	else if (strcmp(format, "ansi") == 0)
		jval_str_buf(jval_get(screen, "ansi"), &out);
	else
		append_rows(screen, &out);
	return print_screen(id, &out, late);
}

/* ---- input ---- */

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

/* Writes n bytes, or closes the process's stdin if n is 0. Returns the exit status. */
static int send_input(struct cli *c, const char *id, const void *p, size_t n, uint64_t yield_ms, struct request *q)
{
	jw_kstr(&q->w, "processId", id);
	if (n) {
		jw_key(&q->w, "data");
		jw_base64(&q->w, p, n);
		jw_kstr(&q->w, "encoding", "base64");
	}
	if (yield_ms)
		jw_kuint(&q->w, "yieldMs", yield_ms);
	if (request_change(c, q, n ? "write_process_stdin" : "close_process_stdin") < 0)
		return cli_fail(c, EXIT_FAILED, &q->e, "%s", id);
	return yield_ms && !cli_as_json(c) ? show_yielded(q->result) : 0;
}

/* Each chunk is written before the next is read: a process that does not read slows down the sender. */
static int send_stdin(struct cli *c, const char *id)
{
	buf_auto struct buf last = BUF_INIT;
	mem_auto char *chunk = mem_alloc(CHUNK);

	for (;;) {
		request_auto struct request q = REQUEST_INIT(q);
		ssize_t n = read(STDIN_FILENO, chunk, CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			cli_error("input: read stdin: %s", strerror(errno));
			return EXIT_FAILED;
		}
		if (n == 0)
			return last.len && !opts_has(&c->opts, OPT_input_EOF)
				       ? format_record(jval_of(last.data, last.len), true)
				       : 0;
		if (send_input(c, id, chunk, (size_t)n, 0, &q))
			return EXIT_FAILED;
		buf_reset(&last);
		if (cli_as_json(c))
			buf_append(&last, q.result.text, q.result.len);
	}
}

/* The wait considers only output after the offset at which the input was taken. */
static int send_typed(struct cli *c, const char *id, const struct buf *bytes, uint64_t yield_ms, struct screen_wait *l)
{
	request_auto struct request q = REQUEST_INIT(q), wait = REQUEST_INIT(wait);
	buf_auto struct buf out = BUF_INIT;
	int status = send_input(c, id, bytes->data, bytes->len, yield_ms, &q), late;

	if (status || !l->wanted)
		return status || !cli_as_json(c) || opts_has(&c->opts, OPT_input_EOF) ? status
										      : format_record(q.result, true);
	l->has_after = jval_get(q.result, "offset").type == JT_NUMBER;
	l->after = jval_uint(jval_get(q.result, "offset"), 0);
	late = run_wait(c, id, l, &wait);
	if (late < 0)
		return cli_fail(c, EXIT_FAILED, &wait.e, "%s", id);
	if (cli_as_json(c))
		return format_record(wait.result, true) ? EXIT_FAILED : late;
	append_rows(wait.result, &out);
	return print_screen(id, &out, late);
}

/* The bytes to send: the arguments joined like echo does, then the keys. 0, or the exit status after a usage error. */
static int read_typed(struct cli *c, struct buf *ret)
{
	const struct opts *o = &c->opts;
	buf_auto struct buf names = BUF_INIT;
	struct err e = ERR_INIT;

	for (size_t i = 1; i < o->nargs; i++)
		buf_printf(ret, "%s%s", i > 1 ? " " : "", o->args[i]);
	for (size_t i = 0; i < o->ngiven; i++) {
		if (o->given[i].option != OPT_input_KEY || keys_parse(o->given[i].value, ret, &e) == 0)
			continue;
		int status = cli_usage(c, "option '--key': %s", e.message);
		keys_names(&names);
		cli_hint("valid keys: single characters, C-x, M-x, %s", names.data);
		return status;
	}
	return 0;
}

int cmd_input(struct cli *c)
{
	static const struct screen_wait_options wait_options = { OPT_input_WAIT, OPT_input_REGEX, OPT_input_IDLE, -1,
								 OPT_input_TIMEOUT };
	bool typed = c->opts.nargs > 1 || opts_has(&c->opts, OPT_input_KEY);
	const char *yield = opts_get(&c->opts, OPT_input_YIELD);
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf bytes = BUF_INIT;
	struct screen_wait l = { 0 };
	struct err e = ERR_INIT;
	uint64_t yield_ms = 0;
	char id[ID_LOOKUP_MAX];
	int status;

	if (c->opts.nargs < 1)
		return cli_usage(c, "which process?");
	if ((status = read_typed(c, &bytes)) || (status = parse_wait(c, &wait_options, &l)))
		return status;
	if ((yield || l.wanted) && !bytes.len)
		return cli_usage(c, "--yield, --wait, --regex and --idle need TEXT or --key");
	if (yield && l.wanted)
		return cli_usage(c, "--yield excludes --wait, --regex and --idle");
	if (yield && text_duration_ms(yield, &yield_ms, &e) < 0)
		return cli_usage(c, "option '--yield': %s", e.message);
	if (id_lookup_connect(c, id) < 0)
		return EXIT_FAILED;
	if (!typed)
		status = send_stdin(c, id);
	else
		status = bytes.len ? send_typed(c, id, &bytes, yield_ms, &l) : 0;
	if (status || !opts_has(&c->opts, OPT_input_EOF))
		return status;
	status = send_input(c, id, NULL, 0, 0, &q);
	return status || !cli_as_json(c) ? status : format_record(q.result, true);
}
