#include "supervisor/cli/screen_wait.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/client/remote.h"

#define TIMEOUT_DEFAULT_MS 30000

static const char *option_value(const struct cli *c, int option)
{
	return option < 0 ? NULL : opts_get(&c->opts, option);
}

int screen_wait_parse(struct cli *c, const struct screen_wait_options *o, struct screen_wait *ret)
{
	const char *timeout = option_value(c, o->timeout), *idle = option_value(c, o->idle);
	struct screen_wait l = { .text = option_value(c, o->text),
				 .regex = option_value(c, o->regex),
				 .timeout_ms = TIMEOUT_DEFAULT_MS };
	struct err e = ERR_INIT;

	l.exit = o->exit >= 0 && opts_has(&c->opts, o->exit);
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

int screen_wait_run(struct cli *c, const char *id, const struct screen_wait *l, struct remote_answer *ret,
		    struct err *e)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	jw_kobj(&w, "until");
	jw_kopt(&w, "text", l->text);
	jw_kopt(&w, "regex", l->regex);
	if (l->idle_ms)
		jw_kuint(&w, "idleMs", l->idle_ms);
	if (l->exit)
		jw_kbool(&w, "exit", true);
	jw_obj_end(&w);
	if (l->has_after)
		jw_kuint(&w, "after", l->after);
	jw_kuint(&w, "timeoutMs", l->timeout_ms);
	jw_obj_end(&w);
	if (cli_call(c, "wait_screen", &params, ret, e) < 0)
		return -1;
	return jval_bool(jval_get(ret->result, "matched"), false) ? 0 : 1;
}

void screen_wait_append_text(struct jval screen, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	jval_str_buf(jval_get(screen, "text"), &text);
	text_sanitize(buf_cstr(&text), text.len, out);
	if (out->len && out->data[out->len - 1] != '\n')
		buf_byte(out, '\n');
}

void screen_wait_print_timeout(const char *id) { cli_error("%s: timed out waiting; this is the current screen", id); }
