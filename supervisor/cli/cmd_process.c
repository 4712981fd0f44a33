/* Verbs that act on processes or on what waits for an approval, one request for each. */

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun.h"

#include <stdio.h>

/* One process to end. Its address is the context of the reply, so the array must not move while replies are pending. */
struct kill_target {
	char id[ID_LOOKUP_MAX]; /* "": not found */
	char *command;          /* of one that was selected by a condition; NULL: it was named */
	struct remote_answer answer;
};

struct kill_targets {
	struct kill_target *rows;
	size_t n;
};

static struct kill_target *add_target(struct kill_targets *t)
{
	t->rows = mem_realloc(t->rows, (t->n + 1) * sizeof(*t->rows));
	t->rows[t->n] = (struct kill_target){ 0 };
	return &t->rows[t->n++];
}

static bool add_listed(void *ctx, struct jval process)
{
	struct kill_target *t = add_target(ctx);
	buf_auto struct buf command = BUF_INIT;

	jval_str(jval_get(process, "processId"), t->id, sizeof(t->id));
	format_command(process, &command);
	t->command = buf_take(&command);
	return true;
}

/* The processes that are named, or that the conditions select in the daemon's list. 0, or the exit status. */
static int collect_targets(struct cli *c, struct kill_targets *ret)
{
	request_auto struct request q = REQUEST_INIT(q);
	int status = 0;

	for (size_t i = 0; i < c->opts.nargs; i++) {
		struct kill_target *t = add_target(ret);

		if (id_lookup(c, ID_PROCESS, c->opts.args[i], t->id) < 0) {
			t->id[0] = '\0';
			status = EXIT_FAILED;
		}
	}
	if (c->opts.nargs)
		return status;
	jw_kbool(&q.w, "liveOnly", true);
	jw_kbool(&q.w, "helpers", false);
	if (noun_options(c, "session=sessionId:session task=taskId:task sandbox=sandboxId:sandbox", &q.w))
		return EXIT_FAILED;
	if (list_pages(c, "list_processes", "processes", &q.params, add_listed, ret, &q.e) < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "kill");
	if (!ret->n) {
		cli_error("kill: no such process runs");
		cli_hint("bailiff ps lists those that do");
		status = EXIT_FAILED;
	}
	return status;
}

static void send_kill(struct cli *c, struct kill_target *t, const char *sig)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "processId", t->id);
	jw_kstr(&w, sig ? "signal" : "reason", sig ? sig : "user");
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	remote_send(c->remote, sig ? "signal_process" : "terminate_process", &params, remote_answer_fill, &t->answer);
}

/* The reply to one of them. 0, or the exit status. */
static int finish_kill(struct cli *c, struct kill_target *t, const char *sig)
{
	struct err e = ERR_INIT;
	buf_auto struct buf out = BUF_INIT;

	if (remote_await(c->remote, &t->answer, &e) < 0) {
		/* One that was listed may have ended since. */
		return t->command && e.code == ERR_STATE ? 0 : cli_fail(c, EXIT_FAILED, &e, "%s", t->id);
	}
	if (cli_as_json(c))
		return format_record(t->answer.result, true);
	if (!t->command)
		return 0;
	buf_printf(&out, "%s %s  ", sig ? "signalled" : "terminated", t->id);
	text_sanitize_line(t->command, strlen(t->command), &out);
	buf_byte(&out, '\n');
	return format_out(&out);
}

int cmd_kill(struct cli *c)
{
	const char *sig = opts_get(&c->opts, OPT_kill_SIGNAL), *selects = noun_first_given(c, "session task sandbox");
	bool all = opts_has(&c->opts, OPT_kill_ALL);
	struct kill_targets targets = { 0 };

	if (c->opts.nargs == 0 && !selects && !all)
		return cli_usage(c, "which process?");
	if (c->opts.nargs && (selects || all))
		return cli_usage(c, "name processes or give --%s, not both", selects ? selects : "all");
	if (selects && all)
		return cli_usage(c, "--all and --%s exclude each other", selects);
	if (sig && text_signal_number(sig) <= 0)
		return cli_usage(c, "option '--signal': '%s' is not a signal", sig);
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	int status = collect_targets(c, &targets);
	/* An incomplete list is not acted on; of named processes, one that is not found does not protect the others. */
	bool sent = !status || c->opts.nargs;
	/* Request all terminations before waiting for any: each may take its grace time. */
	for (size_t i = 0; i < targets.n && sent; i++)
		if (targets.rows[i].id[0])
			send_kill(c, &targets.rows[i], sig);
	/* Every reply is awaited, even after an error: the buffers of the others are still in use. */
	for (size_t i = 0; i < targets.n && sent; i++)
		if (targets.rows[i].id[0] && finish_kill(c, &targets.rows[i], sig) != 0)
			status = EXIT_FAILED;
	for (size_t i = 0; i < targets.n; i++) {
		remote_answer_done(&targets.rows[i].answer);
		free(targets.rows[i].command);
	}
	free(targets.rows);
	return status;
}

/* Exits like `run`, so that a script can start a command with -d and wait for it later. */
int cmd_wait(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	struct exit_status outcome;
	char id[ID_LOOKUP_MAX];
	int status = cli_one_process(c);

	if (status)
		return status;
	if (id_lookup_connect(c, id) < 0)
		return EXIT_BAILIFF;
	jw_kstr(&q.w, "processId", id);
	if (request_read(c, &q, "wait_process") < 0)
		return cli_fail(c, EXIT_BAILIFF, &q.e, "%s", id);
	if (!exit_status_of_process(q.result, &outcome)) {
		cli_error("%s: the daemon's reply has no exit status", id);
		return EXIT_BAILIFF;
	}
	if (cli_as_json(c))
		return format_record(q.result, true) ? EXIT_BAILIFF : outcome.status;
	exit_status_print(&outcome, id);
	print_autorun(c, jval_get(q.result, "autorun"), id, jval_bool(jval_get(q.result, "cow"), false));
	return outcome.status;
}

int cmd_resize(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	char id[ID_LOOKUP_MAX];
	unsigned rows, cols;
	int end = 0;

	if (c->opts.nargs != 2)
		return cli_usage(c, "missing process or size");
	const char *size = c->opts.args[1];
	if (sscanf(size, "%5u%*[xX]%5u%n", &rows, &cols, &end) != 2 || size[end] || !rows || !cols)
		return cli_usage(c, "'%s' is not a size; expected ROWSxCOLS, for example 24x80", size);
	if (id_lookup_connect(c, id) < 0)
		return EXIT_FAILED;
	jw_kstr(&q.w, "processId", id);
	jw_kuint(&q.w, "rows", rows);
	jw_kuint(&q.w, "cols", cols);
	if (request_change(c, &q, "resize_process") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "%s", id);
	return cli_as_json(c) ? format_record(q.result, true) : 0;
}

/* Answers each action of the command line. One that fails does not keep the others from being answered. */
static int answer_actions(struct cli *c, const char *usual, int always, int session, int decision)
{
	const char *other = opts_get(&c->opts, decision);
	int status = 0;

	if (c->opts.nargs == 0)
		return cli_usage(c, "which action?");
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	for (size_t i = 0; i < c->opts.nargs; i++) {
		request_auto struct request q = REQUEST_INIT(q);
		char id[ID_LOOKUP_MAX];

		if (id_lookup(c, ID_PENDING, c->opts.args[i], id) < 0) {
			status = EXIT_FAILED;
			continue;
		}
		jw_kstr(&q.w, "actionId", id);
		jw_kstr(&q.w, "decision", other ? other : usual);
		/* Cannot fail: the value of a text option is not checked. */
		(void)noun_options(c, "note", &q.w);
		if (opts_has(&c->opts, always) || opts_has(&c->opts, session))
			jw_kstr(&q.w, "scope", opts_has(&c->opts, always) ? "always" : "session");
		if (noun_change(c, &q, "respond_action", "decision") != 0)
			status = EXIT_FAILED;
	}
	return status;
}

int cmd_approve(struct cli *c)
{
	return answer_actions(c, "allow", OPT_approve_ALWAYS, OPT_approve_SESSION, OPT_approve_DECISION);
}

int cmd_deny(struct cli *c) { return answer_actions(c, "deny", OPT_deny_ALWAYS, OPT_deny_SESSION, OPT_deny_DECISION); }
