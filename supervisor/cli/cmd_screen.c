#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/remote.h"
#include "supervisor/cli/show.h"
#include "supervisor/cli/target.h"

#include <string.h>

#define TIMEOUT_DEFAULT_MS 30000

static const int conditions[] = { OPT_screen_WAIT, OPT_screen_REGEX, OPT_screen_IDLE, OPT_screen_EXIT };

struct wish {
	int condition;       /* one of the options, or −1 */
	uint64_t idle_ms, timeout_ms;
};

/* Returns 0, or the exit status of a wrong command line. */
static int take_wish(struct cli *c, struct wish *ret)
{
	const char *timeout = opts_get(&c->opts, OPT_screen_TIMEOUT), *idle = opts_get(&c->opts, OPT_screen_IDLE);
	struct wish w = { .condition = -1, .timeout_ms = TIMEOUT_DEFAULT_MS };
	struct err e = ERR_INIT;

	for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
		if (!opts_has(&c->opts, conditions[i]))
			continue;
		if (w.condition >= 0)
			return cli_usage(c, "one of --wait, --regex, --idle and --exit at a time");
		w.condition = conditions[i];
	}
	if (idle && text_duration_ms(idle, &w.idle_ms, &e) < 0)
		return cli_usage(c, "option '--idle': %s", e.message);
	if (timeout && w.condition < 0)
		return cli_usage(c, "option '--timeout' goes with --wait, --regex, --idle or --exit");
	if (timeout && text_duration_ms(timeout, &w.timeout_ms, &e) < 0)
		return cli_usage(c, "option '--timeout': %s", e.message);
	*ret = w;
	return 0;
}

/* 0, 1 = not in time, −1. */
static int wait_screen(struct cli *c, const char *id, const struct wish *wish, struct err *e)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	jw_kobj(&w, "until");
	jw_kopt(&w, "text", opts_get(&c->opts, OPT_screen_WAIT));
	jw_kopt(&w, "regex", opts_get(&c->opts, OPT_screen_REGEX));
	if (wish->condition == OPT_screen_IDLE)
		jw_kuint(&w, "idleMs", wish->idle_ms);
	if (wish->condition == OPT_screen_EXIT)
		jw_kbool(&w, "exit", true);
	jw_obj_end(&w);
	jw_kuint(&w, "timeoutMs", wish->timeout_ms);
	jw_obj_end(&w);
	if (cli_call(c, "wait_screen", &params, &a, e) < 0)
		return -1;
	return jval_bool(jval_get(a.result, "matched"), false) ? 0 : 1;
}

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

static void append_screen(const char *format, struct jval screen, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	if (strcmp(format, "ansi") == 0) {
		jval_str_buf(jval_get(screen, "ansi"), out);
	} else {
		jval_str_buf(jval_get(screen, "text"), &text);
		text_sanitize(buf_cstr(&text), text.len, out);
	}
	if (out->len && out->data[out->len - 1] != '\n')
		buf_byte(out, '\n');
}

int cmd_screen(struct cli *c)
{
	const char *format = opts_get(&c->opts, OPT_screen_FORMAT);
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	struct wish wish = { 0 };
	char id[TARGET_ID_MAX];
	int status, late = 0;

	if (c->opts.nargs != 1)
		return cli_usage(c, c->opts.nargs ? "one process at a time" : "which process?");
	if (!format)
		format = "text";
	if (strcmp(format, "text") != 0 && strcmp(format, "ansi") != 0 && strcmp(format, "cells") != 0)
		return cli_usage(c, "option '--format': '%s' is none of text, ansi and cells", format);
	if ((status = take_wish(c, &wish)) != 0)
		return status;
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || target_process(c, c->opts.args[0], id) < 0)
		return EXIT_FAILED;
	if (wish.condition >= 0 && (late = wait_screen(c, id, &wish, &e)) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	if (get_screen(c, id, format, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	if (opts_has(&c->opts, OPT_screen_JSON) || strcmp(format, "cells") == 0) {
		buf_append(&out, a.result.text, a.result.len);
		buf_byte(&out, '\n');
	} else {
		append_screen(format, a.result, &out);
	}
	if (show_out(&out))
		return EXIT_FAILED;
	if (late)
		cli_error("%s: --%s did not come true in time; this is the screen as it is", id, option_rows[wish.condition].name);
	return late ? EXIT_TIME_LIMIT : 0;
}
