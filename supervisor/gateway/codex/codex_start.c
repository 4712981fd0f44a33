/*
 * process/start, and the launch that file methods use as well.
 *
 * A launch asks the daemon for the sandbox of the profile in this directory (get_sandbox), narrows it to what Codex
 * requested (sandbox_intent.h), and sends start_process with the difference. Two round trips instead of one: the
 * difference can only be computed from the resolved profile.
 *
 * Commands run in the sandbox of the session (sandbox_session.c of the engine), and so do the file methods that name a
 * sandbox: those with equal changes to the profile share /tmp, loopback and process ids. Codex may send another sandbox
 * with each request. The daemon then warns that the command does not see what earlier ones left, and the warning is
 * passed on.
 *
 * A start that needs an approval is answered when a person has decided or the time is up. onDisconnect is `keep`,
 * because the processes must survive this program for a client that resumes.
 */

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/codex/codex_private.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

/* ---- launches ---- */

static void request_sandbox(struct codex_call *c);

static void send_start(struct codex_call *c);

/*
 * The thread's previous process has ended for the client, but the daemon has not finished it yet: retry in a new
 * thread.
 */
static bool retry_without_thread(struct codex_call *c, const json_t *error)
{
	const char *field = json_string_value(json_object_get(json_object_get(error, "data"), "field"));

	if (!field || strcmp(field, "threadId") != 0 || json_object_del(c->start, "threadId") < 0)
		return false;
	send_start(c);
	return true;
}

static void on_started(void *ctx, json_t *result, json_t *error)
{
	struct codex_call *c = ctx;
	const char *sandbox = json_get_string(result, "sandboxId");

	if (sandbox)
		strmap_put(&c->server->sandboxes, sandbox, c->server);
	c->warnings = json_incref(json_object_get(result, "warnings"));
	if (!error || !retry_without_thread(c, error))
		c->launched(c, result, error);
}

static void send_start(struct codex_call *c)
{
	gateway_session_start(c->server->session, json_copy(c->start), c->trace[0] ? c->trace : NULL, on_started, c);
}

/*
 * The daemon rejects the working directory. A file method without a sandbox of its own does not depend on it: retry
 * without one.
 */
static bool retry_without_cwd(struct codex_call *c, const json_t *error)
{
	const char *field = json_string_value(json_object_get(json_object_get(error, "data"), "field"));

	if (c->intent.given || !c->row || !c->cwd || c->unplaced || !field || strcmp(field, "cwd") != 0)
		return false;
	c->unplaced = true;
	free(mem_take(&c->cwd));
	request_sandbox(c);
	return true;
}

static json_t *sandbox_params(const struct codex_call *c)
{
	const char *workspace = sandbox_intent_workspace(&c->intent, c->cwd);
	json_t *sandbox = json_object(), *place = json_pack("{s:o}", "sandbox", sandbox);

	if (c->server->o.profile)
		json_object_set_new(place, "profile", json_string(c->server->o.profile));
	if (c->cwd)
		json_object_set_new(place, "cwd", json_string(c->cwd));
	if (workspace)
		json_object_set_new(sandbox, "workspace", json_string(workspace));
	return place;
}

static void on_sandbox(void *ctx, json_t *result, json_t *error)
{
	struct codex_call *c = ctx;
	const json_t *profile = json_object_get(result, "sandboxProfile");
	struct err e = ERR_INIT;

	if (error) {
		if (!retry_without_cwd(c, error))
			c->launched(c, NULL, error);
		return;
	}
	json_auto_t *place = sandbox_params(c);
	json_t *sandbox = json_object_get(place, "sandbox");
	c->confined = json_get_flag(result, "confined");
	/* Never run with less isolation than was requested. */
	if (!c->confined && (c->intent.restricted || !c->intent.network))
		return codex_call_fail(c, RPC_INVALID_REQUEST, "profile %s is not a sandbox, and one is requested",
				       c->server->o.profile);
	if (c->confined && sandbox_intent_narrow(&c->intent, profile, sandbox, &e) < 0)
		return codex_call_reject(c, &e);
	if (!c->confined)
		json_object_del(place, "sandbox");
	/* Proxy variables inherited from the client would override those that the sandbox sets for its own proxy. */
	static const char *const names[] = { "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy",
					     "ALL_PROXY",  "all_proxy",  "NO_PROXY",    "no_proxy" };
	const char *network = json_get_string(profile, "network");
	for (size_t i = 0; network && strcmp(network, "allow") == 0 && i < countof(names); i++)
		json_object_del(json_object_get(c->start, "env"), names[i]);
	json_object_update(c->start, place);
	/* A file method without a sandbox may be about any directory: it must not be the first to create one for it. */
	if (c->confined && (!c->row || c->intent.given))
		json_object_set_new(c->start, "sandboxId", json_string("session"));
	send_start(c);
}

static void request_sandbox(struct codex_call *c)
{
	gateway_session_query(c->server->session, "get_sandbox", sandbox_params(c), on_sandbox, c);
}

/* Codex's own proxy is not available here. A command that requires it gets no network. */
static bool wants_proxy(const json_t *params)
{
	static const char *const members[] = { "managedNetwork", "networkProxy" };
	bool wanted = json_get_flag(params, "enforceManagedNetwork");

	for (size_t i = 0; i < countof(members); i++) {
		const json_t *v = json_object_get(params, members[i]);

		wanted |= v && !json_is_null(v);
	}
	return wanted;
}

void codex_launch(struct codex_call *c, const json_t *sandbox,
		  void (*launched)(struct codex_call *c, json_t *result, json_t *error))
{
	struct err e = ERR_INIT;

	/*
	 * A file's directory is only the working directory of the method, not a project root: it could be any
	 * directory.
	 */
	if (sandbox_intent_of(sandbox, c->row ? NULL : c->cwd, &c->intent, &e) < 0)
		return codex_call_reject(c, &e);
	if (wants_proxy(c->params))
		c->intent.network = false;
	if (!c->cwd && c->intent.cwd)
		c->cwd = mem_strdup(c->intent.cwd);
	c->launched = launched;
	request_sandbox(c);
}

#define NAME_BYTES_MAX 512u
#define ARGUMENTS_MAX 32768u
#define ROWS 24
#define COLS 80

/* ---- response ---- */

/* Approval timed out: the process must not start later, so it is terminated. */
static void on_unanswered(struct codex_call *c)
{
	struct codex_process *p = c->process;

	gateway_session_terminate(c->server->session, p->id, "approval timed out");
	codex_call_fail(c, RPC_INVALID_REQUEST,
			"bailiff's policy asks an operator about this, and action %s was not answered within %llu s; "
			"`bailiff pending` shows what is asked, and the command can be tried again",
			c->action, (unsigned long long)(c->server->o.approval_ms / 1000));
}

static void on_launched(struct codex_call *c, json_t *result, json_t *error)
{
	struct codex_process *p = c->process;
	const char *id = json_get_string(result, "processId"), *status = json_get_string(result, "status");
	const char *action = json_get_string(result, "actionId");

	if (error) /* later events of it must not be attributed to a new process with the same name */
		id = json_string_value(json_object_get(json_object_get(error, "data"), "processId"));
	codex_process_bind(p, id ? id : "");
	if (error)
		return codex_call_fail_daemon(c, error);
	/* If it waits for approval, events decide the response (codex_process.c). */
	c->asked = status && strcmp(status, "waiting_permission") == 0;
	if (c->asked)
		codex_call_park(c);
	if (p->unwanted) {
		bool answered = c->asked;
		codex_process_end(p);
		if (answered)
			return;
	}
	/* The reply may overtake the event, and the client may write as soon as it has an answer. */
	if (!c->asked && !p->started) {
		p->tty = json_get_flag(c->params, "tty");
		p->stdin_open = p->tty || json_get_flag(c->params, "pipeStdin");
	}
	if (!c->asked)
		return codex_process_started(p);
	(void)snprintf(c->action, sizeof(c->action), "%s", action ? action : "");
	codex_call_time(c, c->server->o.approval_ms, on_unanswered);
}

/* ---- request ---- */

static const char *first_word(const json_t *argv)
{
	const char *s = json_string_value(json_array_get(argv, 0));

	return s ? s : "";
}

/* False: the call has failed. */
static bool read_command(struct codex_call *c, json_t *start)
{
	const json_t *argv = json_object_get(c->params, "argv"), *arg0 = json_object_get(c->params, "arg0");
	size_t n = json_array_size(argv);
	json_t *command = json_array();

	json_object_set_new(start, "command", command);
	if (!argv) {
		codex_call_fail(c, RPC_INVALID_PARAMS, "missing field `argv`");
		return false;
	}
	if (!json_is_array(argv) || !n || n > ARGUMENTS_MAX) {
		codex_call_fail(c, RPC_INVALID_PARAMS, "argv must %s", n ? "be an array of strings" : "not be empty");
		return false;
	}
	if (arg0 && !json_is_null(arg0) &&
	    (!json_is_string(arg0) || strlen(json_string_value(arg0)) != json_string_length(arg0))) {
		codex_call_fail(c, RPC_INVALID_PARAMS, "arg0 must be a string without NUL, or null");
		return false;
	}
	/* start_process cannot set argv[0] independently of the program, so bash does. */
	if (json_is_string(arg0) && strcmp(json_string_value(arg0), first_word(argv)) != 0) {
		static const char *const wrap[] = { "/bin/bash", "-c", "exec -a \"$0\" -- \"$@\"" };

		for (size_t i = 0; i < countof(wrap); i++)
			json_array_append_new(command, json_string(wrap[i]));
		json_array_append(command, (json_t *)arg0);
	}
	for (size_t i = 0; i < n; i++) {
		json_t *v = json_array_get(argv, i);

		if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v)) {
			codex_call_fail(c, RPC_INVALID_PARAMS, "argv[%zu] must be a string without NUL", i);
			return false;
		}
		json_array_append(command, v);
	}
	return true;
}

static bool read_environment(struct codex_call *c, json_t *start)
{
	struct err e = ERR_INIT;
	json_t *env;

	if (!json_object_get(c->params, "env")) {
		codex_call_fail(c, RPC_INVALID_PARAMS, "missing field `env`");
		return false;
	}
	if (environment_of(json_object_get(c->params, "envPolicy"), json_object_get(c->params, "env"), environ, &env,
			   &e) < 0) {
		codex_call_reject(c, &e);
		return false;
	}
	json_object_set_new(start, "env", env);
	return true;
}

void codex_process_start(struct codex_call *c)
{
	const char *name = codex_call_str(c, "processId");
	char cwd[PATH_MAX];

	if (!name)
		return;
	const json_t *tty = json_object_get(c->params, "tty");
	if (!*name || strlen(name) > NAME_BYTES_MAX)
		return codex_call_fail(c, RPC_INVALID_PARAMS, "processId must have 1 to %u bytes", NAME_BYTES_MAX);
	json_t *start = c->start = json_pack("{ss}", "onDisconnect", "keep");
	if (!read_command(c, start) || !codex_call_path(c, "cwd", cwd) || !read_environment(c, start))
		return;
	if (!json_is_boolean(tty))
		return codex_call_fail(c, RPC_INVALID_PARAMS,
				       tty ? "tty must be true or false" : "missing field `tty`");
	if (strmap_get(&c->server->by_name, name))
		return codex_call_fail(c, RPC_INVALID_REQUEST, "process %s already exists", name);
	if (json_is_true(tty))
		json_object_set_new(start, "tty", json_pack("{si si}", "rows", ROWS, "cols", COLS));
	else
		json_object_set_new(start, "stdin",
				    json_string(json_get_flag(c->params, "pipeStdin") ? "pipe" : "none"));
	codex_process_add_waiter(codex_process_new(c->server, name), c);
	/* From here on freeing the call also frees the name. */
	c->process->start = c;
	/* Sets the ids that relate the process to the client's thread and tool call. */
	const json_t *metadata = json_object_get(c->params, "metadata");
	const char *thread = json_get_string(metadata, "threadId"), *call = json_get_string(metadata, "toolCallId");
	const char *ours = codex_process_idle_thread(c->server, thread);
	buf_auto struct buf why = BUF_INIT;
	codex_process_justify(metadata, name, &why);
	json_object_set_new(start, "justification", rpc_message_text(buf_cstr(&why), why.len));
	if (ours) {
		json_object_set_new(start, "threadId", json_string(ours));
		(void)snprintf(c->process->thread, sizeof(c->process->thread), "%s", ours);
	}
	if (call && codex_process_word(call))
		json_object_set_new(start, "toolCallId", json_string(call));
	c->cwd = mem_strdup(cwd);
	codex_launch(c, json_object_get(c->params, "sandbox"), on_launched);
}
