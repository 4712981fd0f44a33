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

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WAIT_MS 200
#define ITEM_MAX 65536

static const struct sandbox_options place = {
	OPT_job_PROFILE, OPT_job_CWD, OPT_job_RO,         OPT_job_RW,
	OPT_job_HIDE,    OPT_job_NET, OPT_job_ALLOW_HOST, OPT_job_TMP_SIZE,
};

/* ---- list and show ---- */

static void append_number(struct jval j, const char *path, struct buf *out)
{
	buf_printf(out, "%llu", (unsigned long long)jval_uint(jval_path(j, path), 0));
}

static void on_job(void *ctx, struct jval j)
{
	struct format_list *l = ctx;
	buf_auto struct buf ago = BUF_INIT, done = BUF_INIT, running = BUF_INIT, failed = BUF_INIT;
	char id[ID_LOOKUP_MAX], status[32];

	if (format_list_takes(l, j))
		return;
	jval_str(jval_get(j, "jobId"), id, sizeof(id));
	jval_str(jval_get(j, "status"), status, sizeof(status));
	buf_printf(&done, "%llu/%llu",
		   (unsigned long long)(jval_uint(jval_path(j, "progress.completed"), 0) +
					jval_uint(jval_path(j, "progress.reported"), 0)),
		   (unsigned long long)jval_uint(jval_get(j, "itemCount"), 0));
	append_number(j, "progress.running", &running);
	append_number(j, "progress.failed", &failed);
	format_ago(jval_get(j, "updatedAt"), l->now_us, &ago);
	format_table_cell(&l->table, FORMAT_PLAIN, id);
	format_table_cell(&l->table, format_status_colour(status), status);
	format_table_cell(&l->table, FORMAT_PLAIN, done.data);
	format_table_cell(&l->table, FORMAT_PLAIN, running.data);
	format_table_cell(&l->table, FORMAT_PLAIN, failed.data);
	format_table_cell(&l->table, FORMAT_DIM, buf_cstr(&ago));
}

static int job_list(struct cli *c)
{
	static const char *const heads[] = { "JOB", "STATUS", "DONE", "RUNNING", "FAILED", "UPDATED" };
	format_list_auto struct format_list l;
	struct err e = ERR_INIT;

	format_list_init(&l, heads, 6, opts_has(&c->opts, OPT_job_JSON));
	if (list_pages(c, "list_jobs", "jobs", !opts_has(&c->opts, OPT_job_ALL), on_job, &l, &e) < 0) {
		cli_fail(c, EXIT_FAILED, &e, "list jobs");
		return EXIT_FAILED;
	}
	return format_list_print(&l);
}

static int print_job(struct cli *c, struct jval result, const char *plain)
{
	buf_auto struct buf out = BUF_INIT;

	if (opts_has(&c->opts, OPT_job_JSON) || !plain)
		buf_append(&out, result.text, result.len);
	else
		format_scalar(jval_get(result, plain), &out);
	buf_byte(&out, '\n');
	return format_out(&out);
}

static void item_row(struct format_table *t, struct jval item)
{
	buf_auto struct buf why = BUF_INIT, attempts = BUF_INIT, text = BUF_INIT;
	struct jval input = jval_get(item, "input");
	char id[ID_LOOKUP_MAX], status[32], process[ID_LOOKUP_MAX];

	jval_str(jval_get(item, "itemId"), id, sizeof(id));
	jval_str(jval_get(item, "status"), status, sizeof(status));
	jval_str(jval_get(item, "processId"), process, sizeof(process));
	append_number(item, "attemptCount", &attempts);
	jval_str_buf(jval_path(item, "lastError.message"), &why);
	if (input.type == JT_STRING)
		jval_str_buf(input, &text);
	else
		buf_append(&text, input.text, input.len);
	format_table_cell(t, FORMAT_PLAIN, id);
	format_table_cell(t, FORMAT_PLAIN, buf_cstr(&text));
	format_table_cell(t, format_status_colour(status), status);
	format_table_cell(t, FORMAT_DIM, attempts.data);
	format_table_cell(t, FORMAT_DIM, process[0] ? process : "-");
	format_table_cell(t, FORMAT_PLAIN, buf_cstr(&why));
}

static int job_show(struct cli *c)
{
	static const char *const heads[] = { "ITEM", "TEXT", "STATUS", "ATTEMPTS", "PROCESS", "ERROR" };
	bool json = opts_has(&c->opts, OPT_job_JSON);
	buf_auto struct buf out = BUF_INIT;
	struct format_table table;
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX], cursor[32] = "";
	int status = 0;

	if (id_lookup_job(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	format_table_init(&table, heads, 6);
	do {
		remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
		buf_auto struct buf params = BUF_INIT;
		struct jw w = jw_on(&params);

		jw_obj(&w);
		jw_kstr(&w, "jobId", id);
		if (cursor[0])
			jw_kstr(&w, "cursor", cursor);
		jw_obj_end(&w);
		if (cli_call(c, "get_job", &params, &a, &e) < 0) {
			status = cli_fail(c, EXIT_FAILED, &e, "%s", id);
			break;
		}
		if (json) {
			status = print_job(c, a.result, NULL);
			break;
		}
		for (struct jiter it = jiter_on(jval_get(a.result, "items")); jiter_next(&it);)
			item_row(&table, it.value);
		jval_str(jval_get(a.result, "nextCursor"), cursor, sizeof(cursor));
	} while (cursor[0]);
	if (!json && status == 0) {
		format_table_render(&table, format_coloured(STDOUT_FILENO), format_width(STDOUT_FILENO), &out);
		status = format_out(&out);
	}
	format_table_done(&table);
	return status;
}

/* ---- create ---- */

static int write_item(const char *text, struct jw *w, struct err *e)
{
	if (!text_utf8_valid(text, strlen(text)))
		return err_set(e, ERR_INVALID, "an item is not UTF-8");
	jw_obj(w);
	jw_kstr(w, "input", text);
	jw_obj_end(w);
	return 0;
}

static int write_items(const struct opts *o, struct jw *w, struct err *e)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int r = 0;

	jw_karr(w, "items");
	for (size_t i = 0; r == 0 && i < o->ngiven; i++)
		if (o->given[i].option == OPT_job_ITEM)
			r = write_item(o->given[i].value, w, e);
	if (!opts_has(o, OPT_job_ITEM) && isatty(STDIN_FILENO))
		r = err_set(e, ERR_INVALID, "no items: give --item TEXT, or one a line on stdin");
	while (r == 0 && !opts_has(o, OPT_job_ITEM) && (n = getline(&line, &cap, stdin)) >= 0) {
		if (n > ITEM_MAX)
			r = err_set(e, ERR_INVALID, "a line has more than %d bytes", ITEM_MAX);
		if (n > 0 && line[n - 1] == '\n')
			line[n - 1] = '\0';
		if (r == 0 && line[0])
			r = write_item(line, w, e);
	}
	free(line);
	jw_arr_end(w);
	return r;
}

static int write_number(const struct opts *o, int option, const char *member, bool time, struct jw *w, struct err *e)
{
	const char *text = opts_get(o, option);
	uint64_t v;

	if (!text)
		return 0;
	if ((time ? text_duration_ms : text_size_bytes)(text, &v, e) < 0)
		return err_wrap(e, "option '--%s'", option_rows[option].name);
	jw_kuint(w, member, v);
	return 0;
}

static int write_limits(const struct opts *o, struct jw *w, struct err *e)
{
	if (write_number(o, OPT_job_PARALLEL, "maxParallel", false, w, e) < 0 ||
	    write_number(o, OPT_job_TIMEOUT, "maxRuntimeMs", true, w, e) < 0)
		return -1;
	if (!opts_has(o, OPT_job_ATTEMPTS) && !opts_has(o, OPT_job_ITEM_TIMEOUT))
		return 0;
	jw_kobj(w, "retryPolicy");
	if (write_number(o, OPT_job_ATTEMPTS, "maxAttempts", false, w, e) < 0 ||
	    write_number(o, OPT_job_ITEM_TIMEOUT, "timeoutMs", true, w, e) < 0)
		return -1;
	jw_obj_end(w);
	return 0;
}

static int wait_job(struct cli *c, const char *id)
{
	for (;;) {
		remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
		buf_auto struct buf params = BUF_INIT;
		struct err e = ERR_INIT;

		buf_printf(&params, "{\"jobId\":\"%s\",\"limit\":1}", id);
		if (cli_call(c, "get_job", &params, &a, &e) < 0)
			return cli_fail(c, EXIT_FAILED, &e, "%s", id);
		if (jval_get(a.result, "endedAt").type != JT_NONE)
			return jval_is_str(jval_get(a.result, "status"), "completed") ? 0 : EXIT_FAILED;
		poll(NULL, 0, WAIT_MS);
	}
}

static int job_create(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	const struct opts *o = &c->opts;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];
	int status;

	jw_obj(&w);
	if (o->nargs > 1)
		jw_kstrv(&w, "command", o->args + 1, o->nargs - 1);
	if (opts_get(o, OPT_job_TASK)) {
		if (id_lookup_task(c, opts_get(o, OPT_job_TASK), id) < 0)
			return EXIT_FAILED;
		jw_kstr(&w, "taskId", id);
	}
	if (opts_get(o, OPT_job_SESSION)) {
		if (id_lookup_session(c, opts_get(o, OPT_job_SESSION), id) < 0)
			return EXIT_FAILED;
		jw_kstr(&w, "sessionId", id);
	}
	if ((o->nargs > 1 && sandbox_options_write(o, &place, &w, &e) < 0) || write_limits(o, &w, &e) < 0 ||
	    write_items(o, &w, &e) < 0)
		return cli_fail(c, EXIT_USAGE, &e, "create");
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, "create_job", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "create");
	jval_str(jval_get(a.result, "jobId"), id, sizeof(id));
	status = print_job(c, a.result, "jobId");
	return status == 0 && opts_has(o, OPT_job_WAIT) ? wait_job(c, id) : status;
}

/* ---- cancel and retry ---- */

static int change_job(struct cli *c, const char *method)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (id_lookup_job(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kstr(&w, "jobId", id);
	if (c->opts.nargs > 2)
		jw_kstr(&w, "itemId", c->opts.args[2]);
	jw_kopt(&w, "reason", opts_get(&c->opts, OPT_job_REASON));
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, method, &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s %s", c->opts.args[0], id);
	return print_job(c, a.result, "status");
}

static int job_cancel(struct cli *c) { return change_job(c, "cancel_job"); }

static int job_retry(struct cli *c) { return change_job(c, "retry_job_item"); }

int cmd_job(struct cli *c)
{
	static const struct noun_verb subverbs[] = {
		{ "list", 0, 0, false, job_list },       { "show", 1, 1, false, job_show },
		{ "create", 0, 4096, true, job_create }, { "cancel", 1, 1, false, job_cancel },
		{ "retry", 2, 2, false, job_retry },
	};

	return noun_verb_run(c, subverbs, countof(subverbs));
}
