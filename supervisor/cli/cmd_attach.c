/*
 * attach: shows the current screen, then all output after it, exactly once.
 *
 * The daemon's screen has the offset of the output up to which it was drawn, and foreground.c continues from that byte,
 * or from the first one of a character or control sequence of which the rest was not printed yet.
 * The position in the log is read before the screen: events after it are followed. Output printed before that position
 * but not on the screen yet is known from the process's record.
 */

#include "pty/rawmode.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/foreground.h"
#include "supervisor/cli/id_lookup.h"

#include <unistd.h>

#define CLEAR "\033[H\033[2J"
#define ALTERNATE "\033[?1049h"
#define TAIL_BYTES (64u << 10) /* shown if there is no screen */

/* Sets our size first, so that the screen already has it. An error is ignored: a persistent one will show again. */
static void resize_terminal(struct cli *c, const char *id, const char *policy, struct foreground *f)
{
	request_auto struct request q = REQUEST_INIT(q);

	if (!rawmode_size(foreground_terminal(), &f->rows, &f->cols))
		return;
	jw_kstr(&q.w, "processId", id);
	jw_kuint(&q.w, "rows", f->rows);
	jw_kuint(&q.w, "cols", f->cols);
	jw_kstr(&q.w, "policy", policy);
	(void)request_change(c, &q, "resize_process");
}

/* The bytes that draw the screen, and the offset of the output that follows. */
static void read_screen(struct cli *c, const char *id, uint64_t printed, struct buf *ret, uint64_t *ret_next)
{
	request_auto struct request q = REQUEST_INIT(q);

	jw_kstr(&q.w, "processId", id);
	jw_kstr(&q.w, "format", "ansi");
	jw_kbool(&q.w, "modes", true);
	if (request_read(c, &q, "get_screen") == 0 && jval_get(q.result, "offset").type == JT_NUMBER) {
		/* Enter the alternate screen, so that leaving it restores the previous contents of the window. */
		if (jval_bool(jval_get(q.result, "alternate"), false))
			buf_str(ret, ALTERNATE);
		jval_str_buf(jval_get(q.result, "ansi"), ret);
		/* A daemon that was not upgraded yet has only the latter. */
		*ret_next = jval_uint(jval_get(q.result, "resumeOffset"), jval_uint(jval_get(q.result, "offset"), 0));
		return;
	}
	buf_str(ret, CLEAR);
	cli_error("%s: no screen (%s); showing the end of its output", id,
		  q.e.code ? q.e.message : "the daemon's answer has no offset");
	*ret_next = printed > TAIL_BYTES ? printed - TAIL_BYTES : 0;
}

/*
 * The order matters: the position in the log is read first, then the record, then the screen. What happens between two
 * of these steps is seen twice at most, and foreground.c skips what is already on the screen.
 */
static int attach_process(struct cli *c, const char *id, const char *policy, struct foreground *f)
{
	request_auto struct request hello = REQUEST_INIT(hello), q = REQUEST_INIT(q);
	buf_auto struct buf screen = BUF_INIT;
	struct exit_status ended;
	char action[ID_LOOKUP_MAX];

	/* The position in the log, before anything else is read. */
	if (f->observer)
		jw_kstr(&hello.w, "role", "observer");
	if (request_read(c, &hello, "initialize") < 0)
		return cli_fail(c, EXIT_BAILIFF, &hello.e, "%s", id);
	f->after_sequence = jval_uint(jval_get(hello.result, "lastSequence"), 0);
	jw_kstr(&q.w, "processId", id);
	if (request_read(c, &q, "get_process") < 0)
		return cli_fail(c, EXIT_BAILIFF, &q.e, "%s", id);
	bool tty = jval_get(q.result, "tty").type == JT_OBJECT, terminal = isatty(STDIN_FILENO);
	if (exit_status_of_process(q.result, &ended)) {
		cli_error("%s: the process has ended", id);
		cli_hint("bailiff logs %s shows what it printed%s%s", id, tty ? ", bailiff screen its last screen" : "",
			 tty ? ", bailiff replay all of it" : "");
		return EXIT_BAILIFF;
	}
	if (jval_is_str(jval_get(q.result, "status"), "waiting_permission") &&
	    jval_str(jval_get(q.result, "actionId"), action, sizeof(action)))
		f->action_id = action;
	f->outputs = jval_get(q.result, "outputs");
	for (struct jiter it = jiter_on(f->outputs); jiter_next(&it);)
		if (output_stream_of_name(it.key) >= 0)
			f->start[output_stream_of_name(it.key)] = jval_uint(jval_get(it.value, "bytes"), 0);
	if (tty && !f->json) {
		if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
			policy = NULL; /* no window shows the terminal */
		if (policy && !f->observer)
			resize_terminal(c, id, policy, f);
		read_screen(c, id, f->start[OUTPUT_PTY], &screen, &f->start[OUTPUT_PTY]);
		f->screen = &screen;
		f->size_policy = policy;
	}
	f->keys = terminal && tty && !f->json; /* for an observer too: its keys must not be echoed */
	f->lines = terminal && !f->keys && !f->json;
	f->forward_stdin = !f->observer && ((terminal && !f->json) || foreground_stdin_given()) &&
			   !jval_is_str(jval_get(q.result, "stdin"), "none");
	bool seen;
	return foreground_follow(f, &seen);
}

int cmd_attach(struct cli *c)
{
	const char *detach_keys = opts_get(&c->opts, OPT_attach_DETACH_KEYS),
		   *size = opts_get(&c->opts, OPT_attach_SIZE);
	struct foreground f = { .guest = true,
				.json = cli_as_json(c),
				.observer = opts_has(&c->opts, OPT_attach_READ_ONLY) };
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];
	int status = cli_one_process(c);

	if (status)
		return status;
	if (size && strcmp(size, "newest") != 0 && strcmp(size, "smallest") != 0 && strcmp(size, "keep") != 0)
		return cli_usage(c, "option '--size': '%s' is not newest, smallest or keep", size);
	if (keys_watch_init(&f.watch, detach_keys ? detach_keys : KEYS_DETACH, &e) < 0)
		return cli_usage(c, "option '--detach-keys': %s", e.message);
	if (id_lookup_connect(c, id) < 0)
		return EXIT_BAILIFF;
	f.cli = c;
	f.remote = c->remote;
	f.process_id = f.name = id;
	return attach_process(c, id, size ? size : "newest", &f);
}
