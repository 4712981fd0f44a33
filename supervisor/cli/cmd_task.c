/*
 * Tasks and jobs: the subverbs that are more than one row of verbs.def. Each runs after noun.c has connected and
 * checked the number of arguments, so args[1] exists where the row requires it.
 */

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun.h"
#include "supervisor/cli/process_logs.h"
#include "supervisor/cli/progress.h"
#include "supervisor/cli/sandbox_options.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WAIT_MS 200 /* between two looks at a job: its end is not an event that a client can wait for */
#define ITEM_MAX 65536
#define EXIT_BLOCKED 3 /* needs a person */
#define OBJECTIVE_MAX 1000

/* ---- --agent ---- */

/* The prompt is the arguments after the subverb. */
static void read_prompt(const struct opts *o, const char *otherwise, struct buf *ret)
{
	for (size_t i = 1; i < o->nargs; i++)
		buf_printf(ret, "%s%s", i > 1 ? " " : "", o->args[i]);
	if (!ret->len)
		buf_str(ret, otherwise);
}

/* 0, or the exit status. */
static int write_agent(struct cli *c, int model, const char *prompt, struct jw *w)
{
	jw_kobj(w, "agent");
	jw_kstr(w, "prompt", prompt);
	jw_kopt(w, "model", opts_get(&c->opts, model));
	int status = noun_options(c, AGENT_LIMITS, w);
	jw_obj_end(w);
	return status;
}

/* ---- options of run ---- */

/* What `run` has beyond the sandbox: the environment, limits, and how the command's changes and tree are treated. */
struct command_options {
	int env, env_pass, cow, keep_tree;
};
#define COMMAND_OPTIONS(noun)                                                                     \
	{                                                                                         \
		OPT_##noun##_ENV, OPT_##noun##_ENV_PASS, OPT_##noun##_COW, OPT_##noun##_KEEP_TREE \
	}

static int write_command(const struct opts *o, const struct command_options *of, const struct limit_option *limits,
			 size_t nlimits, struct jw *w, struct err *e)
{
	if (opts_has(o, of->cow))
		jw_kbool(w, "cow", true);
	if (opts_has(o, of->keep_tree))
		jw_kbool(w, "keepTree", true);
	if (limit_options_write(o, limits, nlimits, w, e) < 0)
		return -1;
	jw_kobj(w, "env");
	if (env_options_write(o, of->env, of->env_pass, w, e) < 0)
		return -1;
	jw_obj_end(w);
	return 0;
}

static int write_task_command(const struct opts *o, struct jw *w, struct err *e)
{
	static const struct limit_option limits[] = { COMMAND_LIMIT_OPTIONS(task) };
	static const struct command_options of = COMMAND_OPTIONS(task);

	return write_command(o, &of, limits, countof(limits), w, e);
}

static int write_job_command(const struct opts *o, struct jw *w, struct err *e)
{
	static const struct limit_option limits[] = { COMMAND_LIMIT_OPTIONS(job) };
	static const struct command_options of = COMMAND_OPTIONS(job);

	return write_command(o, &of, limits, countof(limits), w, e);
}

/* Without a command, the options for one would have no effect. 0, or the exit status. */
static int check_command(struct cli *c, size_t nargs)
{
	const char *name = noun_first_given(c, SANDBOX_OPTION_NAMES " " COMMAND_OPTION_NAMES);

	if (c->opts.nargs > nargs || !name)
		return 0;
	return cli_usage(c, "create: --%s needs a command: -- CMD ARG... at the end", name);
}

/* ---- tasks ---- */

int task_create(struct cli *c)
{
	struct sandbox_options options = SANDBOX_OPTIONS(task);
	request_auto struct request q = REQUEST_INIT(q), start = REQUEST_INIT(start);
	const struct opts *o = &c->opts;
	char id[ID_LOOKUP_MAX];
	int status;

	/* What an earlier task makes may be a root of a later one. */
	options.later = !opts_has(o, OPT_task_START) || opts_has(o, OPT_task_AFTER);
	if ((status = check_command(c, 2)))
		return status;
	jw_kstr(&q.w, "objective", o->args[1]);
	if (o->nargs > 2) {
		jw_kstrv(&q.w, "command", o->args + 2, o->nargs - 2);
		if (sandbox_options_write(o, &options, &q.w, &q.e) < 0 || write_task_command(o, &q.w, &q.e) < 0)
			return cli_usage(c, "create: %s", q.e.message);
	}
	status = noun_options(
		c,
		"draft:yes session=sessionId:session parent=parentTaskId:task after=blockedBy[]:task " TASK_DESCRIPTION,
		&q.w);
	if (status || !opts_has(o, OPT_task_START))
		return status ? status : noun_change(c, &q, "create_task", "taskId");
	/* Two requests. If the second fails the task exists, is not started, and `task start` can be tried again. */
	if (request_change(c, &q, "create_task") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "task create");
	jval_str(jval_get(q.result, "taskId"), id, sizeof(id));
	jw_kstr(&start.w, "taskId", id);
	return noun_change(c, &start, "start_task", "taskId");
}

/* `wait` blocks until the task is started; say so once, because create without --start does not start it. */
static void note_not_started(const char *id, struct jval status, bool *noted)
{
	const bool draft = jval_is_str(status, "draft");

	if (*noted || (!draft && !jval_is_str(status, "accepted")))
		return;
	cli_error("%s has not been started yet", id);
	if (draft)
		cli_hint("bailiff task update --status accepted %s accepts the draft; bailiff task start %s starts it",
			 id, id);
	else
		cli_hint("bailiff task start %s starts it", id);
	cli_print_notice();
	*noted = true;
}

/* Until the task has ended, or cannot go on without a person. Prints the summary. */
static int wait_task(struct cli *c, const char *id)
{
	bool noted = false;
	struct progress line;

	progress_begin(&line, c);
	for (;;) {
		request_auto struct request q = REQUEST_INIT(q);

		jw_kstr(&q.w, "taskId", id);
		if (request_read(c, &q, "get_task") < 0)
			return cli_fail(c, EXIT_FAILED, &q.e, "%s", id);
		struct jval status = jval_get(q.result, "status");
		const bool ended = jval_get(q.result, "endedAt").type != JT_NONE,
			   done = jval_is_str(status, "completed"),
			   waits = jval_is_str(status, "blocked") || jval_is_str(status, "waiting_permission") ||
				   jval_is_str(status, "waiting_input");
		if (!ended && !waits) {
			char now[64];

			note_not_started(id, status, &noted);
			jval_str(status, now, sizeof(now));
			progress_draw(&line, now, 0, 0, 0, 0);
			poll(NULL, 0, WAIT_MS);
			continue;
		}
		progress_clear(&line);
		mem_auto char *text = jval_strdup(jval_get(q.result, done ? "completionSummary" : "statusReason")),
			      *name = jval_strdup(status);
		if (cli_as_json(c))
			format_record(q.result, true);
		else if (done) {
			buf_auto struct buf safe = BUF_INIT;

			text_sanitize(text ? text : "", text ? strlen(text) : 0, &safe);
			if (safe.len)
				buf_byte(&safe, '\n');
			format_out(&safe);
		} else {
			cli_error("%s is %s%s%s", id, name, text ? ": " : "", text ? text : "");
			if (jval_is_str(jval_get(q.result, "waitingFor"), "complete_task"))
				cli_hint("bailiff task complete %s, or bailiff task fail %s MESSAGE; with "
					 "--auto-complete, a task is completed when its command succeeds",
					 id, id);
		}
		return done ? 0 : ended ? EXIT_FAILED : EXIT_BLOCKED;
	}
}

int task_wait(struct cli *c)
{
	char id[ID_LOOKUP_MAX];

	return id_lookup(c, ID_TASK, c->opts.args[1], id) < 0 ? EXIT_FAILED : wait_task(c, id);
}

/* Of an attempt that a model works on there is no command: its conversation is the session's. */
int task_logs(struct cli *c)
{
	const struct process_logs how = { .follow = opts_has(&c->opts, OPT_task_FOLLOW),
					  .raw = opts_has(&c->opts, OPT_task_RAW),
					  .json = cli_as_json(c) };
	request_auto struct request q = REQUEST_INIT(q);
	char task[ID_LOOKUP_MAX], process[ID_LOOKUP_MAX] = "";

	if (id_lookup(c, ID_TASK, c->opts.args[1], task) < 0)
		return EXIT_FAILED;
	jw_kstr(&q.w, "taskId", task);
	jw_kuint(&q.w, "limit", 1);
	if (request_read(c, &q, "list_processes") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "%s", task);
	struct jiter it = jiter_on(jval_get(q.result, "processes"));
	if (jiter_next(&it))
		jval_str(jval_get(it.value, "processId"), process, sizeof(process));
	if (process[0])
		return process_logs(c, process, &how);
	cli_error("%s has run no command yet", task);
	cli_hint("bailiff task show %s shows its attempts", task);
	return EXIT_FAILED;
}

/* Creates and starts a task whose attempts are turns of the loop, and waits for its end. */
int task_run(struct cli *c)
{
	static const struct sandbox_options options = SANDBOX_OPTIONS(task);
	request_auto struct request q = REQUEST_INIT(q), start = REQUEST_INIT(start);
	const struct opts *o = &c->opts;
	buf_auto struct buf prompt = BUF_INIT;
	char id[ID_LOOKUP_MAX];
	int status;

	if (!opts_has(o, OPT_task_AGENT))
		return cli_usage(c, "run needs --agent; task create --start runs a command");
	read_prompt(o, "", &prompt);
	jw_kstrn(&q.w, "objective", buf_cstr(&prompt),
		 prompt.len > OBJECTIVE_MAX ? text_utf8_cut(prompt.data, OBJECTIVE_MAX) : prompt.len);
	if ((status = write_agent(c, OPT_task_MODEL, buf_cstr(&prompt), &q.w)))
		return status;
	if (!opts_has(o, OPT_task_AUTO_COMPLETE))
		jw_kbool(&q.w, "autoComplete", true);
	if (sandbox_options_write(o, &options, &q.w, &q.e) < 0)
		return cli_usage(c, "run: %s", q.e.message);
	status = noun_options(
		c, "session=sessionId:session parent=parentTaskId:task after=blockedBy[]:task " TASK_DESCRIPTION, &q.w);
	if (status)
		return status;
	if (request_change(c, &q, "create_task") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "task run");
	jval_str(jval_get(q.result, "taskId"), id, sizeof id);
	jw_kstr(&start.w, "taskId", id);
	if (request_change(c, &start, "start_task") < 0)
		return cli_fail(c, EXIT_FAILED, &start.e, "task run");
	cli_hint("task %s", id);
	return wait_task(c, id);
}

/* An edge TASK KIND TARGET. The target of some kinds is a task, whose id may be shortened. */
static int change_edge(struct cli *c, const char *method)
{
	static const char *const of_tasks[] = { "parent", "child", "blocks", "blocked_by", "source_task" };
	const char *kind = c->opts.args[2], *target = c->opts.args[3];
	request_auto struct request q = REQUEST_INIT(q);
	char task[ID_LOOKUP_MAX], id[ID_LOOKUP_MAX];

	if (id_lookup(c, ID_TASK, c->opts.args[1], task) < 0)
		return EXIT_FAILED;
	for (size_t i = 0; i < countof(of_tasks); i++)
		if (strcmp(of_tasks[i], kind) == 0) {
			if (id_lookup(c, ID_TASK, target, id) < 0)
				return EXIT_FAILED;
			target = id;
			break;
		}
	jw_kstr(&q.w, "taskId", task);
	jw_kstr(&q.w, "kind", kind);
	jw_kstr(&q.w, "targetId", target);
	jw_kopt(&q.w, "reason", opts_get(&c->opts, OPT_task_REASON));
	return noun_change(c, &q, method, "status");
}

int task_link(struct cli *c) { return change_edge(c, "link_tasks"); }

int task_unlink(struct cli *c) { return change_edge(c, "unlink_tasks"); }

/* ---- jobs ---- */

/* JSON is UTF-8: a file name in another encoding would not arrive unchanged. */
static int write_item(const char *text, struct jw *w, struct err *e)
{
	if (!text_utf8_valid(text, strlen(text)))
		return err_set(e, ERR_INVALID, "an item is not UTF-8");
	jw_obj(w);
	jw_kstr(w, "input", text);
	jw_obj_end(w);
	return 0;
}

/* The items of --item or, without any, the lines of --items or stdin. Empty lines are skipped. */
static int write_items(const struct opts *o, struct jw *w, struct err *e)
{
	const char *path = opts_get(o, OPT_job_ITEMS);
	FILE *from = path && strcmp(path, "-") != 0 ? fopen(path, "re") : stdin;
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int r = 0;

	if (!from)
		return err_set(e, ERR_INVALID, "%s: %s", path, strerror(errno));
	jw_karr(w, "items");
	for (size_t i = 0; r == 0 && i < o->ngiven; i++)
		if (o->given[i].option == OPT_job_ITEM)
			r = write_item(o->given[i].value, w, e);
	bool any = opts_has(o, OPT_job_ITEM), ask = !any && from == stdin && isatty(STDIN_FILENO);
	while (r == 0 && !ask && !opts_has(o, OPT_job_ITEM) && (n = getline(&line, &cap, from)) >= 0) {
		if (n > ITEM_MAX)
			r = err_set(e, ERR_INVALID, "a line has more than %d bytes", ITEM_MAX);
		if (n > 0 && line[n - 1] == '\n')
			line[n - 1] = '\0';
		if (r == 0 && line[0]) {
			r = write_item(line, w, e);
			any = true;
		}
	}
	if (r == 0 && !any && ferror(from))
		r = err_set(e, ERR_INVALID, "%s: %s", path ? path : "stdin", strerror(errno));
	else if (r == 0 && !any)
		r = err_set(e, ERR_INVALID, "no items: give --item TEXT, or one a line on stdin or in --items FILE");
	free(line);
	if (from != stdin)
		fclose(from);
	jw_arr_end(w);
	return r;
}

static int wait_job(struct cli *c, const char *id)
{
	struct progress line;

	progress_begin(&line, c);
	for (;;) {
		request_auto struct request q = REQUEST_INIT(q);

		jw_kstr(&q.w, "jobId", id);
		jw_kuint(&q.w, "limit", 1);
		if (request_read(c, &q, "get_job") < 0)
			return cli_fail(c, EXIT_FAILED, &q.e, "%s", id);
		if (jval_get(q.result, "endedAt").type != JT_NONE) {
			progress_clear(&line);
			if (jval_is_str(jval_get(q.result, "status"), "completed"))
				return 0;
			cli_error("%s: %llu of %llu items failed", id,
				  (unsigned long long)jval_uint(jval_path(q.result, "progress.failed"), 0),
				  (unsigned long long)jval_uint(jval_path(q.result, "progress.total"), 0));
			cli_hint("bailiff job show %s lists them with their errors", id);
			return EXIT_FAILED;
		}
		struct jval n = jval_get(q.result, "progress");
		uint64_t total = jval_uint(jval_get(n, "total"), 0), running = jval_uint(jval_get(n, "running"), 0);
		progress_draw(&line, NULL, total - running - jval_uint(jval_get(n, "pending"), 0), total, running,
			      jval_uint(jval_get(n, "failed"), 0));
		poll(NULL, 0, WAIT_MS);
	}
}

/* With --wait the exit status tells whether all items succeeded. */
int job_create(struct cli *c)
{
	static const struct sandbox_options options = SANDBOX_OPTIONS(job);
	request_auto struct request q = REQUEST_INIT(q);
	const struct opts *o = &c->opts;
	char id[ID_LOOKUP_MAX];
	int status;

	if ((status = check_command(c, 1)))
		return status;
	if (o->nargs > 1)
		jw_kstrv(&q.w, "command", o->args + 1, o->nargs - 1);
	status = noun_options(c, JOB_SETTINGS, &q.w);
	if (status)
		return status;
	if ((o->nargs > 1 &&
	     (sandbox_options_write(o, &options, &q.w, &q.e) < 0 || write_job_command(o, &q.w, &q.e) < 0)) ||
	    write_items(o, &q.w, &q.e) < 0)
		return cli_usage(c, "create: %s", q.e.message);
	status = noun_change(c, &q, "create_job", "jobId");
	jval_str(jval_get(q.result, "jobId"), id, sizeof(id));
	return status == 0 && opts_has(o, OPT_job_WAIT) ? wait_job(c, id) : status;
}

/* One line for each item: its status, its text, and how its agent's answer begins or why it failed. */
static int print_report(struct cli *c, const char *id)
{
	buf_auto struct buf out = BUF_INIT;
	request_auto struct request q = REQUEST_INIT(q);

	jw_kstr(&q.w, "jobId", id);
	if (request_read(c, &q, "get_job") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "%s", id);
	if (cli_as_json(c))
		return format_record(q.result, true);
	for (struct jiter it = jiter_on(jval_get(q.result, "items")); jiter_next(&it);) {
		mem_auto char *status = jval_strdup(jval_get(it.value, "status")),
			      *input = jval_strdup(jval_get(it.value, "input")),
			      *summary = jval_strdup(jval_get(it.value, "summary")),
			      *error = jval_strdup(jval_get(jval_get(it.value, "lastError"), "message"));
		const char *outcome = summary ? summary : error;
		buf_auto struct buf line = BUF_INIT;

		buf_printf(&line, "%s  %s%s%.*s", status ? status : "", input ? input : "", outcome ? ": " : "",
			   outcome ? (int)strcspn(outcome, "\n") : 0, outcome ? outcome : "");
		text_sanitize(buf_cstr(&line), line.len, &out);
		buf_byte(&out, '\n');
	}
	return format_out(&out);
}

/* A job whose items are prompts, or fill in one. */
int job_run(struct cli *c)
{
	static const struct sandbox_options options = SANDBOX_OPTIONS(job);
	request_auto struct request q = REQUEST_INIT(q);
	const struct opts *o = &c->opts;
	buf_auto struct buf prompt = BUF_INIT;
	char id[ID_LOOKUP_MAX];
	int status;

	if (!opts_has(o, OPT_job_AGENT))
		return cli_usage(c, "run needs --agent; job create --wait runs a command");
	read_prompt(o, "{item}", &prompt);
	if ((status = write_agent(c, OPT_job_MODEL, buf_cstr(&prompt), &q.w)) ||
	    (status = noun_options(c, JOB_SETTINGS, &q.w)))
		return status;
	if (sandbox_options_write(o, &options, &q.w, &q.e) < 0 || write_items(o, &q.w, &q.e) < 0)
		return cli_usage(c, "run: %s", q.e.message);
	if (request_change(c, &q, "create_job") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "job run");
	jval_str(jval_get(q.result, "jobId"), id, sizeof id);
	cli_hint("job %s", id);
	status = wait_job(c, id);
	return print_report(c, id) ? EXIT_FAILED : status;
}
