#include "supervisor/gateway/codex/codex_private.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"

#include <string.h>

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

	if (!error || !retry_without_thread(c, error))
		c->launched(c, result, error);
}

static void send_start(struct codex_call *c)
{
	gateway_session_start(c->server->session, json_copy(c->start), c->trace[0] ? c->trace : NULL, on_started, c);
}

/* Proxy variables inherited from the client would override those that the sandbox sets for its own proxy. */
static void drop_proxy_variables(const json_t *profile, json_t *env)
{
	static const char *const names[] = { "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy",
					     "ALL_PROXY",  "all_proxy",  "NO_PROXY",    "no_proxy" };
	const char *network = json_get_string(profile, "network");

	for (size_t i = 0; network && strcmp(network, "allow") == 0 && i < countof(names); i++)
		json_object_del(env, names[i]);
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
	if (!c->confined && (c->intent.restricted || !c->intent.network)) {
		codex_call_fail(c, RPC_INVALID_REQUEST, "profile %s is no sandbox, and one is asked for",
				c->server->o.profile);
		return;
	}
	if (c->confined && sandbox_intent_narrow(&c->intent, profile, sandbox, &e) < 0) {
		codex_call_refuse(c, &e);
		return;
	}
	if (!c->confined)
		json_object_del(place, "sandbox");
	drop_proxy_variables(profile, json_object_get(c->start, "env"));
	json_object_update(c->start, place);
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
	if (sandbox_intent_of(sandbox, c->row ? NULL : c->cwd, &c->intent, &e) < 0) {
		codex_call_refuse(c, &e);
		return;
	}
	if (wants_proxy(c->params))
		c->intent.network = false;
	if (!c->cwd && c->intent.cwd)
		c->cwd = mem_strdup(c->intent.cwd);
	c->launched = launched;
	request_sandbox(c);
}
