/*
 * `agent`: submits a prompt as a turn that the daemon drives with a model, and shows the turn while it runs. The turn
 * belongs to the daemon: if this program dies, the turn continues, and --resume shows the session again.
 *
 * On a terminal, approvals are asked in place. Ctrl-C interrupts the turn; a second one leaves at once.
 */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/agent_input.h"
#include "supervisor/cli/approval.h"
#include "supervisor/cli/event_stream.h"
#include "supervisor/cli/file_option.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun.h"
#include "supervisor/cli/sandbox_options.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXIT_BLOCKED 3 /* the turn needs a person, or was denied */
#define PROMPT_MAX (1u << 20)
#define SYSTEM_PROMPT_MAX (64u << 10)
#define LINE_SHOWN 160
#define QUESTIONS_MAX 16
#define LEVELS_MAX 9 /* of subagents, and the turn itself */

/* What is shown of one turn. */
struct agent {
	struct cli *cli;
	char session_id[ID_LOOKUP_MAX], turn_id[ID_LOOKUP_MAX];
	bool json, print; /* --json, -p */
	bool converses;   /* reads prompts from the terminal */
	bool coloured;
	int terminal;     /* for questions; −1 = none */
	struct buf text;  /* of the last answer */
	bool in_line;     /* text without a final newline was printed */
	struct buf usage; /* of the turn, JSON */
	char status[32], category[32], message[512];
	char *model;                    /* chosen with /model; NULL = that of --model */
	struct buf system_prompt;       /* --system-prompt; empty = none */
	struct buf images;              /* --image: parts, JSON; empty once they are submitted */
	char sandbox_id[ID_LOOKUP_MAX]; /* --cow: the sandbox with the changes */
	struct question {
		char action_id[ID_LOOKUP_MAX];
		char *prompt;
		bool input;        /* asks for a text */
	} question[QUESTIONS_MAX]; /* that are not answered; several calls may ask at once */
	size_t nquestions;
	/* The turn and below it the subagents that run; each level has at most one. */
	struct level {
		char turn_id[ID_LOOKUP_MAX], call_id[ID_LOOKUP_MAX]; /* the turn, and the call that it answers */
	} level[LEVELS_MAX];
	bool ended, interrupted;
};

static volatile sig_atomic_t interrupts;
static void on_interrupt(int sig) { interrupts++; }

/* ---- showing events ---- */

static void end_line(struct agent *a)
{
	if (a->in_line)
		format_print("\n", 1);
	a->in_line = false;
}

/* A line about what happens, on stderr: stdout has only the answer. */
__attribute__((format(printf, 3, 4))) static void note(struct agent *a, enum format_colour colour, const char *fmt, ...)
{
	buf_auto struct buf safe = BUF_INIT, out = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	mem_auto char *text = NULL;
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (!text || a->json)
		return;
	for (char *s = text; *s; s++)
		if (*s == '\n' || *s == '\t')
			*s = ' ';
	size_t n = strlen(text);
	text_sanitize(text, text_utf8_cut(text, n < LINE_SHOWN ? n : LINE_SHOWN), &safe);
	end_line(a);
	format_paint(&out, a->coloured, colour, buf_cstr(&safe));
	buf_byte(&out, '\n');
	(void)fd_write_all(STDERR_FILENO, out.data, out.len);
}

static void show_text(struct agent *a, struct jval text)
{
	buf_auto struct buf raw = BUF_INIT, safe = BUF_INIT;

	jval_str_buf(text, &raw);
	buf_append(&a->text, buf_cstr(&raw), raw.len);
	if (a->json || !raw.len)
		return;
	text_sanitize(raw.data, raw.len, &safe);
	format_print(safe.data, safe.len);
	a->in_line = safe.data[safe.len - 1] != '\n';
}

static void show_call(struct agent *a, struct jval payload)
{
	struct jval args = jval_get(payload, "safeArgs");
	static const char *const members[] = { "command", "commandLine", "path",   "pattern", "patch",
					       "query",   "description", "prompt", "text",    "processId" };
	buf_auto struct buf what = BUF_INIT;

	for (size_t i = 0; i < countof(members) && !what.len; i++)
		jval_str_buf(jval_get(args, members[i]), &what);
	if (jval_bool(jval_get(args, "background"), false))
		buf_str(&what, " &");
	if (what.len)
		note(a, FORMAT_DIM, "  %s", buf_cstr(&what));
}

/* What does not fit is asked when it is asked again: the daemon keeps the turn waiting. */
static void ask(struct agent *a, struct jval event, struct jval payload)
{
	if (a->nquestions == QUESTIONS_MAX)
		return;
	struct question *q = &a->question[a->nquestions++];
	jval_str(jval_get(event, "actionId"), q->action_id, sizeof q->action_id);
	q->input = jval_is_str(jval_get(payload, "actionType"), "input");
	q->prompt = jval_strdup(jval_get(payload, "prompt"));
}

/* The question was answered, here or by another client. */
static void drop_question(struct agent *a, const char *id)
{
	for (size_t i = 0; i < a->nquestions; i++)
		if (strcmp(a->question[i].action_id, id) == 0) {
			free(a->question[i].prompt);
			a->question[i] = a->question[--a->nquestions];
			return;
		}
}

static void turn_ended(struct agent *a, bool completed, struct jval event, struct jval payload)
{
	struct jval usage = jval_get(payload, "usage");

	a->ended = true;
	snprintf(a->status, sizeof a->status, "%s", completed ? "completed" : "failed");
	if (!completed)
		jval_str(jval_get(event, "status"), a->status, sizeof a->status);
	/* This program has ended a turn that needs a person: that is the reason, not "cancelled". */
	if (strcmp(a->category, "needs_input") != 0)
		jval_str(jval_get(payload, "category"), a->category, sizeof a->category);
	jval_str(jval_get(payload, "message"), a->message, sizeof a->message);
	if (usage.type == JT_OBJECT)
		buf_append(&a->usage, usage.text, usage.len);
}

/* The level of the event's turn: 0 = the turn itself, −1 = another turn of the session. */
static int level_of(struct agent *a, struct jval event, const char *name)
{
	struct jval turn = jval_get(event, "turnId"), call = jval_get(event, "toolCallId");
	int at = -1;

	for (int i = 0; i < LEVELS_MAX && at < 0; i++) {
		if (i && strcmp(name, "turn.submitted") == 0 && a->level[i].call_id[0] &&
		    jval_is_str(call, a->level[i].call_id))
			jval_str(turn, a->level[i].turn_id, sizeof a->level[i].turn_id);
		if (a->level[i].turn_id[0] && jval_is_str(turn, a->level[i].turn_id))
			at = i;
	}
	if (at >= 0 && at + 1 < LEVELS_MAX && strcmp(name, "tool.started") == 0 &&
	    jval_is_str(jval_get(jval_get(event, "payload"), "toolName"), "subagent"))
		jval_str(call, a->level[at + 1].call_id, sizeof a->level[at + 1].call_id);
	return at;
}

static void on_event(void *ctx, struct jval event)
{
	struct jval payload = jval_get(event, "payload"), type = jval_get(event, "type");
	struct agent *a = ctx;
	char name[64];

	jval_str(type, name, sizeof name);
	const int level = level_of(a, event, name);
	if (level < 0)
		return;
	if (a->json) {
		buf_auto struct buf line = BUF_INIT;

		buf_append(&line, event.text, event.len);
		buf_byte(&line, '\n');
		format_print(line.data, line.len);
	}
	/* The answers of subagents are results of calls, and their ends are not the turn's. */
	if (level > 0 && (strcmp(name, "model.requested") == 0 || strcmp(name, "model.delta") == 0 ||
			  strcmp(name, "turn.completed") == 0 || strcmp(name, "turn.failed") == 0))
		return;
	if (strcmp(name, "model.requested") == 0) {
		a->text.len = 0;
	} else if (strcmp(name, "model.delta") == 0) {
		show_text(a, jval_get(payload, "text"));
	} else if (strcmp(name, "model.failed") == 0) {
		mem_auto char *message = jval_strdup(jval_get(payload, "message"));
		note(a, FORMAT_YELLOW, "model: %s", message ? message : "the request failed");
	} else if (strcmp(name, "tool.started") == 0) {
		mem_auto char *tool = jval_strdup(jval_get(payload, "toolName"));
		note(a, FORMAT_CYAN, "%s", tool ? tool : "tool");
	} else if (strcmp(name, "tool.args") == 0) {
		show_call(a, payload);
	} else if (strcmp(name, "tool.failed") == 0) {
		mem_auto char *message = jval_strdup(jval_get(payload, "message"));
		note(a, FORMAT_RED, "  failed: %s", message ? message : "");
	} else if (strcmp(name, "action.required") == 0) {
		ask(a, event, payload);
	} else if (strcmp(name, "action.resolved") == 0) {
		char id[ID_LOOKUP_MAX];

		jval_str(jval_get(event, "actionId"), id, sizeof id);
		drop_question(a, id);
	} else if (strcmp(name, "turn.completed") == 0 || strcmp(name, "turn.failed") == 0) {
		turn_ended(a, strcmp(name, "turn.completed") == 0, event, payload);
	}
}

/* ---- questions and interruption ---- */

static void ignore_reply(void *ctx, struct jval result, struct jval error) {}

/* `answer`: to a question for a text; or NULL. */
static void send(struct agent *a, const char *method, const char *member, const char *id, const char *decision,
		 const char *answer)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, member, id);
	jw_kopt(&w, "decision", decision);
	if (answer) {
		jw_kobj(&w, "payload");
		jw_kstr(&w, "answer", answer);
		jw_obj_end(&w);
	}
	remote_key(a->cli->remote, &w);
	jw_obj_end(&w);
	remote_send(a->cli->remote, method, &params, ignore_reply, NULL);
}

static void interrupt_turn(struct agent *a)
{
	if (!a->interrupted)
		send(a, "interrupt_turn", "turnId", a->turn_id, NULL, NULL);
	a->interrupted = true;
}

/* Asks on the terminal. Without one, nobody can answer: the turn is ended as blocked. */
static void answer_question(struct agent *a)
{
	struct question q = a->question[0];
	mem_auto char *prompt = mem_strdup(q.prompt ? q.prompt : "");
	char line[APPROVAL_LINE_MAX];

	if (a->terminal < 0) {
		snprintf(a->category, sizeof a->category, "needs_input");
		cli_error("the agent needs an %s: %s", q.input ? "answer" : "approval", prompt);
		if (!q.input)
			cli_hint("allow it in the policy, or answer it with bailiff approve %s in another terminal",
				 q.action_id);
		drop_question(a, q.action_id);
		interrupt_turn(a);
		return;
	}
	end_line(a);
	int r = q.input ? approval_read(a->terminal, prompt, "(an empty line declines) > ", NULL, NULL, line)
			: approval_ask(a->cli, a->terminal, q.action_id, prompt);
	if (q.input ? r < 0 : r != 0) {
		drop_question(a, q.action_id);
		return interrupt_turn(a);
	}
	if (q.input)
		send(a, "respond_action", "actionId", q.action_id, line[0] ? "answer" : "decline",
		     line[0] ? line : NULL);
	drop_question(a, q.action_id);
}

/* ---- one turn ---- */

static int follow_turn(struct agent *a, uint64_t after)
{
	struct remote *r = a->cli->remote;
	buf_auto struct buf filter = BUF_INIT;
	struct jw w = jw_on(&filter);
	struct err e = ERR_INIT;
	sigset_t blocked, unblocked;
	int status = 0;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigprocmask(SIG_BLOCK, &blocked, &unblocked);
	jw_kstr(&w, "sessionId", a->session_id);
	memset(a->level, 0, sizeof a->level);
	memcpy(a->level[0].turn_id, a->turn_id, sizeof a->turn_id);
	struct event_stream feed = { .remote = r, .filter = &filter, .sequence = after, .event = on_event, .ctx = a };
	event_stream_start(&feed);
	while (!a->ended && !status) {
		struct pollfd p;
		int timeout = remote_prepare_poll(r, true, &p);
		timeout = a->nquestions ? 0 : timeout; /* a question is still open, and no event will say so again */
		/* SIGINT is blocked outside of ppoll, so that none is missed. */
		const struct timespec wait = { timeout / 1000, timeout % 1000 * 1000000L };
		if (ppoll(&p, 1, timeout < 0 ? NULL : &wait, &unblocked) < 0)
			p.revents = 0;
		if (interrupts > 1 && a->interrupted)
			status = 130;
		else if (interrupts)
			interrupt_turn(a);
		if (remote_process_poll(r, p.revents, &e) < 0)
			status = cli_fail(NULL, EXIT_FAILED, &e, "agent");
		else if (feed.failed)
			status = cli_fail(NULL, EXIT_FAILED, &feed.failure, "agent");
		else if (a->nquestions && !a->ended)
			answer_question(a);
	}
	event_stream_stop(&feed);
	sigprocmask(SIG_SETMASK, &unblocked, NULL);
	end_line(a);
	return status;
}

static const struct sandbox_options places = SANDBOX_OPTIONS(agent);

/* --cow: the turns run in a sandbox of their own, whose changes are kept apart. */
static int create_sandbox(struct agent *a)
{
	request_auto struct request q = REQUEST_INIT(q);
	struct cli *c = a->cli;

	jw_kbool(&q.w, "cow", true);
	if (a->session_id[0])
		jw_kstr(&q.w, "sessionId", a->session_id);
	if (sandbox_options_write(&c->opts, &places, &q.w, &q.e) < 0 || request_change(c, &q, "create_sandbox") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "create a sandbox");
	jval_str(jval_get(q.result, "sandboxId"), a->sandbox_id, sizeof a->sandbox_id);
	return 0;
}

static int submit(struct agent *a, const char *prompt, uint64_t *ret_sequence)
{
	request_auto struct request q = REQUEST_INIT(q);
	struct cli *c = a->cli;
	int status = noun_options(c, AGENT_LIMITS, &q.w);

	if (status)
		return status;
	if (a->session_id[0])
		jw_kstr(&q.w, "sessionId", a->session_id);
	jw_kstr(&q.w, "driver", "loop");
	jw_kopt(&q.w, "model", a->model ? a->model : opts_get(&c->opts, OPT_agent_MODEL));
	if (a->system_prompt.len)
		jw_kstrn(&q.w, "systemPrompt", a->system_prompt.data, a->system_prompt.len);
	agent_input_write(prompt, &a->images, &q.w);
	jw_kobj(&q.w, "options");
	/* Without a conversation nobody uses what the commands leave running; otherwise end_processes ends it. */
	jw_kbool(&q.w, "endProcesses", !a->converses);
	if (a->sandbox_id[0]) {
		jw_kstr(&q.w, "sandboxId", a->sandbox_id);
		if ((status = file_option_cwd(c, OPT_agent_CWD, &q.w)))
			return status;
	} else if (sandbox_options_write(&c->opts, &places, &q.w, &q.e) < 0) {
		return cli_fail(c, EXIT_FAILED, &q.e, "agent");
	}
	jw_obj_end(&q.w);
	if (request_change(c, &q, "submit_turn") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "submit the turn");
	jval_str(jval_get(q.result, "turnId"), a->turn_id, sizeof a->turn_id);
	jval_str(jval_get(q.result, "sessionId"), a->session_id, sizeof a->session_id);
	*ret_sequence = jval_uint(jval_get(q.result, "sequence"), 0);
	a->images.len = 0;
	return 0;
}

/* 0 done, 1 failed, 3 blocked or needs input, 124 a limit. */
static int status_of(const struct agent *a)
{
	if (strcmp(a->status, "completed") == 0)
		return 0;
	if (strcmp(a->category, "limit") == 0 || strcmp(a->category, "budget") == 0)
		return EXIT_TIME_LIMIT;
	if (strcmp(a->category, "needs_input") == 0 || strcmp(a->category, "permission") == 0)
		return EXIT_BLOCKED;
	return a->interrupted ? 130 : EXIT_FAILED;
}

static void print_result(const struct agent *a)
{
	struct jval usage = jval_of(buf_cstr((struct buf *)(uintptr_t)&a->usage), a->usage.len);
	static const char *const counts[] = { "inputTokens", "outputTokens", "cachedTokens" };
	buf_auto struct buf line = BUF_INIT;
	struct jw w = jw_on(&line);
	struct jval cost = jval_get(usage, "costUsd");

	jw_obj(&w);
	jw_kstr(&w, "type", "result");
	jw_kstr(&w, "status", a->status);
	jw_kstrn(&w, "text", a->text.data ? a->text.data : "", a->text.len);
	jw_kstr(&w, "turnId", a->turn_id);
	jw_kstr(&w, "sessionId", a->session_id);
	jw_kobj(&w, "usage");
	for (size_t i = 0; i < countof(counts); i++)
		jw_kuint(&w, counts[i], jval_uint(jval_get(usage, counts[i]), 0));
	jw_obj_end(&w);
	if (cost.type == JT_NUMBER)
		jw_kraw(&w, "costUsd", cost.text, cost.len);
	jw_kopt(&w, "category", a->category[0] ? a->category : NULL);
	jw_kopt(&w, "message", a->message[0] ? a->message : NULL);
	jw_kopt(&w, "sandboxId", a->sandbox_id[0] ? a->sandbox_id : NULL);
	jw_obj_end(&w);
	buf_byte(&line, '\n');
	format_print(line.data, line.len);
}

static int run_turn(struct agent *a, const char *prompt)
{
	uint64_t sequence = 0;
	int status;

	a->ended = a->interrupted = false;
	a->text.len = a->usage.len = 0;
	a->status[0] = a->category[0] = a->message[0] = '\0';
	interrupts = 0;
	if (opts_has(&a->cli->opts, OPT_agent_COW) && !a->sandbox_id[0] && (status = create_sandbox(a)))
		return status;
	if ((status = submit(a, prompt, &sequence)) || (status = follow_turn(a, sequence)))
		return status;
	if (a->json)
		print_result(a);
	else if (strcmp(a->status, "completed") != 0)
		cli_error("the turn %s: %s", a->status[0] ? a->status : "failed",
			  a->message[0] ? a->message : a->category);
	return status_of(a);
}

/* ---- the prompt ---- */

static void show_changes_hint(const struct agent *a)
{
	if (a->sandbox_id[0] && !a->json)
		cli_hint("the changes are in a copy: bailiff diff %s, then bailiff apply or discard it", a->sandbox_id);
}

static void show_session(struct agent *a, const char *argument)
{
	note(a, FORMAT_PLAIN, "session %s", a->session_id[0] ? a->session_id : "(none yet)");
}

/* Ends what the commands of the conversation have left running; its last turn has ended. */
static void end_processes(struct agent *a)
{
	request_auto struct request q = REQUEST_INIT(q);

	if (!a->turn_id[0])
		return;
	jw_kstr(&q.w, "turnId", a->turn_id);
	jw_kbool(&q.w, "endProcesses", true);
	(void)request_change(a->cli, &q, "interrupt_turn");
}

/* The sandbox of --cow stays with the session that it belongs to. */
static void begin_session(struct agent *a, const char *argument)
{
	end_processes(a);
	show_changes_hint(a);
	a->session_id[0] = a->sandbox_id[0] = a->turn_id[0] = '\0';
	note(a, FORMAT_PLAIN, "the next prompt begins a new session");
}

/* The daemon checks the name with the next turn. */
static void choose_model(struct agent *a, const char *argument)
{
	if (*argument) {
		free(a->model);
		a->model = mem_strdup(argument);
	}
	const char *name = a->model ? a->model : opts_get(&a->cli->opts, OPT_agent_MODEL);
	note(a, FORMAT_PLAIN, "model %s", name ? name : "(the default one)");
}

static const struct {
	const char *name, *argument, *help;
	void (*run)(struct agent *a, const char *argument); /* NULL: run_command does it */
} commands[] = {
	{ "/help", "", "lists these commands; anything else goes to the model", NULL },
	{ "/model", " [NAME]", "shows the model, or chooses another one", choose_model },
	{ "/session", "", "shows the session", show_session },
	{ "/new", "", "begins a new session; processes in the background end", begin_session },
	{ "/quit", "", "ends, like the end of input; the session can be resumed", NULL },
};

/* A slash and lower-case letters alone; a path goes to the model. */
static bool is_command(const char *line)
{
	const size_t n = 1 + strspn(line + 1, "abcdefghijklmnopqrstuvwxyz");

	return line[0] == '/' && n > 1 && (line[n] == '\0' || line[n] == ' ');
}

/* False: the conversation ends. */
static bool run_command(struct agent *a, const char *line)
{
	const int n = (int)strcspn(line, " ");
	const bool help = n == 5 && strncmp(line, "/help", 5) == 0;
	bool known = help;

	for (size_t i = 0; i < countof(commands); i++) {
		if (help)
			note(a, FORMAT_PLAIN, "%s%s  %s", commands[i].name, commands[i].argument, commands[i].help);
		if (help || strncmp(commands[i].name, line, (size_t)n) != 0 || commands[i].name[n])
			continue;
		if (!commands[i].run)
			return false;
		commands[i].run(a, line + n + strspn(line + n, " "));
		known = true;
	}
	if (!known)
		note(a, FORMAT_YELLOW, "%.*s is not a command; /help lists them", n, line);
	return true;
}

/* Reads prompts from the terminal until the end of input. */
static int converse(struct agent *a)
{
	char *line = NULL;
	size_t cap = 0;
	int status = 0;

	a->converses = true;
	for (;;) {
		(void)fd_write_all(STDERR_FILENO, "> ", 2);
		ssize_t n = getline(&line, &cap, stdin);

		if (n < 0)
			break;
		while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == ' '))
			line[--n] = '\0';
		if (!n)
			continue;
		if (is_command(line)) {
			if (!run_command(a, line))
				break;
			continue;
		}
		status = run_turn(a, line);
		if (status == 130 && interrupts > 1)
			break;
	}
	free(line);
	end_processes(a);
	if (a->session_id[0])
		note(a, FORMAT_DIM, "continue with: bailiff agent --resume %s", a->session_id);
	return status;
}

static bool is_session_id(const char *s) { return strncmp(s, "sess_", 5) == 0 && !strchr(s, ' '); }

/* A whole file of text. 0, or the exit status. */
static int read_text(int fd, const char *name, size_t most, struct buf *ret)
{
	char *at = buf_reserve(ret, most + 1);
	const ssize_t n = fd < 0 ? -1 : fd_read_all(fd, at, most + 1);
	const char *problem = n < 0 ? strerror(errno) : memchr(at, 0, (size_t)n) ? "not a text" : NULL;

	if (!problem && (size_t)n <= most) {
		buf_extend(ret, (size_t)n);
		return 0;
	}
	cli_error("%s: %s", name,
		  problem ? problem : "larger than what is accepted (a prompt 1 MiB, a system prompt 64 KiB)");
	return EXIT_FAILED;
}

/* The prompt: the arguments, or stdin if it is not a terminal. 0, or the exit status. */
static int read_prompt(struct cli *c, struct buf *ret)
{
	size_t i = opts_has(&c->opts, OPT_agent_RESUME) && c->opts.nargs && is_session_id(c->opts.args[0]) ? 1 : 0;

	for (; i < c->opts.nargs; i++)
		buf_printf(ret, "%s%s", ret->len ? " " : "", c->opts.args[i]);
	if (ret->len || isatty(STDIN_FILENO))
		return 0;
	return read_text(STDIN_FILENO, "stdin", PROMPT_MAX, ret);
}

/* --system-prompt. 0, or the exit status. */
static int read_system_prompt(struct cli *c, struct buf *ret)
{
	const char *path = opts_get(&c->opts, OPT_agent_SYSTEM_PROMPT);
	fd_auto int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	return path ? read_text(fd, path, SYSTEM_PROMPT_MAX, ret) : 0;
}

/* --resume: the session that is the first argument, or the newest one. */
static int find_session(struct agent *a)
{
	const struct opts *o = &a->cli->opts;
	request_auto struct request q = REQUEST_INIT(q);

	if (!opts_has(o, OPT_agent_RESUME))
		return 0;
	if (o->nargs && is_session_id(o->args[0]))
		return id_lookup(a->cli, ID_SESSION, o->args[0], a->session_id) < 0 ? EXIT_FAILED : 0;
	jw_kuint(&q.w, "limit", 1);
	if (request_read(a->cli, &q, "list_sessions") < 0)
		return cli_fail(a->cli, EXIT_FAILED, &q.e, "find the last session");
	struct jiter it = jiter_on(jval_get(q.result, "sessions"));
	if (!jiter_next(&it)) {
		cli_error("there is no session to resume");
		return EXIT_FAILED;
	}
	jval_str(jval_get(it.value, "sessionId"), a->session_id, sizeof a->session_id);
	return 0;
}

int cmd_agent(struct cli *c)
{
	struct agent a = { .cli = c,
			   .json = cli_as_json(c),
			   .print = opts_has(&c->opts, OPT_agent_PRINT),
			   .coloured = format_coloured(STDERR_FILENO),
			   .terminal = -1 };
	const struct sigaction catch = { .sa_handler = on_interrupt };
	buf_auto struct buf prompt = BUF_INIT;
	int status = read_prompt(c, &prompt);

	if (status || (status = read_system_prompt(c, &a.system_prompt)) || (status = agent_images_read(c, &a.images)))
		return status;
	if (!prompt.len && (a.print || a.json))
		return cli_usage(c, "-p and --json need a prompt");
	if (!prompt.len && !isatty(STDIN_FILENO))
		return cli_usage(c, "no prompt: stdin is empty, and not a terminal");
	if (cli_connect(c, CLI_START_ALWAYS) < 0 || (status = find_session(&a)))
		return status ? status : EXIT_FAILED;
	if (!a.print && !a.json)
		a.terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
	sigaction(SIGINT, &catch, NULL);
	status = prompt.len ? run_turn(&a, buf_cstr(&prompt)) : converse(&a);
	show_changes_hint(&a);
	fd_close(&a.terminal);
	buf_done(&a.text);
	buf_done(&a.usage);
	buf_done(&a.system_prompt);
	buf_done(&a.images);
	free(a.model);
	while (a.nquestions)
		free(a.question[--a.nquestions].prompt);
	return status;
}
