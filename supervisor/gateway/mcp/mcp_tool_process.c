/* Tools for a running or ended process: wait, write_stdin, kill, ps. */

#include "pty/sanitize.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/client/keys.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_client_state.h"
#include "supervisor/gateway/mcp/mcp_report.h"
#include "supervisor/gateway/mcp/mcp_session.h"
#include "supervisor/gateway/mcp/mcp_tool.h"
#include "supervisor/gateway/mcp/mcp_wait_process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WAIT_MS 30000
#define TYPED_MS 1000 /* usual time for a program to respond to a line of input */
#define TAKEN_MS 2000 /* enough time for a process that reads its input */
#define POLL_MS 500
#define PS_LIMIT 50
#define INVALID_STATE (-32015)

static const char *arg(const struct mcp_call *c, const char *name) { return json_get_string(c->arguments, name); }

static void follow_process(struct mcp_call *c, const char *process_id, uint64_t wait_ms, bool ended_is_fine)
{
	const struct mcp_wait_process_options o = {
		.process_id = process_id,
		.wait_ms = wait_ms,
		.patient = strcmp(c->name, "wait") == 0 && !json_object_get(c->arguments, "timeoutMs"),
		.budget = mcp_wait_process_budget(c),
		.ended_is_fine = ended_is_fine,
	};

	mcp_wait_process(c, &o);
}

/* ---- wait ---- */

/* An action without a process: polled until it is answered or the time has passed. */
struct waited {
	uint64_t left_ms;
};

static void poll_action(struct mcp_call *c);

static const json_t *find_action(const json_t *actions, const char *id)
{
	const json_t *v;
	size_t i;

	json_array_foreach (actions, i, v)
		if (json_text_is(v, "actionId", id))
			return v;
	return NULL;
}

static void on_actions(struct mcp_call *c, json_t *result, json_t *error)
{
	const json_t *action = find_action(json_object_get(result, "actions"), arg(c, "actionId"));
	struct waited *w = c->data;

	if (error) {
		mcp_call_daemon_error(c, "find the action", error);
	} else if (!action) {
		mcp_call_tool_error(c, "There is no action '%s' in this session.", arg(c, "actionId"));
	} else if (json_get_text(action, "processId")[0]) {
		mem_auto char *id = mem_strdup(json_get_text(action, "processId"));
		follow_process(c, id, w->left_ms, false);
	} else if (json_text_is(action, "status", "pending") && w->left_ms) {
		unsigned ms = w->left_ms < POLL_MS ? (unsigned)w->left_ms : POLL_MS;

		w->left_ms -= ms;
		mcp_call_set_timer(c, ms, poll_action);
	} else {
		bool pending = json_text_is(action, "status", "pending");
		buf_auto struct buf words = BUF_INIT;
		json_t *s = json_pack("{ss ss}", "status", pending ? "waiting_permission" : "answered", "actionId",
				      json_get_text(action, "actionId"));
		if (pending)
			buf_printf(&words, "Action %s still waits for a person: %s", json_get_text(action, "actionId"),
				   json_get_text(action, "prompt"));
		else
			buf_printf(&words, "Action %s is %s: %s.", json_get_text(action, "actionId"),
				   json_get_text(action, "status"), json_get_text(action, "decision"));
		if (json_get_text(action, "decision")[0])
			json_object_set_new(s, "decision", json_string(json_get_text(action, "decision")));
		mcp_call_reply(c, &words, s, false);
	}
}

static void poll_action(struct mcp_call *c)
{
	mcp_call_query(c, "list_actions", json_pack("{ss si}", "sessionId", gateway_session_id(c->up), "limit", 1000),
		       on_actions);
}

void mcp_tool_wait(struct mcp_call *c)
{
	uint64_t ms = mcp_wait_process_number(c, "timeoutMs", WAIT_MS);
	struct waited *w;

	if (!arg(c, "processId") == !arg(c, "actionId")) {
		mcp_call_tool_error(c, "Give either processId or actionId.");
	} else if (arg(c, "processId")) {
		follow_process(c, arg(c, "processId"), ms, false);
	} else {
		w = mem_zalloc(1, sizeof(*w));
		w->left_ms = ms;
		c->data = w;
		c->data_free = free;
		poll_action(c);
	}
}

/* ---- write_stdin ---- */

/*
 * Input stays pending while the process does not read or has not started; report that to the model instead of blocking
 * the call.
 */
static void on_slow(struct mcp_call *c)
{
	const struct mcp_wait_process_options o = {
		.process_id = arg(c, "processId"),
		.budget = mcp_wait_process_budget(c),
		.note = "Not all input was accepted yet: the process has not read it, or a hook still checks it.",
	};

	if (!c->data) /* otherwise already waiting for output */
		mcp_wait_process(c, &o);
}

static void on_written(struct mcp_call *c, json_t *result, json_t *error)
{
	if (c->data)
		return;
	if (error)
		mcp_call_daemon_error(c, "write to its standard input", error);
	else
		follow_process(c, arg(c, "processId"), mcp_wait_process_number(c, "yieldMs", TYPED_MS), false);
}

/* `checks`: hooks have not seen any input of this call yet. */
static void close_input(struct mcp_call *c, bool checks, mcp_call_reply_fn then)
{
	mcp_call_mutate(c, "close_process_stdin",
			json_pack("{ss sb}", "processId", arg(c, "processId"), "runHooks", checks), then);
}

/*
 * The input was delivered. If the process has ended since, that is not an error: the input may have been all that it
 * waited for.
 */
static void on_closed(struct mcp_call *c, json_t *result, json_t *error)
{
	on_written(c, result,
		   error && json_integer_value(json_object_get(error, "code")) == INVALID_STATE ? NULL : error);
}

static void on_typed(struct mcp_call *c, json_t *result, json_t *error)
{
	if (!error && !c->data && json_get_flag(c->arguments, "eof"))
		close_input(c, false, on_closed);
	else
		on_written(c, result, error);
}

/* The text, followed by the keys. */
static int typed_bytes(const struct mcp_call *c, struct buf *out, struct err *e)
{
	const json_t *given = json_object_get(c->arguments, "text"), *key;
	size_t i;

	if (given)
		buf_append(out, json_string_value(given), json_string_length(given));
	json_array_foreach (json_object_get(c->arguments, "keys"), i, key)
		if (keys_parse(json_string_value(key), out, e) < 0)
			return -1;
	return 0;
}

static void write_input(struct mcp_call *c)
{
	buf_auto struct buf bytes = BUF_INIT, encoded = BUF_INIT, names = BUF_INIT;
	struct err e = ERR_INIT;

	if (typed_bytes(c, &bytes, &e) < 0) {
		keys_names(&names);
		mcp_call_tool_error(c, "keys: %s. Keys are single characters, ctrl-x, alt-x, or one of: %s", e.message,
				    buf_cstr(&names));
	} else if (bytes.len) {
		text_base64_encode(bytes.data, bytes.len, &encoded);
		mcp_call_set_timer(c, (unsigned)mcp_wait_process_number(c, "yieldMs", TYPED_MS) + TAKEN_MS, on_slow);
		mcp_call_mutate(c, "write_process_stdin",
				json_pack("{ss ss ss sb}", "processId", arg(c, "processId"), "data", buf_cstr(&encoded),
					  "encoding", "base64", "runHooks", true),
				on_typed);
	} else if (json_get_flag(c->arguments, "eof")) {
		close_input(c, true, on_written);
	} else {
		follow_process(c, arg(c, "processId"), mcp_wait_process_number(c, "yieldMs", TYPED_MS),
			       false); /* nothing to type: only report */
	}
}

/*
 * Rules about the tool write_stdin, and mode plan, apply as to the tool of the same name in turns. There is no question
 * to a person for it here: what would be asked is rejected.
 */
static void on_evaluated(struct mcp_call *c, json_t *result, json_t *error)
{
	const json_t *decision = json_object_get(result, "permissionDecision");
	const bool asks = json_text_is(decision, "decision", "ask");
	const bool allowed = json_text_is(decision, "decision", "allow") ||
			     (asks && !json_text_is(decision, "decisionSource", "rule"));

	if (error)
		mcp_call_daemon_error(c, "check whether it may be written to", error);
	else if (!allowed)
		mcp_call_tool_error(c, "Policy %s: %s.%s", asks ? "asks a person about input" : "denies input",
				    json_get_string(decision, "decisionReason"),
				    asks ? " The user can type it with `bailiff input`." : "");
	else
		write_input(c);
}

static void on_target(struct mcp_call *c, json_t *result, json_t *error)
{
	const char *cwd = json_get_string(result, "cwd");
	json_t *params;

	if (error)
		return mcp_call_daemon_error(c, "write to its standard input", error);
	/* On a pipe the Enter key would be a carriage return, which does not end a line there. */
	if (json_array_size(json_object_get(c->arguments, "keys")) && !json_is_object(json_object_get(result, "tty")))
		return mcp_call_tool_error(c, "keys: it has no terminal. Give text, with \\n where a "
					      "line ends, and eof: true to end its input; "
					      "exec with tty: true runs a command on a terminal.");
	params = json_pack("{ss sO ss}", "toolName", "write_stdin", "arguments", c->arguments, "sessionId",
			   gateway_session_id(c->up));
	if (cwd)
		json_object_set_new(params, "cwd", json_string(cwd));
	mcp_call_query(c, "evaluate_permission", params, on_evaluated);
}

void mcp_tool_write_stdin(struct mcp_call *c) { mcp_call_get_process(c, arg(c, "processId"), on_target); }

/* ---- kill ---- */

static void on_killed(struct mcp_call *c, json_t *result, json_t *error)
{
	/* A process that has already ended is fine, too. */
	const struct mcp_wait_process_options o = {
		.process_id = arg(c, "processId"),
		.budget = mcp_wait_process_budget(c),
		.ended_is_fine = true,
		.note = error ? "It had ended before." : NULL,
	};

	if (error && json_integer_value(json_object_get(error, "code")) != INVALID_STATE)
		mcp_call_daemon_error(c, "end the process", error);
	else
		mcp_wait_process(c, &o);
}

static void on_signalled(struct mcp_call *c, json_t *result, json_t *error)
{
	if (error)
		mcp_call_daemon_error(c, "signal the process", error);
	else
		follow_process(c, arg(c, "processId"), TYPED_MS, true);
}

void mcp_tool_kill(struct mcp_call *c)
{
	const char *signal = arg(c, "signal");

	if (signal)
		mcp_call_mutate(c, "signal_process",
				json_pack("{ss ss}", "processId", arg(c, "processId"), "signal", signal), on_signalled);
	else
		mcp_call_mutate(c, "terminate_process",
				json_pack("{ss ss}", "processId", arg(c, "processId"), "reason", "ended by the agent"),
				on_killed);
}

/* ---- ps ---- */

static json_t *row_of(const json_t *p)
{
	static const char *const same[] = { "processId", "status", "cwd",        "startedAt", "endedAt",
					    "exitCode",  "signal", "durationMs", "actionId" };
	buf_auto struct buf command = BUF_INIT;
	json_t *row = json_object();
	const json_t *word;
	size_t i;

	for (i = 0; i < countof(same); i++) {
		json_t *v = json_object_get(p, same[i]);

		if (v && !json_is_null(v) && (!json_is_string(v) || json_string_length(v)))
			json_object_set(row, same[i], v);
	}
	if (json_get_text(p, "commandLine")[0])
		buf_str(&command, json_get_text(p, "commandLine"));
	else
		json_array_foreach (json_object_get(p, "command"), i, word)
			buf_printf(&command, "%s%s", i ? " " : "", json_string_value(word));
	json_object_set_new(row, "command", rpc_message_text(buf_cstr(&command), command.len));
	json_object_set_new(row, "tty", json_boolean(json_is_object(json_object_get(p, "tty"))));
	return row;
}

static void write_row(const json_t *row, struct buf *out)
{
	buf_printf(out, "%s  %s", json_get_text(row, "processId"), json_get_text(row, "status"));
	if (json_object_get(row, "exitCode"))
		buf_printf(out, " %d", (int)json_integer_value(json_object_get(row, "exitCode")));
	if (json_get_text(row, "signal")[0])
		buf_printf(out, " (%s)", json_get_text(row, "signal"));
	buf_str(out, "  ");
	text_sanitize_line(json_get_text(row, "command"), strlen(json_get_text(row, "command")), out);
	buf_byte(out, '\n');
}

static void add_rows(const json_t *processes, json_t *rows, struct buf *words)
{
	const json_t *v;
	size_t i;

	json_array_foreach (processes, i, v) {
		if (json_array_size(rows) == PS_LIMIT)
			break;
		json_t *row = row_of(v);
		write_row(row, words);
		json_array_append_new(rows, row);
	}
}

static void on_listed(struct mcp_call *c, json_t *result, json_t *error)
{
	buf_auto struct buf words = BUF_INIT;
	json_t *rows;

	if (error)
		return mcp_call_daemon_error(c, "list processes", error);
	rows = json_array();
	add_rows(c->data, rows, &words); /* those that wait for approval first */
	add_rows(json_object_get(result, "processes"), rows, &words);
	if (!words.len)
		buf_str(&words, json_get_flag(c->arguments, "all")
					? "No processes yet.\n"
					: "Nothing is running. With all: true, ended ones are listed too.\n");
	mcp_call_reply(c, &words, json_pack("{so}", "processes", rows), false);
}

/* Takes ownership of `params`. */
static void reply_list(struct mcp_call *c, json_t *params, mcp_call_reply_fn then)
{
	json_object_set_new(params, "limit", json_integer(PS_LIMIT));
	json_object_set_new(params, "helpers", json_false());
	if (!json_get_flag(c->arguments, "everySession"))
		json_object_set_new(params, "sessionId", json_string(gateway_session_id(c->up)));
	mcp_call_query(c, "list_processes", params, then);
}

static void on_waiting(struct mcp_call *c, json_t *result, json_t *error)
{
	if (error)
		return mcp_call_daemon_error(c, "list processes", error);
	c->data = json_incref(json_object_get(result, "processes"));
	c->data_free = mcp_call_free_json;
	reply_list(c, json_pack("{sb}", "liveOnly", true), on_listed);
}

/* Processes that wait for approval have not started, so liveOnly does not include them: list them separately. */
void mcp_tool_ps(struct mcp_call *c)
{
	if (json_get_flag(c->arguments, "all"))
		reply_list(c, json_object(), on_listed);
	else
		reply_list(c, json_pack("{ss}", "status", "waiting_permission"), on_waiting);
}

/* ---- read_output, screen ---- */

/* Tools that show a process's output: read_output, by bytes, and screen, the current contents of its terminal. */

/* ---- read_output ---- */

struct range {
	char stream[16];
	uint64_t offset;
	size_t length;
	bool ended;
};

#define CHARACTER_MAX 4

/*
 * The number of bytes that form complete characters within the requested length, but at least one character; the rest
 * is left for the next read.
 */
static size_t whole_characters(const struct buf *bytes, size_t wanted, bool last)
{
	size_t n = bytes->len < wanted ? bytes->len : wanted;
	size_t whole = n ? text_utf8_cut(bytes->data, n) : 0;

	if (n == bytes->len && last)
		return n;
	if (!whole)
		whole = text_utf8_len(buf_cstr(bytes), bytes->len);
	return whole ? whole : n;
}

static void on_read(struct mcp_call *c, json_t *result, json_t *error)
{
	const struct range *r = c->data;
	const json_t *data = json_object_get(result, "data");
	buf_auto struct buf bytes = BUF_INIT, shown = BUF_INIT, words = BUF_INIT, uri = BUF_INIT;
	struct sanitize s = SANITIZE_INIT;

	if (error)
		return mcp_call_daemon_error(c, "read the output", error);
	uint64_t total = (uint64_t)json_integer_value(json_object_get(result, "totalBytes"));
	(void)text_base64_decode(json_string_value(data), json_string_length(data), &bytes);
	size_t n = whole_characters(&bytes, r->length, r->offset + bytes.len >= total && r->ended);
	uint64_t next = r->offset + n;
	bool over = r->ended && next >= total;

	sanitize_feed(&s, buf_cstr(&bytes), n, &shown);
	sanitize_end(&s, &shown);
	buf_printf(&words, "%s of %s, bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 "%s:\n", r->stream,
		   arg(c, "processId"), r->offset, next, total,
		   over           ? ""
		   : next < total ? " (more follows: offset is the second number)"
				  : " (so far; it still runs)");
	buf_append(&words, buf_cstr(&shown), shown.len);
	mcp_report_uri(arg(c, "processId"), r->stream, &uri);
	mcp_client_state_set_offset(mcp_session_client_state(c->mcp), arg(c, "processId"), r->stream, next);
	json_t *structured = json_pack(
		"{sO ss so sI sI sI sb ss}", "processId", json_object_get(c->arguments, "processId"), "stream",
		r->stream, "text", rpc_message_text(buf_cstr(&shown), shown.len), "offset", (json_int_t)r->offset,
		"nextOffset", (json_int_t)next, "totalBytes", (json_int_t)total, "eof", over, "uri", buf_cstr(&uri));
	mcp_call_reply(c, &words, structured, false);
}

/* The requested stream, or the one with the most output. */
static const json_t *pick_stream(const struct mcp_call *c, const json_t *outputs, const char **ret_name)
{
	const json_t *output, *found = NULL;
	const char *name, *wanted = arg(c, "stream");

	json_object_foreach ((json_t *)outputs, name, output) {
		if (wanted ? strcmp(name, wanted) != 0
			   : found && json_integer_value(json_object_get(output, "bytes")) <=
					      json_integer_value(json_object_get(found, "bytes")))
			continue;
		found = output;
		*ret_name = name;
	}
	return found;
}

static void on_process(struct mcp_call *c, json_t *result, json_t *error)
{
	const char *name = NULL;
	const json_t *output = pick_stream(c, json_object_get(result, "outputs"), &name);
	uint64_t length = mcp_wait_process_number(c, "length", MCP_WAIT_PROCESS_BUDGET),
		 tail = mcp_wait_process_number(c, "tail", 0);
	struct range *r;

	if (error)
		return mcp_call_daemon_error(c, "get the process", error);
	if (!output) {
		buf_auto struct buf names = BUF_INIT;

		json_object_foreach (json_object_get(result, "outputs"), name, output)
			buf_printf(&names, "%s%s", names.len ? ", " : "", name);
		mcp_call_tool_error(c, "stream: it has no such output%s; there is %s.",
				    mcp_report_has_ended(result) ? "" : " (yet)", names.len ? names.data : "none");
		return;
	}
	uint64_t total = (uint64_t)json_integer_value(json_object_get(output, "bytes"));
	r = mem_zalloc(1, sizeof(*r));
	snprintf(r->stream, sizeof(r->stream), "%s", name);
	r->ended = mcp_report_has_ended(result);
	r->offset = mcp_wait_process_number(c, "offset", 0);
	if (tail) {
		r->offset = total > tail ? total - tail : 0;
		length = tail;
	}
	r->length = (size_t)length;
	c->data = r;
	c->data_free = free;
	/* Request a little more, so that even the shortest length shows a complete character. */
	mcp_call_read_output(c, json_get_text(output, "outputRef"), r->offset,
			     length < CHARACTER_MAX ? CHARACTER_MAX : length, on_read);
}

void mcp_tool_read_output(struct mcp_call *c)
{
	if (json_object_get(c->arguments, "tail") &&
	    (json_object_get(c->arguments, "offset") || json_object_get(c->arguments, "length")))
		return mcp_call_tool_error(c, "tail: cannot be combined with offset and length");
	mcp_call_get_process(c, arg(c, "processId"), on_process);
}

/* ---- screen ---- */

static void on_screen(struct mcp_call *c, json_t *result, json_t *error)
{
	static const char *const same[] = { "processId", "rows", "cols", "title", "alternate", "ended" };
	const json_t *matched = c->data, *cursor = json_object_get(result, "cursor");
	const char *text = json_get_string(result, "text");
	buf_auto struct buf words = BUF_INIT, shown = BUF_INIT;
	json_t *structured;

	if (error)
		return mcp_call_daemon_error(c, "get the screen", error);
	if (json_is_false(matched))
		buf_str(&words, "Timed out: the condition was not met.\n");
	buf_printf(&words, "%d rows of %d columns, cursor at row %d, column %d%s:\n",
		   (int)json_integer_value(json_object_get(result, "rows")),
		   (int)json_integer_value(json_object_get(result, "cols")),
		   (int)json_integer_value(json_object_get(cursor, "row")) + 1,
		   (int)json_integer_value(json_object_get(cursor, "col")) + 1,
		   json_get_flag(result, "ended") ? "; the process has ended" : "");
	text_sanitize(text ? text : "", text ? strlen(text) : 0, &shown);
	buf_append(&words, buf_cstr(&shown), shown.len);
	structured = json_pack("{so s{sI sI}}", "text", rpc_message_text(buf_cstr(&shown), shown.len), "cursor", "row",
			       json_integer_value(json_object_get(cursor, "row")), "col",
			       json_integer_value(json_object_get(cursor, "col")));
	for (size_t i = 0; i < countof(same); i++)
		if (json_object_get(result, same[i]))
			json_object_set(structured, same[i], json_object_get(result, same[i]));
	if (matched)
		json_object_set(structured, "matched", (json_t *)matched);
	mcp_call_reply(c, &words, structured, false);
}

static void show_screen(struct mcp_call *c)
{
	mcp_call_query(c, "get_screen",
		       json_pack("{sO ss}", "processId", json_object_get(c->arguments, "processId"), "format", "text"),
		       on_screen);
}

static void on_shown(struct mcp_call *c, json_t *result, json_t *error)
{
	if (error)
		return mcp_call_daemon_error(c, "wait for the screen", error);
	c->data = json_boolean(json_get_flag(result, "matched"));
	c->data_free = mcp_call_free_json;
	show_screen(c);
}

void mcp_tool_screen(struct mcp_call *c)
{
	json_t *until = json_object(), *idle = json_object_get(c->arguments, "idleMs");

	if (arg(c, "waitForText"))
		json_object_set_new(until, "text", json_string(arg(c, "waitForText")));
	if (arg(c, "waitForRegex"))
		json_object_set_new(until, "regex", json_string(arg(c, "waitForRegex")));
	if (idle)
		json_object_set(until, "idleMs", idle);
	if (!json_object_size(until)) {
		json_decref(until);
		show_screen(c);
		return;
	}
	json_object_set_new(until, "exit", json_true()); /* no output follows the exit */
	mcp_call_query(c, "wait_screen",
		       json_pack("{sO so sI}", "processId", json_object_get(c->arguments, "processId"), "until", until,
				 "timeoutMs", (json_int_t)mcp_wait_process_number(c, "timeoutMs", 10000)),
		       on_shown);
}
