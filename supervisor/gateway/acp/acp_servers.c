/*
 * MCP servers that the editor configures (mcpServers of session/new, load and resume). The daemon runs them for this
 * session, in the sandboxes of its turns (runtime/engine/call/mcp_session.h); they get no right that the model's own
 * commands have not, so nobody has to approve them. The values of their variables, which are often keys, are in no
 * event.
 *
 * A server with a URL would open the sandbox for its host, and a workspace can bring its own configuration of an editor
 * with it. So those are left to an operator: the first answer says how to register one.
 */

#include "supervisor/gateway/acp/acp_private.h"

#include "policy/command_text.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/loop/loop.h"

#include <event2/event.h>
#include <string.h>

#define NAME_MAX_BYTES 32u
#define PATIENCE_S 30 /* a prompt waits for the servers at most that long */

static void add_next(struct acp_session *s);

static const json_t *current(const struct acp_session *s) { return json_array_get(s->servers, s->next_server); }

bool acp_servers_waiting(const struct acp_session *s) { return s->server_timer; }

/* The name of the daemon's rules: other characters become '-', without "__" and '_' at the ends. */
static char *daemon_name(const char *given)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
	char *name = mem_zalloc(NAME_MAX_BYTES + 1, 1);
	size_t n = 0;

	for (const char *c = given; *c && n < NAME_MAX_BYTES; c++)
		if (*c != '_' || (n && name[n - 1] != '_'))
			name[n++] = strchr(allowed, *c) ? *c : '-';
	while (n && name[n - 1] == '_')
		name[--n] = '\0';
	return name;
}

/* Adds a line to what precedes the next answer. */
static void add_notice(struct acp_session *s, const json_t *server, const char *why)
{
	buf_auto struct buf raw = BUF_INIT, shown = BUF_INIT;
	const char *url = json_get_string(server, "url");

	buf_printf(&raw, "MCP server %.100s of the editor is not connected: %.400s", json_get_text(server, "name"),
		   why);
	if (url) {
		mem_auto char *name = daemon_name(json_get_text(server, "name"));

		buf_printf(&raw, ". To let all sessions use it, run: bailiff mcp-server add %s --url ", name);
		command_quote(url, strlen(url), &raw);
		if (json_array_size(json_object_get(server, "headers")))
			buf_str(&raw, " --key-file FILE");
	}
	text_sanitize(raw.data, raw.len, &shown);
	mem_auto char *notice = mem_printf("%s*(%s)*\n\n", s->notice ? json_string_value(s->notice) : "",
					   buf_cstr(&shown));
	json_decref(s->notice);
	s->notice = json_string(notice);
}

static void finish(struct acp_session *s)
{
	if (s->server_timer)
		event_free(mem_take(&s->server_timer));
	s->ops->servers_known(s);
}

static void on_added(void *ctx, json_t *result, json_t *error)
{
	struct acp_session *s = ctx;
	const json_t *data = json_object_get(error, "data");

	/* One that is registered for all sessions is available in this one. */
	if (error &&
	    !(json_text_is(data, "field", "name") && json_integer_value(json_object_get(error, "code")) == -32009))
		add_notice(s, current(s), json_get_text(error, "message"));
	s->next_server++;
	add_next(s);
}

/* The editor's list of {name, value} as an object. */
static json_t *variables(const json_t *list)
{
	json_t *env = json_object();
	const json_t *v;
	size_t i;

	json_array_foreach (list, i, v)
		if (json_get_string(v, "name") && json_get_string(v, "value"))
			json_object_set(env, json_get_text(v, "name"), json_object_get(v, "value"));
	return env;
}

static void add_command(struct acp_session *s, const json_t *server)
{
	mem_auto char *name = daemon_name(json_get_text(server, "name"));
	json_t *command = json_pack("[O]", json_object_get(server, "command")), *params;

	json_array_extend(command, json_object_get(server, "args"));
	params = json_pack("{ss ss so so ss sb}", "name", name, "sessionId", s->id, "command", command, "env",
			   variables(json_object_get(server, "env")), "cwd", s->cwd, "replace", 1);
	if (s->server->o.profile)
		json_object_set_new(params, "profile", json_string(s->server->o.profile));
	gateway_session_mutate(s->up, "add_mcp_server", params, NULL, on_added, s);
}

static void add_next(struct acp_session *s)
{
	const json_t *server;

	while (gateway_session_ready(s->up) && (server = current(s))) {
		if (json_get_string(server, "command"))
			return add_command(s, server);
		add_notice(s, server,
			   json_get_string(server, "url") ? "it would open the sandbox for its host"
							  : "it has no command");
		s->next_server++;
	}
	s->adding_servers = false; /* of a lost connection: they are added when it is back */
	if (!s->add_servers_again)
		return finish(s);
	s->add_servers_again = false;
	acp_servers_connect(s);
}

static void on_timeout(evutil_socket_t fd, short what, void *ctx)
{
	struct acp_session *s = ctx;

	add_notice(s, current(s), "it is still being started, or waits for an approval; its tools are available later");
	finish(s);
}

/* ---- what the editor sent ---- */

static bool all_strings(const json_t *list)
{
	const json_t *v;
	size_t i;

	json_array_foreach (list, i, v)
		if (!json_is_string(v))
			return false;
	return true;
}

static bool all_variables(const json_t *list)
{
	const json_t *v;
	size_t i;

	json_array_foreach (list, i, v)
		if (!json_get_string(v, "name") || !json_get_string(v, "value"))
			return false;
	return true;
}

static bool absent(const json_t *v) { return !v || json_is_null(v); }

/*
 * Only those on stdio are checked. Clients send others in spite of mcpCapabilities; they would have no session at all
 * if that were an error, so the first answer has a note for each (add_notice).
 */
static int check_server(const json_t *server, size_t i, struct err *e)
{
	const json_t *args = json_object_get(server, "args"), *env = json_object_get(server, "env");
	const char *type = json_get_string(server, "type"), *wrong = NULL;

	if (!json_get_text(server, "name")[0])
		wrong = "name: must be a string";
	else if ((type && strcmp(type, "stdio") != 0) || json_get_string(server, "url"))
		return 0;
	else if (!json_get_text(server, "command")[0])
		wrong = "command: must be the path of a program";
	else if (!absent(args) && !(json_is_array(args) && all_strings(args)))
		wrong = "args: must be an array of strings";
	else if (!absent(env) && !(json_is_array(env) && all_variables(env)))
		wrong = "env: must be an array of objects with name and value";
	return wrong ? err_set(e, ERR_INVALID, "mcpServers[%zu].%s", i, wrong) : 0;
}

int acp_servers_check(const json_t *servers, struct err *e)
{
	const json_t *server;
	size_t i;

	if (!absent(servers) && !json_is_array(servers))
		return err_set(e, ERR_INVALID, "mcpServers: must be an array");
	json_array_foreach (servers, i, server)
		if (check_server(server, i, e) < 0)
			return -1;
	return 0;
}

void acp_servers_connect(struct acp_session *s)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };

	if (!json_array_size(s->servers))
		return;
	if (s->adding_servers) { /* those that were added before belonged to the old connection */
		s->add_servers_again = true;
		return;
	}
	s->next_server = 0;
	s->adding_servers = true;
	if (!s->server_timer)
		s->server_timer = evtimer_new(s->server->base, on_timeout, s);
	loop_add(s->server_timer, &patience);
	add_next(s);
}

void acp_servers_done(struct acp_session *s)
{
	if (s->server_timer)
		event_free(mem_take(&s->server_timer));
	json_decref(mem_take(&s->servers));
}
