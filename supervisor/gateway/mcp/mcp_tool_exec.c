/*
 * exec: runs a command line with start_process in the client's session.
 *
 *   started ──────────────────────────────┐
 *   waiting_permission → the client's user ┴→ stdin, if any → wait until it ends or yieldMs has passed → report
 *
 * In the second round of a modern client, which carries the answer, the process already exists and only waits for it.
 */
#include "supervisor/gateway/mcp/mcp_tool.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/mcp/mcp_report.h"
#include "supervisor/gateway/mcp/mcp_session.h"
#include "supervisor/gateway/mcp/mcp_wait_process.h"
#include "supervisor/gateway/mcp/mcp_workspace.h"

#include <string.h>

#define YIELD_MS 30000
#define BACKGROUND_MS 300 /* long enough to report immediate failures */
#define TTY_ROWS 24
#define TTY_COLS 80

static json_t *arg(const struct mcp_call *c, const char *name) { return json_object_get(c->arguments, name); }

static bool flag(const struct mcp_call *c, const char *name) { return json_is_true(arg(c, name)); }

static bool in_background(const struct mcp_call *c) { return flag(c, "background") || flag(c, "detached"); }

/* ---- parameters ---- */

static void put_argument(json_t *o, const char *key, json_t *v)
{
	if (v)
		json_object_set(o, key, v);
}

/* A profile given to the gateway applies to all commands; the model may choose one only if there is none. */
static int check_profile(const struct mcp_call *c, struct err *e)
{
	const char *set = mcp_session_config(c->mcp)->profile, *given = json_string_value(arg(c, "profile"));

	if (!set || !given || strcmp(set, given) == 0)
		return 0;
	return err_set(e, ERR_INVALID, "profile: commands run in profile %s here, which the user has set; leave it out",
		       set);
}

/* Outside of the client's own workspace a command may read; the model cannot decide what it may write there. */
static int put_profile(const struct mcp_call *c, const char *cwd, json_t *params, struct err *e)
{
	const char *given = json_string_value(arg(c, "profile")), *set = mcp_session_config(c->mcp)->profile;
	char tree[PATH_MAX];

	if (mcp_workspace_is_own(c, cwd, tree)) {
		mcp_workspace_profile(c, given, params);
		/* Commands of the client share /tmp, loopback and process ids, unless one asks for another sandbox. */
		if (!flag(c, "cow"))
			json_object_set_new(params, "sandboxId", json_string("session"));
		return 0;
	}
	if ((given || set) && strcmp(given ? given : set, "readonly") != 0)
		return err_set(e, ERR_INVALID,
			       "cwd: '%.100s' is outside of '%.100s', where this client works, and there commands run "
			       "in profile readonly only: leave %s",
			       cwd, tree, given ? "profile out" : "cwd out, the user has set another");
	json_object_set_new(params, "profile", json_string("readonly"));
	return 0;
}

/* The warnings of a start as one text; NULL if there are none. `started`: the reply, or NULL. */
static char *join_warnings(const json_t *started)
{
	struct buf text = BUF_INIT;
	const json_t *v;
	size_t i;

	json_array_foreach (json_object_get(started, "warnings"), i, v)
		buf_printf(&text, "%s%s", i ? ". " : "", json_string_value(v));
	return text.len ? buf_take(&text) : NULL;
}

/* The note for a command that ran outside of the workspace; NULL if it did not. */
static char *workspace_note(const struct mcp_call *c, const json_t *started)
{
	mem_auto char *warning = join_warnings(started);
	static const char *const temporary[] = { "/tmp", "/var/tmp", "/dev/shm" };
	char cwd[PATH_MAX], tree[PATH_MAX];
	struct err e = ERR_INIT;

	if (mcp_workspace_path(c, json_string_value(arg(c, "cwd")), cwd, &e) < 0 || mcp_workspace_is_own(c, cwd, tree))
		return mem_take(&warning);
	if (warning)
		return mem_printf("%s. Keep files in %s.", warning, tree);
	for (size_t i = 0; i < countof(temporary); i++)
		if (strcmp(cwd, temporary[i]) == 0)
			return mem_printf("%s is private: files written there are deleted with the sandbox. Keep files "
					  "in %s.",
					  cwd, tree);
	return mem_printf("%s is outside of %s, where this client works: it could be read, not changed. To work there, "
			  "the user has to start the "
			  "client there, or bailiff with --cwd DIR.",
			  cwd, tree);
}

/* NULL: *e has the reason. */
static json_t *params_of(const struct mcp_call *c, struct err *e)
{
	json_auto_t *params = json_object();
	char cwd[PATH_MAX];

	if (check_profile(c, e) < 0 || mcp_workspace_path(c, json_string_value(arg(c, "cwd")), cwd, e) < 0)
		return NULL;
	json_object_set_new(params, "cwd", json_string(cwd));
	put_argument(params, "commandLine", arg(c, "command"));
	put_argument(params, "env", arg(c, "env"));
	put_argument(params, "cow", arg(c, "cow"));
	put_argument(params, "justification", arg(c, "justification"));
	if (put_profile(c, cwd, params, e) < 0)
		return NULL;
	if (arg(c, "timeoutMs"))
		json_object_set_new(params, "limits", json_pack("{sO}", "wallMs", arg(c, "timeoutMs")));
	if (flag(c, "tty"))
		json_object_set_new(params, "tty", json_pack("{si si}", "rows", TTY_ROWS, "cols", TTY_COLS));
	else if (arg(c, "stdin") || flag(c, "interactive"))
		json_object_set_new(params, "stdin", json_string("pipe"));
	return json_incref(params);
}

/* ---- execution ---- */

static void follow_process(struct mcp_call *c, const char *process_id, uint64_t wait_ms, const char *note)
{
	const struct mcp_wait_process_options o = {
		.process_id = process_id,
		.wait_ms = wait_ms,
		.patient = !in_background(c) && !arg(c, "yieldMs"),
		.budget = mcp_wait_process_budget(c),
		.note = note,
	};

	mcp_wait_process(c, &o);
}

/*
 * Sends stdin without waiting for it to be read: the process may print a lot first, or end without reading. While it
 * waits for approval, the daemon buffers it.
 */
static void send_stdin(struct mcp_call *c, const char *process_id)
{
	json_t *text = arg(c, "stdin");

	if (text && json_string_length(text))
		mcp_call_mutate_async(c, "write_process_stdin",
				      json_pack("{ss sO}", "processId", process_id, "data", text));
	if (text && !flag(c, "interactive") && !flag(c, "tty"))
		mcp_call_mutate_async(c, "close_process_stdin", json_pack("{ss}", "processId", process_id));
}

static void continue_run(struct mcp_call *c, const char *process_id, const json_t *started)
{
	uint64_t yield = in_background(c) ? BACKGROUND_MS : YIELD_MS;
	mem_auto char *note = workspace_note(c, started);

	send_stdin(c, process_id);
	follow_process(c, process_id, mcp_wait_process_number(c, "yieldMs", yield), note);
}

static void on_decided(struct mcp_call *c, enum mcp_approval a)
{
	const char *id = c->data;

	if (a == MCP_ALLOWED)
		return continue_run(c, id, NULL);
	if (a == MCP_WAITS)
		send_stdin(c, id);
	follow_process(c, id, 0, a == MCP_DENIED ? "Permission was denied." : NULL);
}

static void ask_user(struct mcp_call *c, const json_t *started)
{
	buf_auto struct buf question = BUF_INIT;

	mcp_workspace_question(c, "Allow this command?", json_string_value(arg(c, "command")),
			       json_string_length(arg(c, "command")), started, &question);
	c->data = mem_strdup(json_get_string(started, "processId"));
	c->data_free = free;
	mcp_call_approve(c, started, question.data, on_decided);
}

static void on_started(struct mcp_call *c, json_t *result, json_t *error)
{
	const char *status = json_get_string(result, "status");

	if (error)
		mcp_call_finish(c, mcp_report_denied(error));
	else if (status && strcmp(status, "waiting_permission") == 0)
		ask_user(c, result);
	else
		continue_run(c, json_get_string(result, "processId"), result);
}

void mcp_tool_exec(struct mcp_call *c)
{
	const json_t *waiting = mcp_call_approving(c);
	struct err e = ERR_INIT;
	json_t *params;

	if (waiting) {
		if (!flag(c, "detached"))
			mcp_call_add_process(c, json_get_string(waiting, "processId"));
		ask_user(c, waiting);
		return;
	}
	params = params_of(c, &e);
	if (!params)
		mcp_call_tool_error(c, "%s", e.message);
	else
		mcp_call_start(c, params, !flag(c, "detached"), on_started);
}
