#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/screen_wait.h"
#include "supervisor/client/remote.h"

#include <stdlib.h>
#include <string.h>

static const struct screen_wait_options screen_wait_options = {
	OPT_screen_WAIT, OPT_screen_REGEX, OPT_screen_IDLE, OPT_screen_EXIT, OPT_screen_TIMEOUT,
};

static int get_screen(struct cli *c, const char *id, const char *format, struct remote_answer *ret, struct err *e)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	jw_kstr(&w, "format", format);
	if (opts_has(&c->opts, OPT_screen_SCROLLBACK))
		jw_kbool(&w, "scrollback", true);
	jw_obj_end(&w);
	return cli_call(c, "get_screen", &params, ret, e);
}

static int show_screen(struct cli *c, const char *format, struct jval screen)
{
	buf_auto struct buf out = BUF_INIT;

	if (opts_has(&c->opts, OPT_screen_JSON) || strcmp(format, "cells") == 0) {
		buf_append(&out, screen.text, screen.len);
		buf_byte(&out, '\n');
	} else if (strcmp(format, "ansi") == 0) {
		jval_str_buf(jval_get(screen, "ansi"), &out);
	} else {
		screen_wait_append_text(screen, &out);
	}
	return format_out(&out);
}

static int wait_and_show(struct cli *c, const char *id, const char *format, const struct screen_wait *l)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	/* The wait returns the screen of that moment as text; other formats need another request. */
	bool other = strcmp(format, "text") != 0 || opts_has(&c->opts, OPT_screen_SCROLLBACK);
	struct err e = ERR_INIT;
	int late = 0;

	if (l->wanted)
		late = screen_wait_run(c, id, l, &a, &e);
	if (late < 0 || ((!l->wanted || other) && get_screen(c, id, format, &a, &e) < 0))
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	if (show_screen(c, format, a.result))
		return EXIT_FAILED;
	if (late)
		screen_wait_print_timeout(id);
	return late ? EXIT_TIME_LIMIT : 0;
}

int cmd_screen(struct cli *c)
{
	const char *format = opts_get(&c->opts, OPT_screen_FORMAT), *after = opts_get(&c->opts, OPT_screen_AFTER);
	struct screen_wait l = { 0 };
	char id[ID_LOOKUP_MAX];
	int status;

	if (c->opts.nargs != 1)
		return cli_usage(c, c->opts.nargs ? "one process at a time" : "which process?");
	if (!format)
		format = "text";
	if (strcmp(format, "text") != 0 && strcmp(format, "ansi") != 0 && strcmp(format, "cells") != 0)
		return cli_usage(c, "option '--format': '%s' is not text, ansi or cells", format);
	if ((status = screen_wait_parse(c, &screen_wait_options, &l)) != 0)
		return status;
	if (after && (!after[0] || strspn(after, "0123456789") != strlen(after) || strlen(after) > 18))
		return cli_usage(c, "option '--after': '%s' is not an offset", after);
	if (after && !l.wanted)
		return cli_usage(c, "option '--after' needs a condition: --wait, --regex, --idle or --exit");
	l.has_after = after != NULL;
	l.after = after ? strtoull(after, NULL, 10) : 0;
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || id_lookup_process(c, c->opts.args[0], id) < 0)
		return EXIT_FAILED;
	return wait_and_show(c, id, format, &l);
}
