/*
 * attach: shows the current screen, then all output after it, exactly once.
 *
 * The daemon's screen has the offset of the output up to which it was drawn, and foreground.c continues from that byte.
 * The position in the log is read before the screen: events after it are followed. Output printed before that position
 * but not on the screen yet is known from the process's record.
 */

#include "pty/rawmode.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/foreground.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/client/remote.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLEAR "\033[H\033[2J"
#define ALTERNATE "\033[?1049h"
#define TAIL_BYTES (64u << 10) /* shown if there is no screen */

static void open_params(const char *id, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "processId", id);
}

/* Sends initialize, and gets the position in the log. */
static int send_greeting(struct cli *c, bool observer, uint64_t *ret_sequence, struct err *e)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	if (observer)
		jw_kstr(&w, "role", "observer");
	jw_obj_end(&w);
	if (cli_call(c, "initialize", &params, &a, e) < 0)
		return -1;
	*ret_sequence = jval_uint(jval_get(a.result, "lastSequence"), 0);
	return 0;
}

static int get_process(struct cli *c, const char *id, struct remote_answer *ret, struct err *e)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	open_params(id, &w);
	jw_obj_end(&w);
	return cli_call(c, "get_process", &params, ret, e);
}

/* Sets our size first, so that the screen already has it. An error is ignored: a lasting one will show again. */
static void resize_terminal(struct cli *c, const char *id, const char *policy, struct foreground *f)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err ignored = ERR_INIT;

	if (!rawmode_size(foreground_terminal(), &f->rows, &f->cols))
		return;
	open_params(id, &w);
	jw_kuint(&w, "rows", f->rows);
	jw_kuint(&w, "cols", f->cols);
	jw_kstr(&w, "policy", policy);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	(void)cli_call(c, "resize_process", &params, &a, &ignored);
}

/* The bytes that draw the screen, and the offset of the output that follows. */
static void read_screen(struct cli *c, const char *id, uint64_t printed, struct buf *ret, uint64_t *ret_next)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	open_params(id, &w);
	jw_kstr(&w, "format", "ansi");
	jw_kbool(&w, "modes", true);
	jw_obj_end(&w);
	if (cli_call(c, "get_screen", &params, &a, &e) == 0 && jval_get(a.result, "offset").type == JT_NUMBER) {
		/* Enter the alternate screen, so that leaving it restores the previous contents of the window. */
		if (jval_bool(jval_get(a.result, "alternate"), false))
			buf_str(ret, ALTERNATE);
		jval_str_buf(jval_get(a.result, "ansi"), ret);
		*ret_next = jval_uint(jval_get(a.result, "offset"), 0);
		return;
	}
	buf_str(ret, CLEAR);
	cli_error("%s: no screen (%s); showing the end of its output", id,
		  e.code ? e.message : "the daemon's answer has no offset");
	*ret_next = printed > TAIL_BYTES ? printed - TAIL_BYTES : 0;
}

/*
 * stdin is a pipe, socket or file. A terminal is handled separately, and other descriptors (such as /dev/null) have no
 * input.
 */
static bool stdin_has_bytes(void)
{
	struct stat st;

	return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode));
}

static int attach_process(struct cli *c, const char *id, const char *policy, struct foreground *f)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf screen = BUF_INIT;
	struct exit_status ended;
	struct err e = ERR_INIT;

	if (send_greeting(c, f->observer, &f->after_sequence, &e) < 0 || get_process(c, id, &a, &e) < 0)
		return cli_fail(c, EXIT_BAILIFF, &e, "%s", id);
	bool tty = jval_get(a.result, "tty").type == JT_OBJECT, terminal = isatty(STDIN_FILENO);
	if (exit_status_of_process(a.result, &ended)) {
		cli_error("%s: the process has ended", id);
		cli_hint("bailiff logs %s shows what it printed%s%s", id, tty ? ", bailiff screen its last screen" : "",
			 tty ? ", bailiff replay all of it" : "");
		return EXIT_BAILIFF;
	}
	f->outputs = jval_get(a.result, "outputs");
	for (struct jiter it = jiter_on(f->outputs); jiter_next(&it);)
		if (output_stream_of_name(it.key) >= 0)
			f->start[output_stream_of_name(it.key)] = jval_uint(jval_get(it.value, "bytes"), 0);
	if (tty) {
		if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
			policy = NULL; /* no window shows the terminal */
		if (policy && !f->observer)
			resize_terminal(c, id, policy, f);
		read_screen(c, id, f->start[OUTPUT_PTY], &screen, &f->start[OUTPUT_PTY]);
		f->screen = &screen;
		f->size_policy = policy;
	}
	f->keys = terminal && tty; /* for an observer too: its keys must not be echoed */
	f->lines = terminal && !f->keys;
	f->forward_stdin = !f->observer && (terminal || stdin_has_bytes()) &&
			   !jval_is_str(jval_get(a.result, "stdin"), "none");
	bool seen;
	return foreground_follow(f, &seen);
}

int cmd_attach(struct cli *c)
{
	const char *detach_keys = opts_get(&c->opts, OPT_attach_DETACH_KEYS),
		   *size = opts_get(&c->opts, OPT_attach_SIZE);
	struct foreground f = { .guest = true, .observer = opts_has(&c->opts, OPT_attach_READ_ONLY) };
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (c->opts.nargs != 1)
		return cli_usage(c, c->opts.nargs ? "one process at a time" : "which process?");
	if (size && strcmp(size, "newest") != 0 && strcmp(size, "smallest") != 0 && strcmp(size, "keep") != 0)
		return cli_usage(c, "option '--size': '%s' is not newest, smallest or keep", size);
	if (keys_watch_init(&f.watch, detach_keys ? detach_keys : KEYS_DETACH, &e) < 0)
		return cli_usage(c, "option '--detach-keys': %s", e.message);
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || id_lookup_process(c, c->opts.args[0], id) < 0)
		return EXIT_BAILIFF;
	f.remote = c->remote;
	f.process_id = f.name = id;
	return attach_process(c, id, size ? size : "newest", &f);
}
