/*
 * `watch`: what happens in a session, as it happens: prompts, answers, tools, commands, approvals. It shows the latest
 * events first. On a terminal, approvals are asked in place.
 */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/approval.h"
#include "supervisor/cli/event_stream.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SHOWN_MAX 400    /* bytes of a line */
#define EARLIER_MAX 1000 /* events before the first one that is followed */

struct watch {
	struct cli *cli;
	bool json, coloured;
	bool in_text;                    /* text of a model without a final newline was printed */
	int terminal;                    /* for questions; −1 = none */
	char (*question)[ID_LOOKUP_MAX]; /* that are not answered, in the order in which they came */
	size_t nquestions;
	int status;
};

/* Which events are shown: in which colour, after which word, and which member of the payload. */
static const struct watch_row {
	const char *type;
	enum format_colour colour;
	const char *word;
	const char *member[3]; /* the first one that is there */
} rows[] = {
	{ "turn.submitted", FORMAT_BOLD, "prompt", { "preview" } },
	{ "turn.steered", FORMAT_BOLD, "prompt", { "preview" } },
	{ "turn.completed", FORMAT_GREEN, "turn completed", { "summary" } },
	{ "turn.failed", FORMAT_RED, "turn failed", { "message", "category" } },
	{ "model.failed", FORMAT_YELLOW, "model failed", { "message" } },
	{ "tool.started", FORMAT_CYAN, "tool", { "toolName" } },
	{ "tool.failed", FORMAT_RED, "tool failed", { "message" } },
	{ "process.started", FORMAT_CYAN, "run", { NULL } },
	{ "process.completed", FORMAT_DIM, "exit", { "exitCode" } },
	{ "process.failed", FORMAT_RED, "failed", { "message", "category", "exitCode" } },
	{ "process.terminated", FORMAT_YELLOW, "ended", { "reason", "signal" } },
	{ "action.required", FORMAT_YELLOW, "asks", { "prompt" } },
	{ "action.resolved", FORMAT_DIM, "answer", { "decision" } },
	{ "artifact.changed", FORMAT_DIM, "changed", { "path" } },
};

static void add_question(struct watch *w, struct jval action_id)
{
	w->question = mem_realloc(w->question, (w->nquestions + 1) * sizeof(*w->question));
	jval_str(action_id, w->question[w->nquestions++], ID_LOOKUP_MAX);
}

/* It was answered, here or by another client. */
static void drop_question(struct watch *w, struct jval action_id)
{
	for (size_t i = 0; i < w->nquestions; i++)
		if (jval_is_str(action_id, w->question[i])) {
			w->nquestions--;
			memmove(w->question + i, w->question + i + 1, (w->nquestions - i) * sizeof(*w->question));
			return;
		}
}

static void end_text(struct watch *w)
{
	if (w->in_text)
		format_print("\n", 1);
	w->in_text = false;
}

static void show_model_text(struct watch *w, struct jval text)
{
	buf_auto struct buf raw = BUF_INIT, safe = BUF_INIT;

	jval_str_buf(text, &raw);
	if (!raw.len)
		return;
	text_sanitize(raw.data, raw.len, &safe);
	format_print(safe.data, safe.len);
	w->in_text = safe.data[safe.len - 1] != '\n';
}

static void show_row(struct watch *w, const struct watch_row *row, struct jval event)
{
	struct jval payload = jval_get(event, "payload"), value = { 0 };
	buf_auto struct buf what = BUF_INIT, safe = BUF_INIT, out = BUF_INIT;
	char time[40];

	for (size_t i = 0; i < countof(row->member) && row->member[i] && value.type == JT_NONE; i++)
		value = jval_get(payload, row->member[i]);
	if (value.type == JT_STRING)
		jval_str_buf(value, &what);
	else if (value.type != JT_NONE)
		buf_append(&what, value.text, value.len);
	else if (jval_get(payload, "command").type == JT_ARRAY)
		format_command(payload, &what);
	text_sanitize_line(buf_cstr(&what), text_utf8_cut(buf_cstr(&what), what.len < SHOWN_MAX ? what.len : SHOWN_MAX),
			   &safe);
	jval_str(jval_get(event, "timestamp"), time, sizeof(time));
	end_text(w);
	if (strlen(time) > 19) { /* the time of day */
		time[19] = '\0';
		format_paint(&out, w->coloured, FORMAT_DIM, time + 11);
		buf_byte(&out, ' ');
	}
	format_paint(&out, w->coloured, row->colour, row->word);
	buf_printf(&out, "%s%s\n", safe.len ? " " : "", buf_cstr(&safe));
	if (format_print(out.data, out.len) < 0)
		w->status = EXIT_FAILED;
}

/* The holder of a session sandbox runs no command, and bailiff's helpers are the tools' own. */
static bool is_hidden(struct jval event, const char *type)
{
	struct jval owner = jval_path(event, "payload.owner.kind");

	return strncmp(type, "process.", 8) == 0 &&
	       (jval_is_str(owner, "sandbox") || jval_is_str(owner, "model") || jval_is_str(owner, "context"));
}

static void on_event(void *ctx, struct jval event)
{
	struct watch *w = ctx;
	char type[64];

	if (w->json) {
		buf_auto struct buf line = BUF_INIT;

		buf_append(&line, event.text, event.len);
		buf_byte(&line, '\n');
		if (format_print(line.data, line.len) < 0)
			w->status = EXIT_FAILED;
		return;
	}
	jval_str(jval_get(event, "type"), type, sizeof(type));
	if (strcmp(type, "model.delta") == 0)
		show_model_text(w, jval_path(event, "payload.text"));
	for (size_t i = 0; i < countof(rows); i++)
		if (strcmp(rows[i].type, type) == 0 && !is_hidden(event, type))
			show_row(w, &rows[i], event);
	if (strcmp(type, "action.required") == 0 && jval_is_str(jval_path(event, "payload.actionType"), "permission"))
		add_question(w, jval_get(event, "actionId"));
	if (strcmp(type, "action.resolved") == 0)
		drop_question(w, jval_get(event, "actionId"));
}

/* More events, with questions and answers, arrive while it is open. */
static void ask_first(struct watch *w)
{
	char id[ID_LOOKUP_MAX];

	memcpy(id, w->question[0], sizeof(id));
	w->nquestions--;
	memmove(w->question, w->question + 1, w->nquestions * sizeof(*w->question));
	end_text(w);
	if (approval_ask(w->cli, w->terminal, id, NULL) == 1)
		w->status = 130;
}

/* Until Ctrl-C, or the daemon is gone. */
static int follow_session(struct watch *w, const struct buf *filter, uint64_t after)
{
	struct remote *r = w->cli->remote;
	struct event_stream feed = { .remote = r, .filter = filter, .sequence = after, .event = on_event, .ctx = w };
	struct err e = ERR_INIT;

	event_stream_start(&feed);
	while (!w->status) {
		struct pollfd p[2] = { { 0 }, { .fd = STDOUT_FILENO } };
		int timeout = remote_prepare_poll(r, true, &p[0]);

		if (poll(p, 2, timeout) < 0)
			p[0].revents = p[1].revents = 0;
		if (remote_process_poll(r, p[0].revents, &e) < 0)
			w->status = cli_fail(NULL, EXIT_FAILED, &e, "watch");
		else if (feed.failed)
			w->status = cli_fail(NULL, EXIT_FAILED, &feed.failure, "watch");
		else if (p[1].revents & POLLERR)
			w->status = EXIT_FAILED;
		if (w->nquestions && w->terminal >= 0 && !w->status)
			ask_first(w);
	}
	event_stream_stop(&feed);
	return w->status;
}

int cmd_watch(struct cli *c)
{
	request_auto struct request hello = REQUEST_INIT(hello), q = REQUEST_INIT(q);
	struct watch w = {
		.cli = c, .json = cli_as_json(c), .coloured = format_coloured(STDOUT_FILENO), .terminal = -1
	};
	buf_auto struct buf filter = BUF_INIT;
	struct jw members = jw_on(&filter);
	char session[ID_LOOKUP_MAX];

	if (c->opts.nargs != 1)
		return cli_usage(c, c->opts.nargs ? "one session at a time" : "which session?");
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || id_lookup(c, ID_SESSION, c->opts.args[0], session) < 0)
		return EXIT_FAILED;
	if (request_read(c, &hello, "initialize") < 0)
		return cli_fail(c, EXIT_FAILED, &hello.e, "watch");
	uint64_t last = jval_uint(jval_get(hello.result, "lastSequence"), 0),
		 from = last > EARLIER_MAX ? last - EARLIER_MAX : 0;
	jw_kstr(&q.w, "sessionId", session);
	if (request_read(c, &q, "get_session") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "%s", session);
	jw_kstr(&members, "sessionId", session);
	if (!w.json)
		w.terminal = approval_terminal();
	int status = follow_session(&w, &filter, opts_has(&c->opts, OPT_watch_NEW) ? last : from);
	fd_close(&w.terminal);
	free(w.question);
	return status;
}
