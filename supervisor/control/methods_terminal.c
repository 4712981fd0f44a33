#include "supervisor/control/methods.h"

#include "pty/screen.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/control/control_private.h"
#include "supervisor/host/screens.h"

#include <limits.h>
#include <string.h>

#define TIMEOUT_DEFAULT_MS 30000u
#define TIMEOUT_MAX_MS (24u * 3600 * 1000)
#define IDLE_MIN_MS 1u

/* A get_screen or wait_screen that waits for the screen. */
struct screen_call {
	struct call *call;
	const char *process_id, *format;
	unsigned scrollback;
	bool modes, wait;
};

/* ---- answers ---- */

static const char *const shapes[] = {
	[SCREEN_SHAPE_BLOCK] = "block", [SCREEN_SHAPE_UNDERLINE] = "underline", [SCREEN_SHAPE_BAR] = "bar"
};
static const char *const conditions[] = {
	[SCREENS_TEXT] = "text", [SCREENS_REGEX] = "regex", [SCREENS_IDLE] = "idleMs", [SCREENS_EXIT] = "exit"
};

/* The screen is valid during the callback only, so the whole reply is written here. */
static void on_screen(void *ctx, const struct err *e, const struct screen *s, enum screens_reason why, bool ended)
{
	struct screen_call *l = ctx;
	buf_auto struct buf out = BUF_INIT, text = BUF_INIT;
	struct jw w = jw_on(&out);
	struct screen_info i;

	if (e) {
		if (e->code == ERR_EXPIRED)
			call_fail_expired_output(l->call, e);
		else
			call_fail(l->call, e);
		free(l);
		return;
	}
	screen_info(s, &i);
	jw_obj(&w);
	jw_kstr(&w, "processId", l->process_id);
	if (l->wait)
		jw_kbool(&w, "matched", why != SCREENS_TIMED_OUT && why != SCREENS_NOW);
	if (l->wait && why == SCREENS_TIMED_OUT)
		jw_kbool(&w, "timedOut", true);
	else if (l->wait && why != SCREENS_NOW)
		jw_kstr(&w, "condition", conditions[why]);
	jw_kuint(&w, "rows", i.rows);
	jw_kuint(&w, "cols", i.cols);
	jw_kobj(&w, "cursor");
	jw_kuint(&w, "row", i.cursor_row);
	jw_kuint(&w, "col", i.cursor_col);
	jw_kbool(&w, "visible", i.cursor_visible);
	jw_kbool(&w, "blink", i.cursor_blink);
	jw_kstr(&w, "shape", shapes[i.cursor_shape]);
	jw_obj_end(&w);
	jw_kstr(&w, "title", i.title);
	jw_kbool(&w, "alternate", i.alternate);
	jw_kuint(&w, "scrollbackLines", i.scrollback);
	jw_kuint(&w, "offset", i.offset);
	if (i.skipped)
		jw_kuint(&w, "omittedBytes", i.skipped);
	jw_kbool(&w, "ended", ended);
	if (strcmp(l->format, "cells") == 0) {
		jw_key(&w, "cells");
		screen_cells(s, l->scrollback, &w);
	} else if (strcmp(l->format, "ansi") == 0) {
		screen_ansi(s, l->scrollback, l->modes, &text);
		jw_kstrn(&w, "ansi", buf_cstr(&text), text.len);
		jw_kuint(&w, "resumeOffset", i.offset - i.pending);
	} else {
		screen_text(s, l->scrollback, &text);
		jw_kstrn(&w, "text", buf_cstr(&text), text.len);
		jw_key(&w, "lines");
		screen_lines(s, l->scrollback, &w);
	}
	jw_obj_end(&w);
	call_reply(l->call, out.data, out.len);
	free(l);
}

/* ---- requests ---- */

/* Takes the condition of `r`. */
static int request_screen(struct call *c, struct screen_call *l, struct screens_request *r, struct err *e)
{
	struct screens *screens = c->control->o.screens;

	if (!screens) {
		screen_condition_done(&r->condition);
		return err_set(e, ERR_UNAVAILABLE, "this runtime does not serve terminals");
	}
	r->process_id = l->process_id;
	r->viewer = call_visible_uid(c);
	r->connection = c->caller.connection;
	l->call = c;
	screens_submit(screens, r, on_screen, mem_dup(l, sizeof(*l)));
	return CALL_PENDING;
}

int method_get_screen(struct call *c, const struct get_screen_params *p, struct buf *out, struct err *e)
{
	struct screens_request r = { .idle_ms = UINT64_MAX, .timeout_ms = UINT64_MAX };
	struct screen_call l = { .process_id = p->processId,
				 .format = p->format ? p->format : "text",
				 .modes = p->modes.value };
	json_int_t lines = json_integer_value(p->scrollback);

	if (json_is_true(p->scrollback) || lines > UINT_MAX)
		l.scrollback = UINT_MAX; /* all lines */
	else if (!p->scrollback || json_is_false(p->scrollback) || (json_is_integer(p->scrollback) && lines >= 0))
		l.scrollback = (unsigned)lines;
	else
		return err_field(e, "scrollback", "must be true, for all that is kept, or a number of lines");
	if (l.modes && strcmp(l.format, "ansi") != 0)
		return err_field(e, "modes", "needs format ansi");
	return request_screen(c, &l, &r, e);
}

int method_wait_screen(struct call *c, const struct wait_screen_params *p, struct buf *out, struct err *e)
{
	const struct until_members *until = &p->until;
	struct screens_request r = {
		.wait = true,
		.exit = until->exit.value,
		.timeout_ms = param_uint_or(p->timeoutMs, TIMEOUT_DEFAULT_MS),
		.idle_ms = param_uint_or(until->idleMs, UINT64_MAX),
	};
	struct screen_call l = { .process_id = p->processId, .format = "text", .wait = true };

	if (!until->text && !until->regex && !until->idleMs.given && !r.exit)
		return err_field(e, "until", "needs one or more of text, regex, idleMs and exit: true");
	if (r.timeout_ms > TIMEOUT_MAX_MS)
		return err_field(e, "timeoutMs", "must be at most %u", TIMEOUT_MAX_MS);
	if (until->idleMs.given && (r.idle_ms < IDLE_MIN_MS || r.idle_ms > TIMEOUT_MAX_MS))
		return err_field(e, "until.idleMs", "must be %u to %u", IDLE_MIN_MS, TIMEOUT_MAX_MS);
	if (screen_condition_init(&r.condition, until->text, until->regex, e) < 0)
		return -1;
	r.condition.has_after = p->after.given;
	r.condition.after = p->after.value;
	return request_screen(c, &l, &r, e);
}
