#include "pty/rawmode.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/cow_verbs.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/foreground.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/sandbox_options.h"
#include "supervisor/client/home_candidates.h"
#include "supervisor/client/remote.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_EVENTS 64 /* more than a start's commit has: with --json the process's own are shown too */

static const struct sandbox_options place = {
	OPT_run_PROFILE, OPT_run_CWD, OPT_run_RO,         OPT_run_RW,
	OPT_run_HIDE,    OPT_run_NET, OPT_run_ALLOW_HOST, OPT_run_TMP_SIZE,
};

/* Options with a number (milliseconds, bytes …) and the request's members for them. */
static const struct limit {
	int option;
	const char *member;
	int (*parse)(const char *text, uint64_t *ret, struct err *e);
} limits[] = {
	{ OPT_run_TIMEOUT, "wallMs", text_duration_ms },
	{ OPT_run_IDLE_TIMEOUT, "idleMs", text_duration_ms },
	{ OPT_run_CPU_TIME, "cpuMs", text_duration_ms },
	{ OPT_run_OUTPUT_LIMIT, "outputBytes", text_size_bytes },
	{ OPT_run_MEMORY, "memoryBytes", text_size_bytes },
	{ OPT_run_MEMORY_HIGH, "memoryHighBytes", text_size_bytes },
	{ OPT_run_PIDS, "pids", text_size_bytes },
	{ OPT_run_CPUS, "cpus", text_thousandths },
	{ OPT_run_IO_WEIGHT, "ioWeight", text_size_bytes },
	{ OPT_run_IO_READ, "ioReadBps", text_size_bytes },
	{ OPT_run_IO_WRITE, "ioWriteBps", text_size_bytes },
};

static void write_limit(const struct limit *l, uint64_t v, struct jw *w)
{
	char text[32];

	if (l->parse != text_thousandths) {
		jw_kuint(w, l->member, v);
		return;
	}
	text_format_thousandths(v, text);
	jw_kraw(w, l->member, text, strlen(text));
}

static int write_limits(const struct opts *o, struct jw *w, struct err *e)
{
	jw_kobj(w, "limits");
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const char *text = opts_get(o, limits[i].option);
		uint64_t v;

		if (!text)
			continue;
		if (limits[i].parse(text, &v, e) < 0)
			return err_wrap(e, "option '--%s'", option_rows[limits[i].option].name);
		write_limit(&limits[i], v, w);
	}
	jw_obj_end(w);
	return 0;
}

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

static int write_env(const struct opts *o, struct jw *w, struct err *e)
{
	jw_kobj(w, "env");
	if (opts_has(o, OPT_run_TTY))
		write_term(o, w);
	for (size_t i = 0; i < o->ngiven; i++) {
		const char *text = o->given[i].value, *equals, *value;

		if (o->given[i].option == OPT_run_ENV_PASS) {
			value = getenv(text);
			if (value && !text_utf8_valid(value, strlen(value)))
				return err_field(e, "--env-pass", "option '--env-pass': the value of %s is not UTF-8",
						 text);
			if (value)
				jw_kstr(w, text, value);
		}
		if (o->given[i].option != OPT_run_ENV)
			continue;
		equals = strchr(text, '=');
		if (!equals || equals == text)
			return err_field(e, "--env", "option '--env' wants K=V, not '%s'", text);
		buf_auto struct buf key = BUF_INIT;
		buf_append(&key, text, (size_t)(equals - text));
		jw_kstr(w, key.data, equals + 1);
	}
	jw_obj_end(w);
	return 0;
}

static void write_tty(struct jw *w)
{
	unsigned rows = 24, cols = 80;

	(void)rawmode_size(foreground_terminal(), &rows, &cols);
	jw_kobj(w, "tty");
	jw_kuint(w, "rows", rows);
	jw_kuint(w, "cols", cols);
	jw_obj_end(w);
}

/* A pipe, file or socket is meant for the command; a terminal only with -i. */
static bool stdin_is_given(void)
{
	struct stat st;

	return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* -it on a terminal: keys are passed to the command as they are pressed. */
static bool wants_keys(const struct opts *o)
{
	return opts_has(o, OPT_run_TTY) && opts_has(o, OPT_run_INTERACTIVE) && !opts_has(o, OPT_run_JSON) &&
	       !opts_has(o, OPT_run_DETACH) && isatty(STDIN_FILENO);
}

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
 * onDisconnect. Normally the process ends with us, however we exit, so the daemon terminates it. If we can detach, the
 * process must survive a disconnect; then the daemon keeps it, and we terminate it ourselves when we exit otherwise.
 */
static bool keeps_process(const struct opts *o, const struct keys_watch *watch)
{
	return opts_has(o, OPT_run_DETACH) || opts_has(o, OPT_run_KEEP_TREE) || (wants_keys(o) && watch->n);
}

/* Writes the parameters that need no daemon; the object stays open. */
static int write_request(const struct opts *o, bool stdin_pipe, bool keep, struct jw *w, struct err *e)
{
	jw_obj(w);
	jw_kstrv(w, "command", o->args, o->nargs);
	if (check_texts(o, e) < 0 || sandbox_options_write(o, &place, w, e) < 0 || write_env(o, w, e) < 0 ||
	    write_limits(o, w, e) < 0)
		return -1;
	jw_kopt(w, "taskId", opts_get(o, OPT_run_TASK));
	if (opts_has(o, OPT_run_TTY))
		write_tty(w);
	if (opts_has(o, OPT_run_COW))
		jw_kbool(w, "cow", true);
	if (opts_has(o, OPT_run_KEEP_TREE))
		jw_kbool(w, "keepTree", true);
	jw_kstr(w, "stdin", stdin_pipe ? "pipe" : "none");
	jw_kstr(w, "onDisconnect", keep ? "keep" : "terminate");
	return 0;
}

/* Root's commands may write in system directories and homes only if root lists them in a file. */
static void advise_root(struct cli *c, const struct err *e)
{
	struct home places[HOME_CANDIDATES_MAX];

	if (!strstr(e->message, "root-write-roots"))
		return;
	(void)home_candidates(getuid(), places);
	snprintf(c->advice, sizeof(c->advice),
		 "Run it as a plain user, with --profile readonly, or allow the folder: echo FOLDER "
		 ">>%.120s/root-write-roots",
		 places[0].dir[0] ? places[0].dir : "/etc/bailiff");
}

/*
 * The exit status distinguishes a command that was not found or not executable from a failure of bailiff
 * (exit_status.h).
 */
static int print_rejection(struct cli *c, const struct remote_answer *a, const struct err *e)
{
	struct exit_status outcome = { .status = EXIT_BAILIFF };

	advise_root(c, e);

	if (a->error.type != JT_NONE)
		exit_status_of_error(a->error, &outcome);
	return cli_fail(c, outcome.status, e, "run");
}

/* With --json the events of the start itself are shown too, which were recorded before its reply. */
static int follow_process(struct cli *c, const char *process_id, uint64_t sequence, bool stdin_pipe, bool cow,
			  const struct keys_watch *watch, bool *ret_seen)
{
	bool json = opts_has(&c->opts, OPT_run_JSON);
	struct foreground f = {
		.remote = c->remote,
		.process_id = process_id,
		.name = c->opts.args[0],
		.after_sequence = sequence,
		.json = json,
		.forward_stdin = stdin_pipe,
		.cow = cow,
		.keys = wants_keys(&c->opts),
		.size_policy = !opts_has(&c->opts, OPT_run_TTY) ? NULL
			       : wants_keys(&c->opts)           ? "newest"
								: "",
	};

	if (f.keys)
		f.watch = *watch;
	if (json)
		f.after_sequence = sequence > START_EVENTS ? sequence - START_EVENTS : 0;
	return foreground_follow(&f, ret_seen);
}

/* Policy asks for approval. --yes: the user who typed the command approves it. */
static int on_question(struct cli *c, struct jval started)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, why = BUF_INIT;
	char action[ID_LOOKUP_MAX];
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	if (!jval_is_str(jval_get(started, "status"), "waiting_permission"))
		return 0;
	jval_str(jval_get(started, "actionId"), action, sizeof(action));
	if (!opts_has(&c->opts, OPT_run_YES)) {
		jval_str_buf(jval_path(started, "permissionDecision.decisionReason"), &why);
		cli_hint("it waits for permission: %s", buf_cstr(&why));
		cli_hint("bailiff approve %s, or bailiff deny %s", action, action);
		return 0;
	}
	jw_obj(&w);
	jw_kstr(&w, "actionId", action);
	jw_kstr(&w, "decision", "allow");
	jw_kstr(&w, "note", "run --yes");
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return cli_call(c, "respond_action", &params, &a, &e) < 0 ? cli_fail(c, -1, &e, "approve") : 0;
}

static void warn_missing_layers(struct jval started)
{
	for (struct jiter it = jiter_on(jval_get(started, "missingLayers")); jiter_next(&it);)
		if (jval_is_str(it.value, "abstractSockets"))
			cli_hint("with --net host the command can reach the host's abstract sockets: this kernel's "
				 "Landlock cannot confine them (needs ABI 6, Linux 6.12)");
}

static int run_detached(struct cli *c, struct jval started)
{
	buf_auto struct buf out = BUF_INIT;

	if (opts_has(&c->opts, OPT_run_JSON))
		buf_append(&out, started.text, started.len);
	else
		jval_str_buf(jval_get(started, "processId"), &out);
	buf_byte(&out, '\n');
	return format_out(&out);
}

/* The command's directory was private and is gone. No error reports that, so warn a user who looks for its files. */
static void warn_private_cwd(const char *given)
{
	char here[PATH_MAX];
	const char *cwd = given ? given : getcwd(here, sizeof(here)) ? here : ".";

	cli_error("%s was private to the command; files it wrote there are gone", cwd);
	cli_hint("use --rw %s to keep them, if the policy permits it", cwd);
}

int cmd_run(struct cli *c)
{
	const struct opts *o = &c->opts;
	bool detach = opts_has(o, OPT_run_DETACH), interactive = opts_has(o, OPT_run_INTERACTIVE);
	bool stdin_pipe = interactive || (!detach && stdin_is_given());
	const char *detach_keys = opts_get(o, OPT_run_DETACH_KEYS);
	struct keys_watch watch;
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	char id[ID_LOOKUP_MAX];
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	if (o->nargs == 0)
		return cli_usage(c, "missing command");
	if (keys_watch_init(&watch, detach_keys ? detach_keys : KEYS_DETACH, &e) < 0)
		return cli_usage(c, "option '--detach-keys': %s", e.message);
	if (write_request(o, stdin_pipe, keeps_process(o, &watch), &w, &e) < 0)
		return cli_usage(c, "%s", e.message);
	if (cli_connect(c, CLI_START_ALWAYS) < 0)
		return EXIT_BAILIFF;
	if (opts_has(o, OPT_run_SESSION)) {
		if (id_lookup_session(c, opts_get(o, OPT_run_SESSION), id) < 0)
			return EXIT_BAILIFF;
		jw_kstr(&w, "sessionId", id);
	}
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, "start_process", &params, &a, &e) < 0)
		return print_rejection(c, &a, &e);
	if (on_question(c, a.result) < 0)
		return EXIT_BAILIFF;
	warn_missing_layers(a.result);
	if (detach)
		return run_detached(c, a.result) ? EXIT_BAILIFF : 0;
	jval_str(jval_get(a.result, "processId"), id, sizeof(id));
	bool cow = opts_has(o, OPT_run_COW) ||
		   jval_bool(jval_get(a.result, "cow"), false); /* a profile may request it, too */
	bool seen;
	int status = follow_process(c, id, jval_uint(jval_get(a.result, "sequence"), 0), stdin_pipe, cow, &watch,
				    &seen);
	if (seen && cow && !opts_has(o, OPT_run_JSON))
		cow_hint(c, id);
	if (seen && jval_bool(jval_get(a.result, "cwdIsPrivate"), false) && !opts_has(o, OPT_run_JSON))
		warn_private_cwd(opts_get(o, OPT_run_CWD));
	return status;
}
