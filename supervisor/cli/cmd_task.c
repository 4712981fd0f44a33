/*
 * Tasks and jobs: the subverbs that are more than one row of verbs.def. Each runs after noun.c has connected and
 * checked the number of arguments, so args[1] exists where the row requires it.
 */

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun.h"
#include "supervisor/cli/sandbox_options.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WAIT_MS 200 /* between two looks at a job: its end is not an event that a client can wait for */
#define ITEM_MAX 65536

/* ---- tasks ---- */

int task_create(struct cli *c)
{
	static const struct sandbox_options options = SANDBOX_OPTIONS(task);
	request_auto struct request q = REQUEST_INIT(q), start = REQUEST_INIT(start);
	const struct opts *o = &c->opts;
	char id[ID_LOOKUP_MAX];
	int status;

	jw_kstr(&q.w, "objective", o->args[1]);
	if (o->nargs > 2) {
		jw_kstrv(&q.w, "command", o->args + 2, o->nargs - 2);
		if (sandbox_options_write(o, &options, &q.w, &q.e) < 0)
			return cli_fail(c, EXIT_FAILED, &q.e, "create");
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

/* The items of --item or, without any, the lines of stdin. Empty lines are skipped. */
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

static int wait_job(struct cli *c, const char *id)
{
	for (;;) {
		request_auto struct request q = REQUEST_INIT(q);

		jw_kstr(&q.w, "jobId", id);
		jw_kuint(&q.w, "limit", 1);
		if (request_read(c, &q, "get_job") < 0)
			return cli_fail(c, EXIT_FAILED, &q.e, "%s", id);
		if (jval_get(q.result, "endedAt").type != JT_NONE)
			return jval_is_str(jval_get(q.result, "status"), "completed") ? 0 : EXIT_FAILED;
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

	if (o->nargs > 1)
		jw_kstrv(&q.w, "command", o->args + 1, o->nargs - 1);
	status = noun_options(c,
			      "task=taskId:task session=sessionId:session parallel=maxParallel:uint "
			      "timeout=maxRuntimeMs:time attempts=retryPolicy.maxAttempts:uint "
			      "item-timeout=retryPolicy.timeoutMs:time",
			      &q.w);
	if (status)
		return status;
	if ((o->nargs > 1 && sandbox_options_write(o, &options, &q.w, &q.e) < 0) || write_items(o, &q.w, &q.e) < 0)
		return cli_fail(c, EXIT_USAGE, &q.e, "create");
	status = noun_change(c, &q, "create_job", "jobId");
	jval_str(jval_get(q.result, "jobId"), id, sizeof(id));
	return status == 0 && opts_has(o, OPT_job_WAIT) ? wait_job(c, id) : status;
}
