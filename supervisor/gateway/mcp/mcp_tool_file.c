/*
 * read_file, write_file, apply_patch: bailiff's built-in tools of these names, invoked in a turn of the client. Each
 * runs as a process in the turn's sandbox, under the same rules as a command.
 *
 * The first such call opens the turn, which ends with the client's connection. invoke_tool replies only when the tool
 * has ended, so a call that waits for approval is recognised by its event. The id of the tool call is chosen here, so
 * that a second round finds the call of the first.
 */
#include "supervisor/gateway/mcp/mcp_tool.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_client_state.h"
#include "supervisor/gateway/mcp/mcp_report.h"
#include "supervisor/gateway/mcp/mcp_session.h"
#include "supervisor/gateway/mcp/mcp_wait_process.h"
#include "supervisor/gateway/mcp/mcp_workspace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define READ_LINES 2000 /* default limit of a file */
#define READ_BYTES 100000
#define RESULT_MAX (32u << 20) /* limit of a tool's result */
#define RESULT_PART 1000000
#define AGAIN_MS 10
#define AGAIN_MAX 500u /* five seconds in all */

struct file_call {
	struct mcp_client_state *memory;
	char call_id[72];
	char turn_id[72];  /* set in a second round; otherwise "" */
	char tried_id[72]; /* the turn of the last attempt */
	char process_id[72], ref[72];
	json_t *ended; /* reply of invoke_tool */
	struct buf result;
	unsigned again; /* number of retries */
	bool opens;     /* this call opens the turn */
};

static void run_file_tool(struct mcp_call *c);

static void file_call_free(void *data)
{
	struct file_call *f = data;

	mcp_client_state_turn_uses(f->memory, -1);
	if (f->opens)
		mcp_client_state_turn_is(f->memory, MCP_TURN_NONE); /* cancelled: the next call opens it again */
	json_decref(f->ended);
	buf_done(&f->result);
	free(f);
}

/* ---- results ---- */

static void finish_call(struct mcp_call *c, const struct buf *words, json_t *structured, bool wrong)
{
	const struct file_call *f = c->data;

	if (f->process_id[0])
		json_object_set_new(structured, "processId", json_string(f->process_id));
	mcp_call_reply(c, words, structured, wrong);
}

/* The outcome for each file, without the message `reported`, which was written before. */
static void write_files(const json_t *files, const char *reported, struct buf *out)
{
	const json_t *v;
	size_t i;

	json_array_foreach (files, i, v) {
		const char *path = json_get_text(v, "path"), *from = json_get_text(v, "movedFrom");

		if (json_text_is(v, "status", "failed")) {
			if (!json_text_is(v, "message", reported))
				buf_printf(out, "%s: %s\n", path, json_get_text(v, "message"));
		} else if (json_text_is(v, "status", "not_applied")) {
			buf_printf(out, "not changed: %s\n", path);
		} else {
			buf_printf(out, "%s%s %s%s%s\n", json_text_is(v, "status", "checked") ? "would be " : "",
				   json_get_text(v, "change"), *from ? from : path, *from ? " to " : "",
				   *from ? path : "");
		}
	}
}

static bool any_has_status(const json_t *files, const char *status)
{
	const json_t *v;
	size_t i;

	json_array_foreach (files, i, v)
		if (json_text_is(v, "status", status))
			return true;
	return false;
}

/*
 * Policy messages name the program that implements the tool, which a model does not know; use the tool's name:
 * "write_file is denied by Edit(x)".
 */
static char *simplify_message(const struct mcp_call *c, const char *message)
{
	const char *program = strstr(message, "bailiff-tool "), *rest = program ? strstr(program, "' ") : NULL;

	return rest ? mem_printf("%s %s", c->name, rest + 2) : mem_strdup(message);
}

/* Advice by the reason that the tool names, or the category; the daemon's own advice if there is none. */
static const char *advice_of(const struct mcp_call *c, const json_t *error, const char *reason)
{
	static const struct {
		const char *tool, *category;
		enum err_reason reason;
		const char *advice;
	} rows[] = {
		{ "write_file", "not_found", 0, "createFolders: true makes the folders that are missing." },
		{ "read_file", NULL, REASON_FILE_TOO_LARGE,
		  "exec can show a part of it, for example with sed -n, head -c or tail -c." },
		{ "read_file", NULL, REASON_IS_DIRECTORY, "exec can list it, for example with ls." },
		{ NULL, NULL, REASON_PATCH_STALE,
		  "Look at the file as it is now (read_file) and make the patch from that." },
		{ NULL, NULL, REASON_FILE_EXISTS, "Use *** Update File for what is there, or write_file." },
		{ NULL, NULL, REASON_NOT_A_PATCH,
		  "A patch begins with *** Begin Patch and ends with *** End Patch, or it is a unified diff." },
		{ NULL, "sandbox", 0,
		  "The sandbox or the file's mode does not allow it. Only the working tree can be written, without "
		  ".git/config and .git/hooks; "
		  "for more a person has to widen the profile, which needs an operator." },
		{ NULL, "tool", 0, "" }, /* the message describes the invalid argument */
	};
	const enum err_reason named = err_reason_of(reason);

	for (size_t i = 0; i < countof(rows); i++)
		if ((!rows[i].tool || strcmp(c->name, rows[i].tool) == 0) &&
		    (!rows[i].category || json_text_is(error, "category", rows[i].category)) &&
		    (!rows[i].reason || rows[i].reason == named))
			return rows[i].advice;
	return json_get_text(error, "advice");
}

static void finish_failed(struct mcp_call *c, const json_t *answer)
{
	const json_t *error = json_object_get(((struct file_call *)c->data)->ended, "error"),
		     *files = json_object_get(answer, "files");
	bool denied = json_text_is(error, "category", "permission");
	const char *advice = advice_of(c, error, json_get_text(json_object_get(answer, "error"), "reason"));
	mem_auto char *message = simplify_message(c, json_get_text(error, "message"));
	buf_auto struct buf words = BUF_INIT;
	json_t *s = json_pack("{ss ss}", "status", denied ? "denied" : "failed", "message", message);

	buf_printf(&words, "%s: %s.\n", denied ? "Denied" : "Failed", message);
	if (*advice && !denied) {
		buf_printf(&words, "%s\n", advice);
		json_object_set_new(s, "next", json_string(advice));
	}
	write_files(files, json_get_text(error, "message"), &words);
	if (json_array_size(files) && !any_has_status(files, "applied"))
		buf_str(&words, "Nothing was changed.\n");
	if (files)
		json_object_set(s, "files", (json_t *)files);
	finish_call(c, &words, s, true);
}

/* The length of the part that fits the budget, cut at a line end if possible. */
static size_t length_that_fits(const char *s, size_t n, size_t budget)
{
	if (n <= budget)
		return n;
	size_t cut = text_utf8_cut(s, budget);
	const char *line = memrchr(s, '\n', cut);
	return line && line > s ? (size_t)(line - s) + 1 : cut;
}

static size_t count_lines(const char *s, size_t n)
{
	size_t lines = n && s[n - 1] != '\n';

	for (const char *p = s; (p = memchr(p, '\n', (size_t)(s + n - p))); p++)
		lines++;
	return lines;
}

/* Binary contents as base64. The budget counts bytes and is rounded to whole groups. */
static void finish_bytes(struct mcp_call *c, const json_t *answer)
{
	size_t all = json_string_length(json_object_get(answer, "content")),
	       most = (size_t)mcp_wait_process_number(c, "maxBytes", READ_BYTES) / 3 * 4;
	size_t n = all < most ? all : most;
	uint64_t first = mcp_wait_process_number(c, "offset", 0);
	bool lines = json_get_flag(answer, "truncated"), asked = json_text_is(c->arguments, "encoding", "base64");
	buf_auto struct buf words = BUF_INIT;

	buf_printf(&words, "%s %s (%lld bytes)%s\n", json_get_text(answer, "path"), asked ? "as base64" : "is not text",
		   (long long)json_integer_value(json_object_get(answer, "bytes")),
		   asked ? ":" : "; with encoding: \"base64\" its bytes are shown as base64.");
	if (asked)
		buf_printf(&words, "%.*s\n", (int)n, json_get_text(answer, "content"));
	if (n < all || lines)
		buf_str(&words,
			"[not all of it; exec can show any part, for example with tail -c, head -c and base64]\n");
	finish_call(c, &words,
		    json_pack("{ss ss ss so sO sO sI sb}", "status", "completed", "path", json_get_text(answer, "path"),
			      "encoding", json_get_text(answer, "encoding"), "content",
			      json_stringn(json_get_text(answer, "content"), n), "bytes",
			      json_object_get(answer, "bytes"), "lines", json_object_get(answer, "lines"), "offset",
			      (json_int_t)first, "truncated", n < all || lines),
		    false);
}

static void finish_read(struct mcp_call *c, const json_t *answer)
{
	const json_t *content = json_object_get(answer, "content");
	size_t all = json_string_length(content),
	       n = length_that_fits(json_get_text(answer, "content"), all,
				    (size_t)mcp_wait_process_number(c, "maxBytes", READ_BYTES));
	uint64_t first = mcp_wait_process_number(c, "offset", 0),
		 shown = count_lines(json_get_text(answer, "content"), n);
	bool more = n < all || json_get_flag(answer, "truncated");
	buf_auto struct buf words = BUF_INIT;

	buf_append(&words, json_get_text(answer, "content"), n);
	if (n < all && shown == 1 && json_get_text(answer, "content")[n - 1] != '\n')
		buf_printf(&words,
			   "\n[line %" PRIu64 " is longer than maxBytes and was cut after %zu bytes; exec can show the "
			   "rest, for example with cut -b %zu-]",
			   first + 1, n, n + 1);
	if (more)
		buf_printf(&words, "%s[lines %" PRIu64 " to %" PRIu64 " of %lld; go on with offset %" PRIu64 "]\n",
			   words.len && words.data[words.len - 1] != '\n' ? "\n" : "", first + 1, first + shown,
			   (long long)json_integer_value(json_object_get(answer, "lines")), first + shown);
	if (!words.len && first)
		buf_printf(&words, "(nothing: the file has %lld lines)\n",
			   (long long)json_integer_value(json_object_get(answer, "lines")));
	if (!words.len)
		buf_str(&words, "(empty)\n");
	json_t *s = json_pack("{ss ss ss so sO sO sI sb}", "status", "completed", "path", json_get_text(answer, "path"),
			      "encoding", json_get_text(answer, "encoding"), "content",
			      json_stringn(json_get_text(answer, "content"), n), "bytes",
			      json_object_get(answer, "bytes"), "lines", json_object_get(answer, "lines"), "offset",
			      (json_int_t)first, "truncated", more);
	if (more)
		json_object_set_new(s, "nextOffset", json_integer((json_int_t)(first + shown)));
	finish_call(c, &words, s, false);
}

static void finish_written(struct mcp_call *c, const json_t *answer)
{
	json_t *files = json_object_get(answer, "files");
	buf_auto struct buf words = BUF_INIT;
	json_t *s = json_pack("{ss sO*}", "status", "completed", "files", files);

	write_files(files, "", &words);
	if (!words.len || any_has_status(files, "checked"))
		buf_str(&words, "Nothing was changed.\n");
	finish_call(c, &words, s, false);
}

/* Chooses the report: a failure, binary contents, a text, or the outcome of a write. */
static void on_result(struct mcp_call *c)
{
	struct file_call *f = c->data;
	json_auto_t *answer = json_loadb(buf_cstr(&f->result), f->result.len, 0, NULL);

	if (!json_text_is(f->ended, "status", "completed"))
		finish_failed(c, answer);
	else if (!answer)
		mcp_call_tool_error(c, "The tool's result is too long. Request fewer lines.");
	else if (json_text_is(answer, "encoding", "base64"))
		finish_bytes(c, answer);
	else if (strcmp(c->name, "read_file") == 0)
		finish_read(c, answer);
	else
		finish_written(c, answer);
}

static void read_result(struct mcp_call *c);

static void on_part(struct mcp_call *c, json_t *result, json_t *error)
{
	struct file_call *f = c->data;
	const json_t *data = json_object_get(result, "data");
	size_t before = f->result.len;

	if (error)
		return mcp_call_daemon_error(c, "read the tool's answer", error);
	(void)text_base64_decode(json_string_value(data), json_string_length(data), &f->result);
	if (json_get_flag(result, "eof") || f->result.len == before || f->result.len > RESULT_MAX)
		on_result(c);
	else
		read_result(c);
}

static void read_result(struct mcp_call *c)
{
	struct file_call *f = c->data;

	mcp_call_read_output(c, f->ref, f->result.len, RESULT_PART, on_part);
}

static void on_invoked(struct mcp_call *c, json_t *result, json_t *error)
{
	struct file_call *f = c->data;

	/* The turn was ended by someone else: use a new one. Or it has not started yet: retry shortly. */
	if (error && json_integer_value(json_object_get(error, "code")) == -32015 && !f->turn_id[0] &&
	    f->again++ < AGAIN_MAX) {
		if (json_text_is(json_object_get(error, "data"), "reason", err_reason_name(REASON_TURN_ENDED)))
			mcp_client_state_turn_gone(f->memory, f->tried_id);
		mcp_call_set_timer(c, AGAIN_MS, run_file_tool);
		return;
	}
	if (error)
		return mcp_call_daemon_error(c, c->name, error);
	f->ended = json_incref(result);
	snprintf(f->process_id, sizeof(f->process_id), "%s", json_get_text(result, "processId"));
	snprintf(f->ref, sizeof(f->ref), "%s", json_get_text(result, "resultRef"));
	if (f->ref[0])
		read_result(c);
	else
		on_result(c);
}

/* ---- approval ---- */

static void on_decided(struct mcp_call *c, enum mcp_approval a)
{
	struct file_call *f = c->data;
	buf_auto struct buf words = BUF_INIT;

	if (a != MCP_WAITS) {
		if (f->turn_id[0])
			run_file_tool(c); /* second round: repeat the call to get its result */
		return;                   /* otherwise the reply to invoke_tool follows */
	}
	mem_auto char *next = mem_printf("Call wait with {\"actionId\":\"%s\"} to wait for that.", f->ref);
	buf_printf(&words, "Not done yet: a person has to allow it (bailiff approve %s).\n%s\n", f->ref, next);
	finish_call(c, &words,
		    json_pack("{ss ss ss}", "status", "waiting_permission", "actionId", f->ref, "next", next), false);
}

static void ask_user(struct mcp_call *c, const json_t *waiting)
{
	struct file_call *f = c->data;
	buf_auto struct buf question = BUF_INIT;
	const json_t *patch = strcmp(c->name, "apply_patch") == 0 ? json_object_get(c->arguments, "patch") : NULL;
	const json_t *thing = patch ? patch : json_object_get(c->arguments, "path");
	mem_auto char *what = patch ? mem_printf("Allow apply_patch (%zu bytes)?", json_string_length(patch))
				    : mem_printf("Allow %s?", c->name);

	snprintf(f->process_id, sizeof(f->process_id), "%s", json_get_text(waiting, "processId"));
	snprintf(f->ref, sizeof(f->ref), "%s", json_get_text(waiting, "actionId"));
	mcp_workspace_question(c, what, json_string_value(thing), json_string_length(thing), waiting, &question);
	mcp_call_add_process(c, f->process_id);
	mcp_call_approve(c, waiting, question.data, on_decided);
}

/* Finds the action of this call. invoke_tool replies only when the tool has ended, so the event is the only notice. */
static void on_event(struct mcp_call *c, struct jval event)
{
	struct file_call *f = c->data;
	char process[72], action[72], reason[400];

	if (!jval_is_str(jval_get(event, "type"), "action.required") ||
	    !jval_is_str(jval_get(event, "toolCallId"), f->call_id))
		return;
	mcp_call_watch(c, NULL);
	jval_str(jval_get(event, "processId"), process, sizeof(process));
	jval_str(jval_get(event, "actionId"), action, sizeof(action));
	jval_str(jval_path(event, "payload.policy.decisionReason"), reason, sizeof(reason));
	mem_auto char *why = simplify_message(c, reason), *prompt = jval_strdup(jval_path(event, "payload.prompt"));
	json_auto_t *waiting = json_pack("{ss ss ss* s{so}}", "processId", process, "actionId", action, "prompt",
					 prompt, "permissionDecision", "decisionReason",
					 rpc_message_text(why, strlen(why)));
	if (jval_path(event, "payload.policy.updatedInputRef").type == JT_STRING)
		json_object_set_new(json_object_get(waiting, "permissionDecision"), "updatedInputRef",
				    json_string(action));
	ask_user(c, waiting);
}

/* ---- invocation ---- */

/* Removes the arguments that only this gateway interprets. */
static json_t *arguments_of(const struct mcp_call *c)
{
	json_t *arguments = json_copy(c->arguments);

	json_object_del(arguments, "justification");
	json_object_del(arguments, "maxBytes");
	if (strcmp(c->name, "read_file") == 0 && !json_object_get(arguments, "limit"))
		json_object_set_new(arguments, "limit", json_integer(READ_LINES));
	return arguments;
}

static void on_turn(struct mcp_call *c, json_t *result, json_t *error)
{
	struct file_call *f = c->data;

	f->opens = false;
	mcp_client_state_turn_is(f->memory, error ? MCP_TURN_NONE : MCP_TURN_OPEN);
	if (error)
		mcp_call_daemon_error(c, c->name, error);
	else
		run_file_tool(c);
}

static void open_turn(struct mcp_call *c)
{
	struct file_call *f = c->data;
	json_t *options = json_object();
	char cwd[PATH_MAX];
	struct err e = ERR_INIT;

	if (mcp_workspace_path(c, NULL, cwd, &e) < 0) {
		json_decref(options);
		mcp_call_tool_error(c, "%s", e.message);
		return;
	}
	f->opens = true;
	mcp_client_state_turn_is(f->memory, MCP_TURN_OPENING);
	json_object_set_new(options, "cwd", json_string(cwd));
	mcp_workspace_profile(c, NULL, options);
	json_object_set_new(options, "sandboxId", json_string("session")); /* that of the client's commands */
	mcp_call_mutate(c, "submit_turn",
			json_pack("{ss ss s[{ss ss}] so}", "sessionId", gateway_session_id(c->up), "turnId",
				  mcp_client_state_turn(f->memory), "input", "type", "text", "text",
				  "file tools of an MCP client", "options", options),
			on_turn);
}

/* Calls that arrive while another one opens the turn poll until it is open. */
static void run_file_tool(struct mcp_call *c)
{
	struct file_call *f = c->data;

	if (!f->turn_id[0] && mcp_client_state_turn_state(f->memory) != MCP_TURN_OPEN) {
		if (mcp_client_state_turn_state(f->memory) == MCP_TURN_NONE)
			open_turn(c);
		else
			mcp_call_set_timer(c, AGAIN_MS, run_file_tool);
		return;
	}
	snprintf(f->tried_id, sizeof(f->tried_id), "%s", f->turn_id[0] ? f->turn_id : mcp_client_state_turn(f->memory));
	mcp_call_mutate(c, "invoke_tool",
			json_pack("{ss ss so ss}", "turnId", f->tried_id, "toolName", c->name, "arguments",
				  arguments_of(c), "toolCallId", f->call_id),
			on_invoked);
}

/* The process of the first round has the id of its tool call. */
static void on_waiting(struct mcp_call *c, json_t *result, json_t *error)
{
	struct file_call *f = c->data;

	if (error)
		return mcp_call_daemon_error(c, c->name, error);
	snprintf(f->call_id, sizeof(f->call_id), "%s", json_get_text(result, "toolCallId"));
	snprintf(f->turn_id, sizeof(f->turn_id), "%s", json_get_text(result, "turnId"));
	ask_user(c, mcp_call_approving(c));
}

/* The first argument that contains a NUL, or NULL. Neither a path nor a text may contain one. */
static const char *find_nul_argument(const json_t *arguments)
{
	const char *name;
	const json_t *v;

	json_object_foreach ((json_t *)arguments, name, v)
		if (json_is_string(v) && strlen(json_string_value(v)) != json_string_length(v))
			return name;
	return NULL;
}

void mcp_tool_file(struct mcp_call *c)
{
	struct file_call *f;
	const char *nul = find_nul_argument(c->arguments);

	if (nul)
		return mcp_call_tool_error(c, "%s: must not contain \\u0000%s", nul,
					   strcmp(nul, "content") == 0 ? "; give it with encoding: \"base64\"" : "");
	f = mem_zalloc(1, sizeof(*f));

	f->memory = mcp_session_client_state(c->mcp);
	mcp_client_state_turn_uses(f->memory, 1);
	c->data = f;
	c->data_free = file_call_free;
	if (mcp_call_approving(c))
		return mcp_call_get_process(c, json_get_text(mcp_call_approving(c), "processId"), on_waiting);
	mcp_client_state_call_id(f->call_id);
	mcp_call_watch(c, on_event);
	run_file_tool(c);
}
