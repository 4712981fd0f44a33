/* `run`: starts a command, and follows it in the foreground or prints its id. */

#include "pty/rawmode.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/approval.h"
#include "supervisor/cli/cow_verbs.h"
#include "supervisor/cli/event_stream.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/foreground.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun.h"
#include "supervisor/cli/published_ports.h"
#include "supervisor/cli/sandbox_options.h"
#include "supervisor/client/home_candidates.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define START_EVENTS 64 /* more than a start's commit has: with --json the process's own are shown too */

static const struct limit_option limits[] = {
	{ OPT_run_TIMEOUT, "wallMs", text_duration_ms },
	{ OPT_run_IDLE_TIMEOUT, "idleMs", text_duration_ms },
	{ OPT_run_CPU_TIME, "cpuMs", text_duration_ms },
	{ OPT_run_OUTPUT_LIMIT, "outputBytes", text_size_bytes },
	TREE_LIMIT_OPTIONS(run),
};

/* A program on a terminal needs TERM: ours, or the one that bailiff's own screen emulates. */
static void write_term(const struct opts *o, struct jw *w)
{
	const char *term = getenv("TERM"), *color = getenv("COLORTERM");
	bool ours = foreground_terminal() >= 0 && term && term[0] && strcmp(term, "dumb") != 0 &&
		    text_utf8_valid(term, strlen(term));

	for (size_t i = 0; i < o->ngiven; i++)
		if ((o->given[i].option == OPT_run_ENV && strncmp(o->given[i].value, "TERM=", 5) == 0) ||
		    (o->given[i].option == OPT_run_ENV_PASS && strcmp(o->given[i].value, "TERM") == 0 && term))
			return;
	jw_kstr(w, "TERM", ours ? term : "xterm-256color");
	if (ours && color && text_utf8_valid(color, strlen(color)))
		jw_kstr(w, "COLORTERM", color);
}

/* TERM for a terminal first, then the variables in the order of the command line. */
static int write_env(const struct opts *o, struct jw *w, struct err *e)
{
	jw_kobj(w, "env");
	if (opts_has(o, OPT_run_TTY))
		write_term(o, w);
	if (env_options_write(o, OPT_run_ENV, OPT_run_ENV_PASS, w, e) < 0)
		return -1;
	jw_obj_end(w);
	return 0;
}

/* -it on a terminal: keys are passed to the command as they are pressed. */
static bool wants_keys(const struct opts *o)
{
	return opts_has(o, OPT_run_TTY) && opts_has(o, OPT_run_INTERACTIVE) && !opts_has(o, OPT_run_JSON) &&
	       !opts_has(o, OPT_run_DETACH) && isatty(STDIN_FILENO);
}

/* JSON has no bytes that are not UTF-8; replacing them would run another command than the one typed. */
static int check_texts(const struct opts *o, struct err *e)
{
	for (size_t i = 0; i < o->nargs; i++)
		if (!text_utf8_valid(o->args[i], strlen(o->args[i])))
			return err_set(e, ERR_INVALID, "argument %zu of the command is not UTF-8", i);
	for (size_t i = 0; i < o->ngiven; i++)
		if (o->given[i].value && !text_utf8_valid(o->given[i].value, strlen(o->given[i].value)))
			return err_set(e, ERR_INVALID, "option '--%s': the value is not UTF-8",
				       option_rows[o->given[i].option].name);
	return 0;
}

/*
 * Writes the parameters that need no daemon.
 *
 * onDisconnect: normally the process ends with us, however we exit, so the daemon terminates it. If we can detach, the
 * process must survive a disconnect; then the daemon keeps it, and we terminate it ourselves when we exit otherwise.
 */
static int write_request(const struct opts *o, bool within, bool stdin_pipe, const struct keys_watch *watch,
			 struct jw *w, struct err *e)
{
	struct sandbox_options options = SANDBOX_OPTIONS(run);
	bool keep = opts_has(o, OPT_run_DETACH) || opts_has(o, OPT_run_KEEP_TREE) || (wants_keys(o) && watch->n);
	unsigned rows = 24, cols = 80;

	options.within = within;
	jw_kstrv(w, "command", o->args, o->nargs);
	if (check_texts(o, e) < 0 || sandbox_options_write(o, &options, w, e) < 0 || write_env(o, w, e) < 0 ||
	    limit_options_write(o, limits, countof(limits), w, e) < 0)
		return -1;
	if (opts_has(o, OPT_run_TTY)) {
		(void)rawmode_size(foreground_terminal(), &rows, &cols);
		jw_kobj(w, "tty");
		jw_kuint(w, "rows", rows);
		jw_kuint(w, "cols", cols);
		jw_obj_end(w);
	}
	if (opts_has(o, OPT_run_COW))
		jw_kbool(w, "cow", true);
	if (!within && opts_has(o, OPT_run_PUBLISH) && published_ports_write(o, OPT_run_PUBLISH, w, e) < 0)
		return -1;
	if (opts_has(o, OPT_run_KEEP_TREE))
		jw_kbool(w, "keepTree", true);
	jw_kstr(w, "stdin", stdin_pipe ? "pipe" : "none");
	jw_kstr(w, "onDisconnect", keep ? "keep" : "terminate");
	return 0;
}

/* The caller's PATH has the program in this folder, which the sandbox does not use. */
static bool find_in_path(const char *name, char ret[PATH_MAX])
{
	const char *at = getenv("PATH");

	for (size_t n; at && *at; at += n + (at[n] == ':')) {
		n = strcspn(at, ":");
		if (n && n + strlen(name) + 2 < PATH_MAX) {
			snprintf(ret, PATH_MAX, "%.*s/%s", (int)n, at, name);
			if (access(ret, X_OK) == 0)
				return true;
		}
	}
	return false;
}

/* Compares with what this user sees: a program may be missing only in the sandbox. */
static void advise_exec(struct cli *c, int status)
{
	const char *name = c->opts.args[0];
	bool path = strchr(name, '/') != NULL;
	char found[PATH_MAX];

	if (path && name[0] != '/' && (noun_first_given(c, "cwd") || strcmp(c->verb->key, "exec") == 0))
		return; /* it is relative to another folder, with exec by default to the sandbox's */
	if (status == EXIT_NOT_FOUND && !path && find_in_path(name, found))
		snprintf(c->advice, sizeof(c->advice),
			 "here it is %.100s, which is not in the sandbox's PATH: use that path, with --ro if it "
			 "is hidden, or --env-pass PATH",
			 found);
	else if (status == EXIT_NOT_FOUND && !path)
		snprintf(c->advice, sizeof(c->advice), "no folder of the sandbox's PATH has it; install it first");
	else if (status == EXIT_NOT_FOUND && access(name, X_OK) == 0)
		snprintf(c->advice, sizeof(c->advice),
			 "it exists here: the sandbox hides it (--ro PATH shows it), or lacks the interpreter that its "
			 "first line names");
	else if (status == EXIT_NOT_FOUND)
		snprintf(c->advice, sizeof(c->advice), "there is no such file here either");
	else if (path && access(name, F_OK) == 0 && access(name, X_OK) != 0)
		snprintf(c->advice, sizeof(c->advice),
			 "it is not executable: chmod +x it, or name its interpreter, as in sh %.100s", name);
}

/*
 * The exit status distinguishes a command that was not found or not executable from a failure of bailiff
 * (exit_status.h).
 */
static int print_rejection(struct cli *c, const struct request *q)
{
	struct exit_status outcome = { .status = EXIT_BAILIFF };
	struct home places[HOME_CANDIDATES_MAX];

	/* Root's commands may write in system directories and homes only if root lists them in a file. */
	if (q->e.reason == REASON_ROOT_WRITE_ROOTS) {
		(void)home_candidates(getuid(), places);
		snprintf(c->advice, sizeof(c->advice),
			 "Run it as a plain user, with --profile readonly, or allow the folder: echo FOLDER "
			 ">>%.120s/root-write-roots",
			 places[0].dir[0] ? places[0].dir : "/etc/bailiff");
	}
	if (q->answer.error.type != JT_NONE)
		exit_status_of_error(q->answer.error, &outcome);
	if (jval_is_str(jval_path(q->answer.error, "data.stage"), "exec"))
		advise_exec(c, outcome.status);
	return cli_fail(c, outcome.status, &q->e, "%s", c->verb->name);
}

/* With --json the events of the start itself are shown too, which were recorded before its reply. */
static int follow_process(struct cli *c, struct foreground *f, const struct keys_watch *watch, bool *ret_seen)
{
	f->cli = c;
	f->remote = c->remote;
	f->name = c->opts.args[0];
	f->json = opts_has(&c->opts, OPT_run_JSON);
	f->keys = wants_keys(&c->opts);
	f->size_policy = !opts_has(&c->opts, OPT_run_TTY) ? NULL : f->keys ? "newest" : "";
	if (f->keys)
		f->watch = *watch;
	if (f->json)
		f->after_sequence -= f->after_sequence > START_EVENTS ? START_EVENTS : f->after_sequence;
	return foreground_follow(f, ret_seen);
}

/*
 * Policy asks for approval. --yes: the user who typed the command approves it. Otherwise the person at the terminal is
 * asked while the command is followed: *ret_ask.
 */
static int on_question(struct cli *c, struct jval started, bool *ret_ask)
{
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf why = BUF_INIT;
	char action[ID_LOOKUP_MAX];

	if (!jval_is_str(jval_get(started, "status"), "waiting_permission"))
		return 0;
	jval_str(jval_get(started, "actionId"), action, sizeof(action));
	fd_auto int terminal = opts_has(&c->opts, OPT_run_DETACH) || opts_has(&c->opts, OPT_run_JSON)
				       ? -1
				       : approval_terminal();
	*ret_ask = terminal >= 0 && !opts_has(&c->opts, OPT_run_YES);
	if (*ret_ask)
		return 0;
	if (!opts_has(&c->opts, OPT_run_YES)) {
		jval_str_buf(jval_path(started, "permissionDecision.decisionReason"), &why);
		cli_hint("it waits for permission: %s", buf_cstr(&why));
		cli_hint("bailiff approve %s, or bailiff deny %s", action, action);
		cli_print_notice();
		return 0;
	}
	jw_kstr(&q.w, "actionId", action);
	jw_kstr(&q.w, "decision", "allow");
	jw_kstr(&q.w, "note", "run --yes");
	return request_change(c, &q, "respond_action") < 0 ? cli_fail(c, -1, &q.e, "approve") : 0;
}

/* Before the command prints anything; for a terminal only, since output of scripts must not change with the folder. */
static void print_warnings(struct jval started, bool session)
{
	bool about_cwd = jval_bool(jval_get(started, "cwdIsPrivate"), false); /* that warning is the first */
	buf_auto struct buf text = BUF_INIT;

	for (struct jiter it = jiter_on(jval_get(started, "warnings")); isatty(STDERR_FILENO) && jiter_next(&it);) {
		buf_reset(&text);
		jval_str_buf(it.value, &text);
		cli_error("warning: %s%s", buf_cstr(&text),
			  about_cwd && !session ? "; --rw DIR keeps those in DIR" : "");
		about_cwd = false;
	}
}

/*
 * After the end, for what no error reports: a private directory is gone, with the files that a user may look for. On a
 * terminal a warning has said so before.
 */
static void print_aftermath(struct cli *c, struct jval started, const char *id, bool cow)
{
	const char *cwd = opts_get(&c->opts, OPT_run_CWD);
	char here[PATH_MAX];

	if (cow)
		cow_hint(c, id);
	if (!jval_bool(jval_get(started, "cwdIsPrivate"), false) || isatty(STDERR_FILENO))
		return;
	if (!cwd)
		cwd = getcwd(here, sizeof(here)) ? here : ".";
	cli_error("%s was private to the command; files it wrote there are gone", cwd);
	cli_hint("use --rw %s to keep them, if the policy permits it", cwd);
}

/*
 * The session sandbox that a user names: its id, its name, or a process that runs in it. A complete id and a name need
 * no lookup where the daemon accepts both; a shortened id does.
 */
static int find_sandbox(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX])
{
	request_auto struct request q = REQUEST_INIT(q);

	if (strncmp(given, "proc_", 5) != 0)
		return id_lookup(c, ID_SANDBOX, given, ret);
	if (id_lookup(c, ID_PROCESS, given, ret) < 0)
		return -1;
	jw_kstr(&q.w, "processId", ret);
	if (request_read(c, &q, "get_process") < 0)
		return cli_fail(c, -1, &q.e, "%s", given);
	jval_str(jval_get(q.result, "sandboxId"), ret, ID_LOOKUP_MAX);
	if (ret[0])
		return 0;
	cli_error("%s does not run in a session sandbox", given);
	cli_hint("bailiff sandbox create creates one");
	return -1;
}

/* `sandbox` is the session sandbox as the user named it, or NULL. */
static int run_command(struct cli *c, const char *sandbox, bool subscribe)
{
	const struct opts *o = &c->opts;
	bool detach = opts_has(o, OPT_run_DETACH), interactive = opts_has(o, OPT_run_INTERACTIVE), seen;
	bool stdin_pipe = interactive || (!detach && foreground_stdin_given());
	const char *detach_keys = opts_get(o, OPT_run_DETACH_KEYS);
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf out = BUF_INIT, lines = BUF_INIT;
	struct early_events early = { .lines = &lines };
	struct keys_watch watch;
	char id[ID_LOOKUP_MAX], action[ID_LOOKUP_MAX];
	bool ask = false;

	if (o->nargs == 0)
		return cli_usage(c, "missing command");
	if (keys_watch_init(&watch, detach_keys ? detach_keys : KEYS_DETACH, &q.e) < 0)
		return cli_usage(c, "option '--detach-keys': %s", q.e.message);
	if (published_ports_check(o, OPT_run_PUBLISH, &q.e) < 0 ||
	    write_request(o, sandbox != NULL, stdin_pipe, &watch, &q.w, &q.e) < 0)
		return cli_usage(c, "%s", q.e.message);
	if (cli_connect(c, CLI_START_ALWAYS) < 0 ||
	    id_lookup_option(c, OPT_run_SESSION, ID_SESSION, "sessionId", &q.w) < 0 ||
	    id_lookup_option(c, OPT_run_TASK, ID_TASK, "taskId", &q.w) < 0 ||
	    (sandbox && find_sandbox(c, sandbox, id) < 0))
		return EXIT_BAILIFF;
	if (sandbox) {
		jw_kstr(&q.w, "sandboxId", id);
		/* They are the sandbox's: open before the command looks for them, and after its end. */
		if (published_ports_open(c, OPT_run_PUBLISH, id) < 0)
			return EXIT_BAILIFF;
	}
	/* One request starts and follows it. --json shows earlier events, too, and has its own subscription. */
	if (subscribe && !detach && !opts_has(o, OPT_run_JSON)) {
		jw_kbool(&q.w, "subscribe", true);
		early_events_listen(&early, c->remote);
	}
	if (request_change(c, &q, "start_process") < 0) {
		if (!subscribe || strcmp(q.e.field, "subscribe") != 0)
			return print_rejection(c, &q);
		remote_free(c->remote); /* a daemon of an earlier version, which an upgrade has left running */
		return run_command(c, sandbox, false);
	}
	if (on_question(c, q.result, &ask) < 0)
		return EXIT_BAILIFF;
	jval_str(jval_get(q.result, "actionId"), action, sizeof(action));
	for (struct jiter it = jiter_on(jval_get(q.result, "missingLayers")); jiter_next(&it);)
		if (jval_is_str(it.value, "abstractSockets"))
			cli_hint("with --net host the command can reach the host's abstract sockets: this kernel's "
				 "Landlock cannot confine them (needs ABI 6, Linux 6.12)");
	if (!cli_as_json(c))
		print_warnings(q.result, sandbox != NULL);
	jval_str(jval_get(q.result, "processId"), id, sizeof(id));
	if (detach) {
		buf_printf(&out, "%s\n", id);
		return (cli_as_json(c) ? format_record(q.result, true) : format_out(&out)) ? EXIT_BAILIFF : 0;
	}
	/* A profile may request copy-on-write, too. */
	bool cow = !sandbox && (opts_has(o, OPT_run_COW) || jval_bool(jval_get(q.result, "cow"), false));
	struct foreground f = {
		.process_id = id,
		.after_sequence = jval_uint(jval_get(q.result, "sequence"), 0),
		.early = jval_get(q.result, "subscriptionId").type == JT_NONE ? NULL : &early,
		.action_id = ask ? action : NULL,
		.forward_stdin = stdin_pipe,
		.cow = cow,
		.in_sandbox = sandbox != NULL,
	};
	int status = follow_process(c, &f, &watch, &seen);
	if (seen && !cli_as_json(c) && !sandbox) /* a session sandbox stays, with what was written in it */
		print_aftermath(c, q.result, id, cow);
	return status;
}

int cmd_run(struct cli *c) { return run_command(c, opts_get(&c->opts, OPT_run_IN), true); }

/* The option of `run` with the same name. */
static int option_of_run(int option)
{
	for (int i = 0; i < OPT_COUNT; i++)
		if (strcmp(option_rows[i].group, "run") == 0 &&
		    strcmp(option_rows[i].name, option_rows[option].name) == 0)
			return i;
	abort(); /* options.def gives exec an option that run does not have */
}

/* Options may also follow SANDBOX; those of exec are a part of run's. */
int cmd_exec(struct cli *c)
{
	struct opts *o = &c->opts, more = { 0 };
	struct opt_table table = verb_options(c->verb);
	struct err e = ERR_INIT;
	const char *sandbox;

	if (o->nargs == 0)
		return cli_usage(c, "which sandbox?");
	sandbox = o->args[0];
	if (opts_parse(&table, (int)o->nargs - 1, (char *const *)(uintptr_t)(o->args + 1), &more, &e) < 0)
		return cli_usage(c, "%s", e.message);
	o->given = mem_realloc(o->given, (o->ngiven + more.ngiven + 1) * sizeof(*o->given));
	for (size_t i = 0; i < more.ngiven; i++)
		o->given[o->ngiven++] = more.given[i];
	for (size_t i = 0; i < o->ngiven; i++)
		o->given[i].option = option_of_run(o->given[i].option);
	free(o->args);
	o->args = more.args;
	o->nargs = more.nargs;
	free(more.given);
	return run_command(c, sandbox, true);
}
