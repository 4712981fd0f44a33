#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/list_pages.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/cli/sandbox_options.h"
#include "supervisor/client/remote.h"

#include <stdlib.h>

static const struct sandbox_options place = {
	OPT_task_PROFILE, OPT_task_CWD, OPT_task_RO,         OPT_task_RW,
	OPT_task_HIDE,    OPT_task_NET, OPT_task_ALLOW_HOST, OPT_task_TMP_SIZE,
};

/* ---- list and show ---- */

struct tasks {
	struct format_list list;
	const char *status, *session; /* filters; NULL: any */
};

static void on_task(void *ctx, struct jval t)
{
	struct tasks *l = ctx;
	buf_auto struct buf ago = BUF_INIT, text = BUF_INIT;
	char id[ID_LOOKUP_MAX], status[32], percent[32] = "";

	jval_str(jval_get(t, "status"), status, sizeof(status));
	if ((l->status && strcmp(l->status, status) != 0) ||
	    (l->session && !jval_is_str(jval_get(t, "sessionId"), l->session)))
		return;
	if (format_list_takes(&l->list, t))
		return;
	struct jval number = jval_path(t, "progress.percent");
	if (number.type == JT_NUMBER)
		snprintf(percent, sizeof(percent), "%.*s%%", (int)(number.len < 8 ? number.len : 8), number.text);
	jval_str(jval_get(t, "taskId"), id, sizeof(id));
	format_ago(jval_get(t, "updatedAt"), l->list.now_us, &ago);
	jval_str_buf(jval_get(t, jval_get(t, "title").type == JT_STRING ? "title" : "objective"), &text);
	format_table_cell(&l->list.table, FORMAT_PLAIN, id);
	format_table_cell(&l->list.table, format_status_colour(status), status);
	format_table_cell(&l->list.table, FORMAT_DIM, percent[0] ? percent : "-");
	format_table_cell(&l->list.table, FORMAT_DIM, buf_cstr(&ago));
	format_table_cell(&l->list.table, FORMAT_PLAIN, buf_cstr(&text));
}

static int task_list(struct cli *c)
{
	static const char *const heads[] = { "TASK", "STATUS", "DONE", "UPDATED", "TITLE" };
	struct tasks l = { .status = opts_get(&c->opts, OPT_task_STATUS) };
	bool live = !opts_has(&c->opts, OPT_task_ALL) && !l.status;
	char session[ID_LOOKUP_MAX];
	struct err e = ERR_INIT;

	if (opts_get(&c->opts, OPT_task_SESSION)) {
		if (id_lookup_session(c, opts_get(&c->opts, OPT_task_SESSION), session) < 0)
			return EXIT_FAILED;
		l.session = session;
	}
	format_list_init(&l.list, heads, 5, opts_has(&c->opts, OPT_task_JSON));
	int status = EXIT_FAILED;
	if (list_pages(c, "list_tasks", "tasks", live, on_task, &l, &e) < 0)
		cli_fail(c, EXIT_FAILED, &e, "list tasks");
	else
		status = format_list_print(&l.list);
	format_list_done(&l.list);
	return status;
}

static int print_task(struct cli *c, struct jval result, const char *plain)
{
	buf_auto struct buf out = BUF_INIT;

	if (opts_has(&c->opts, OPT_task_JSON)) {
		buf_append(&out, result.text, result.len);
		buf_byte(&out, '\n');
	} else if (plain) {
		format_scalar(jval_get(result, plain), &out);
		buf_byte(&out, '\n');
	} else {
		format_json(result, 0, &out);
	}
	return format_out(&out);
}

/* ---- members of requests ---- */

static void write_text(const struct opts *o, int option, const char *member, struct jw *w)
{
	jw_kopt(w, member, opts_get(o, option));
}

static int write_time(const struct opts *o, int option, const char *member, struct jw *w, struct err *e)
{
	const char *text = opts_get(o, option);
	uint64_t ms;

	if (!text)
		return 0;
	if (text_duration_ms(text, &ms, e) < 0)
		return err_wrap(e, "option '--%s'", option_rows[option].name);
	jw_kuint(w, member, ms);
	return 0;
}

static int write_number(const struct opts *o, int option, const char *member, struct jw *w, struct err *e)
{
	const char *text = opts_get(o, option);
	char *end;

	if (!text)
		return 0;
	double v = strtod(text, &end);
	if (!*text || *end || v < 0 || v > 1e9)
		return err_field(e, option_rows[option].name, "option '--%s' wants a number, not '%s'",
				 option_rows[option].name, text);
	if (v == (double)(uint64_t)v)
		jw_kuint(w, member, (uint64_t)v);
	else {
		jw_key(w, member);
		jw_real(w, v);
	}
	return 0;
}

static void write_repeated(const struct opts *o, int option, const char *member, struct jw *w)
{
	if (!opts_has(o, option))
		return;
	jw_karr(w, member);
	for (size_t i = 0; i < o->ngiven; i++)
		if (o->given[i].option == option)
			jw_str(w, o->given[i].value);
	jw_arr_end(w);
}

/* --after, with abbreviated task ids. */
static int write_after(struct cli *c, struct jw *w)
{
	const struct opts *o = &c->opts;
	char id[ID_LOOKUP_MAX];

	if (!opts_has(o, OPT_task_AFTER))
		return 0;
	jw_karr(w, "blockedBy");
	for (size_t i = 0; i < o->ngiven; i++) {
		if (o->given[i].option != OPT_task_AFTER)
			continue;
		if (id_lookup_task(c, o->given[i].value, id) < 0)
			return -1;
		jw_str(w, id);
	}
	jw_arr_end(w);
	return 0;
}

static int write_described(const struct opts *o, struct jw *w, struct err *e)
{
	write_text(o, OPT_task_TITLE, "title", w);
	write_text(o, OPT_task_PRIORITY, "priority", w);
	write_text(o, OPT_task_DELIVERY, "delivery", w);
	write_repeated(o, OPT_task_ACCEPT, "acceptance", w);
	if (opts_has(o, OPT_task_AUTO_COMPLETE))
		jw_kbool(w, "autoComplete", true);
	if (opts_has(o, OPT_task_ATTEMPTS) || opts_has(o, OPT_task_BACKOFF)) {
		jw_kobj(w, "retryPolicy");
		if (write_number(o, OPT_task_ATTEMPTS, "maxAttempts", w, e) < 0 ||
		    write_time(o, OPT_task_BACKOFF, "backoffMs", w, e) < 0)
			return -1;
		jw_kuint(w, "backoffFactor", 2);
		jw_obj_end(w);
	}
	return write_time(o, OPT_task_TIMEOUT, "timeoutMs", w, e) < 0 ||
			       write_time(o, OPT_task_IDLE_TIMEOUT, "idleMs", w, e) < 0 ||
			       write_time(o, OPT_task_HEARTBEAT, "heartbeatMs", w, e) < 0
		       ? -1
		       : 0;
}

static int call_method(struct cli *c, const char *method, struct buf *params, struct remote_answer *a)
{
	struct err e = ERR_INIT;

	if (cli_call(c, method, params, a, &e) == 0)
		return 0;
	return cli_fail(c, -1, &e, "%s", c->opts.args[0]);
}

static int task_create(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT, started = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, start = BUF_INIT;
	const struct opts *o = &c->opts;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	jw_obj(&w);
	jw_kstr(&w, "objective", o->args[1]);
	if (o->nargs > 2) {
		jw_kstrv(&w, "command", o->args + 2, o->nargs - 2);
		if (sandbox_options_write(o, &place, &w, &e) < 0)
			return cli_fail(c, EXIT_FAILED, &e, "create");
	}
	if (opts_has(o, OPT_task_DRAFT))
		jw_kbool(&w, "draft", true);
	if (opts_get(o, OPT_task_SESSION)) {
		if (id_lookup_session(c, opts_get(o, OPT_task_SESSION), id) < 0)
			return EXIT_FAILED;
		jw_kstr(&w, "sessionId", id);
	}
	if (opts_get(o, OPT_task_PARENT)) {
		if (id_lookup_task(c, opts_get(o, OPT_task_PARENT), id) < 0)
			return EXIT_FAILED;
		jw_kstr(&w, "parentTaskId", id);
	}
	if (write_after(c, &w) < 0)
		return EXIT_FAILED;
	if (write_described(o, &w, &e) < 0)
		return cli_fail(c, EXIT_USAGE, &e, "create");
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (call_method(c, "create_task", &params, &a) < 0)
		return EXIT_FAILED;
	if (opts_has(o, OPT_task_START)) {
		struct jw s = jw_on(&start);
		jval_str(jval_get(a.result, "taskId"), id, sizeof(id));
		jw_obj(&s);
		jw_kstr(&s, "taskId", id);
		remote_key(c->remote, &s);
		jw_obj_end(&s);
		if (call_method(c, "start_task", &start, &started) < 0)
			return EXIT_FAILED;
		return print_task(c, started.result, "taskId");
	}
	return print_task(c, a.result, "taskId");
}

/* ---- verbs on one task ---- */

static int write_progress(struct cli *c, struct jw *w, struct err *e)
{
	const struct opts *o = &c->opts;

	write_text(o, OPT_task_PHASE, "phase", w);
	write_text(o, OPT_task_SUMMARY, "summary", w);
	write_text(o, OPT_task_DELIVERY, "delivery", w);
	write_repeated(o, OPT_task_MET, "acceptance", w);
	return write_number(o, OPT_task_PERCENT, "percent", w, e);
}

static int write_complete(struct cli *c, struct jw *w, struct err *e)
{
	write_text(&c->opts, OPT_task_SUMMARY, "summary", w);
	write_text(&c->opts, OPT_task_DELIVERY, "delivery", w);
	write_repeated(&c->opts, OPT_task_MET, "acceptance", w);
	return 0;
}

static int write_reason(struct cli *c, struct jw *w, struct err *e)
{
	write_text(&c->opts, OPT_task_REASON, "reason", w);
	return 0;
}

static int write_cancel(struct cli *c, struct jw *w, struct err *e)
{
	if (opts_has(&c->opts, OPT_task_KEEP_CHILDREN))
		jw_kbool(w, "propagate", false);
	return write_reason(c, w, e);
}

static int write_start(struct cli *c, struct jw *w, struct err *e)
{
	return write_time(&c->opts, OPT_task_HEARTBEAT, "heartbeatMs", w, e);
}

static int write_fail(struct cli *c, struct jw *w, struct err *e)
{
	jw_kstr(w, "error", c->opts.args[2]);
	return 0;
}

static int write_update(struct cli *c, struct jw *w, struct err *e)
{
	write_text(&c->opts, OPT_task_STATUS, "status", w);
	write_reason(c, w, e);
	return write_described(&c->opts, w, e);
}

static int write_edge(struct cli *c, struct jw *w, struct err *e)
{
	static const char *const of_tasks[] = { "parent", "child", "blocks", "blocked_by", "source_task" };
	const char *kind = c->opts.args[2], *target = c->opts.args[3];
	char id[ID_LOOKUP_MAX];

	for (size_t i = 0; i < countof(of_tasks); i++)
		if (strcmp(of_tasks[i], kind) == 0) {
			if (id_lookup_task(c, target, id) < 0)
				return -1;
			target = id;
		}
	jw_kstr(w, "kind", kind);
	jw_kstr(w, "targetId", target);
	return write_reason(c, w, e);
}

/* Verbs on one task: the method, and the function that writes the parameters other than the id. */
static const struct task_change {
	const char *name, *method;
	int (*write)(struct cli *c, struct jw *w, struct err *e); /* NULL: the method only reads */
} changes[] = {
	{ "show", "get_task", NULL },
	{ "start", "start_task", write_start },
	{ "progress", "append_task_progress", write_progress },
	{ "pause", "pause_task", write_reason },
	{ "resume", "resume_task", write_reason },
	{ "cancel", "cancel_task", write_cancel },
	{ "retry", "retry_task", write_reason },
	{ "complete", "complete_task", write_complete },
	{ "fail", "fail_task", write_fail },
	{ "archive", "archive_task", write_reason },
	{ "link", "link_tasks", write_edge },
	{ "unlink", "unlink_tasks", write_edge },
	{ "update", "update_task", write_update },
};

static int change_task(struct cli *c)
{
	const struct task_change *v = changes;
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	while (strcmp(v->name, c->opts.args[0]) != 0)
		v++;
	if (id_lookup_task(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kstr(&w, "taskId", id);
	if (v->write && v->write(c, &w, &e) < 0)
		return e.code ? cli_fail(c, EXIT_USAGE, &e, "%s", v->name) : EXIT_FAILED;
	if (v->write)
		remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, v->method, &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s %s", v->name, id);
	return print_task(c, a.result, v->write ? "status" : NULL);
}

int cmd_task(struct cli *c)
{
	static const struct noun_verb subverbs[] = {
		{ "list", 0, 0, false, task_list },       { "create", 1, 4096, true, task_create },
		{ "show", 1, 1, false, change_task },     { "start", 1, 1, false, change_task },
		{ "progress", 1, 1, false, change_task }, { "pause", 1, 1, false, change_task },
		{ "resume", 1, 1, false, change_task },   { "cancel", 1, 1, false, change_task },
		{ "retry", 1, 1, false, change_task },    { "complete", 1, 1, false, change_task },
		{ "fail", 2, 2, false, change_task },     { "archive", 1, 1, false, change_task },
		{ "link", 3, 3, false, change_task },     { "unlink", 3, 3, false, change_task },
		{ "update", 1, 1, false, change_task },
	};

	return noun_verb_run(c, subverbs, countof(subverbs));
}
