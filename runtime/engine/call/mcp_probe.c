/*
 * add_mcp_server and test_mcp_server: what is registered is checked, the server is started in a sandbox and asked for
 * its tools, and those that can be called are stored.
 */

#include "runtime/engine/call/mcp_server.h"

#include "runtime/base/json_get.h"
#include "runtime/base/json_schema.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/call/mcp_session.h"
#include "runtime/engine/core/registry.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/tool/tool.h"

#define NAME_MAX_BYTES 32u
#define COMMAND_BYTES 8192u
#define ENV_MAX 64u
#define ENV_FILES_MAX MCP_SERVER_ENV_FILES_MAX
#define TOOLS_BYTES (40u << 10) /* as JSON: all of it is in one event */
#define DESCRIPTION_MAX 4096u
#define LEFT_OUT_MAX 32u
#define WALL_MS 60000u /* bailiff-tool ends earlier */
#define ANSWER_MAX (2u << 20)

/* A server that is being asked for its tools, by the id of its process. */
struct probe {
	struct pending_reply reply;
	struct requester by;
	char name[ID_SIZE], session_id[ID_SIZE]; /* "" = of all sessions of the uid */
	uint64_t connection;
	json_t *settings, *answer;
	bool replace, test;
	struct err e; /* why there is no answer */
};

void mcp_server_init(struct engine *engine) { engine->mcp_servers = mem_zalloc(1, sizeof *engine->mcp_servers); }

static void probe_free(struct probe *p)
{
	reply_done(&p->reply);
	json_decref(p->settings);
	json_decref(p->answer);
	free(p);
}

static void free_entry(void *ctx, const char *key, void *value) { probe_free(value); }

void mcp_server_done(struct engine *engine)
{
	strmap_each(&engine->mcp_servers->probes, free_entry, NULL);
	strmap_done(&engine->mcp_servers->probes);
	mcp_session_done(engine);
	free(engine->mcp_servers);
}

/* ---- what a server lists ---- */

static bool name_fits(const char *name)
{
	return *name && !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")];
}

static json_t *cut_text(const char *s, size_t most)
{
	const size_t n = strlen(s);

	return json_stringn(s, n > most ? text_utf8_cut(s, most) : n);
}

/* The tool as it is stored, or NULL and the reason why it cannot be called. New reference. */
static json_t *accept_tool(struct engine *engine, const struct probe *p, const json_t *v, const json_t *accepted,
			   const char **why)
{
	const char *name = json_get_text(v, "name");
	const json_t *schema = json_object_get(v, "inputSchema"), *other;
	mem_auto char *whole = mem_printf(TOOL_MCP_PREFIX "%s__%s", p->name, name);
	struct err ignored = ERR_INIT;
	size_t i;

	*why = NULL;
	if (!name_fits(name))
		*why = "its name has characters other than A-Z a-z 0-9 _ -";
	else if (strlen(whole) > TOOL_NAME_MAX)
		*why = "its name with that of the server has more than 64 bytes";
	else if (tool_is_registered(engine, whole, p->by.uid))
		*why = "a client has registered a tool of this name";
	else if (schema && (!json_text_is(schema, "type", "object") || json_schema_verify(schema, NULL, &ignored) < 0))
		*why = "its input schema is not a valid schema of an object";
	json_array_foreach (accepted, i, other)
		if (json_text_is(other, "name", name))
			*why = "the server lists this name twice";
	if (*why)
		return NULL;
	json_t *ret = json_object();
	json_object_set_new(ret, "name", json_string(name));
	json_object_set_new(ret, "description", cut_text(json_get_text(v, "description"), DESCRIPTION_MAX));
	if (schema)
		json_object_set_new(ret, "inputSchema", json_deep_copy(schema));
	else
		json_object_set_new(ret, "inputSchema", json_pack("{s:s}", "type", "object"));
	return ret;
}

/* Both lists are bounded; a tool that does not fit is in the second one. New references. */
static json_t *accept_tools(struct engine *engine, const struct probe *p, json_t **ret_left_out)
{
	json_t *accepted = json_array(), *left_out = json_array();
	const json_t *v;
	size_t i, bytes = 0;

	json_array_foreach (json_object_get(p->answer, "tools"), i, v) {
		const char *why;
		json_t *t = accept_tool(engine, p, v, accepted, &why);

		if (t) {
			mem_auto char *text = json_dumps(t, JSON_COMPACT);

			bytes += strlen(text) + 1;
			if (bytes <= TOOLS_BYTES) {
				json_array_append_new(accepted, t);
				continue;
			}
			bytes -= strlen(text) + 1;
			json_decref(t);
			why = "the server's tools have more than 40 KiB of descriptions and schemas";
		}
		if (json_array_size(left_out) < LEFT_OUT_MAX)
			json_array_append_new(
				left_out,
				json_pack("{s:o,s:s}", "name", cut_text(json_get_text(v, "name"), 64), "reason", why));
	}
	*ret_left_out = left_out;
	return accepted;
}

/* ---- add_mcp_server, test_mcp_server ---- */

static int check_command(const json_t *command, struct err *e)
{
	const json_t *word;
	size_t i, bytes = 0;

	if (!json_array_size(command) || !json_string_length(json_array_get(command, 0)))
		return err_field(e, "command", "missing: give the program of the server and its arguments");
	if (json_array_size(command) > MCP_SERVER_ARGS_MAX)
		return err_field(e, "command", "has %zu texts; at most %u are possible", json_array_size(command),
				 MCP_SERVER_ARGS_MAX);
	json_array_foreach (command, i, word)
		bytes += json_string_length(word) + 1;
	if (bytes > COMMAND_BYTES)
		return err_field(e, "command", "has %zu bytes; at most %u are possible", bytes, COMMAND_BYTES);
	return 0;
}

static int check_name(const char *name, struct err *e)
{
	const size_t n = strlen(name);

	if (!name_fits(name) || n > NAME_MAX_BYTES || strstr(name, "__") || name[0] == '_' || name[n - 1] == '_')
		return err_field(e, "name",
				 "must be 1 to %u of A-Z a-z 0-9 _ -, without __ and without _ at either end",
				 NAME_MAX_BYTES);
	return 0;
}

/* Whether the name is free, or may be replaced. Checked again when the server has answered. */
static int check_free(struct engine *engine, uint32_t uid, const char *name, bool replace, struct err *e)
{
	view_ids_auto struct view_ids names = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct mcp_server_doc d;
	int r = registry_read(engine, &mcp_server_schema, uid, name, &text, &d, e);

	if (r < 0)
		return -1;
	if (r == 0 && !replace)
		return err_at(e, ERR_CONFLICT, "name",
			      "MCP server '%.64s' is registered: remove it first, or give replace", name);
	if (registry_names(engine, VIEW_MCP_SERVER, uid, MCP_SERVERS_MAX, &names, e) < 0)
		return -1;
	if (r > 0 && names.n >= MCP_SERVERS_MAX)
		return err_set(e, ERR_EXHAUSTED, "%u MCP servers are registered, which is the limit: remove one",
			       MCP_SERVERS_MAX);
	return 0;
}

/* Values are stored and shown (unless `hidden`); secrets are in files. */
static int take_env(const json_t *env, const json_t *files, bool hidden, json_t *settings, struct err *e)
{
	const char *name;
	json_t *v;
	size_t bytes = 0;

	if (json_object_size(env) > ENV_MAX || json_object_size(files) > ENV_FILES_MAX)
		return err_field(e, json_object_size(env) > ENV_MAX ? "env" : "envFiles",
				 "has too many variables; at most %u, and %u from files, are possible", ENV_MAX,
				 ENV_FILES_MAX);
	json_object_foreach ((json_t *)(uintptr_t)env, name, v) {
		mem_auto char *field = mem_printf("env.%.48s", name);

		bytes += strlen(name) + json_string_length(v) + 2;
		if (!json_is_string(v))
			return err_field(e, field, "must be a string");
		if (!hidden && registry_contains_key(json_string_value(v)))
			return err_field(e, field,
					 "contains a key: values are stored and shown; put it in a file with mode 0600 "
					 "and give that in envFiles");
	}
	if (bytes > COMMAND_BYTES)
		return err_field(e, "env", "has %zu bytes; at most %u are possible", bytes, COMMAND_BYTES);
	json_auto_t *paths = json_object();
	json_object_foreach ((json_t *)(uintptr_t)files, name, v) {
		mem_auto char *field = mem_printf("envFiles.%.48s", name), *path = NULL;

		if (!json_is_string(v) || strchr(name, '='))
			return err_field(e, field, "must be the name of a variable and the path of a file");
		if (registry_file(field, json_string_value(v), "the value", &path, e) < 0)
			return -1;
		json_object_set_new(paths, name, json_string(path));
	}
	if (json_object_size(env))
		json_object_set_new(settings, "env", json_deep_copy(env));
	if (json_object_size(paths))
		json_object_set(settings, "envFiles", paths);
	return 0;
}

static int take_url(const struct mcp_registration *r, json_t *settings, struct err *e)
{
	mem_auto char *url = NULL, *host = NULL, *key = NULL, *authorities = NULL;

	if (json_array_size(r->command))
		return err_field(e, "url", "give either a command or url");
	if (json_object_size(r->env) || json_object_size(r->env_files))
		return err_field(e, json_object_size(r->env) ? "env" : "envFiles",
				 "is for servers that are started as a command; give keyFile for a server with a URL");
	if (registry_url("url", r->url, r->insecure, &url, &host, e) < 0 ||
	    registry_file("keyFile", r->key_file, "the key", &key, e) < 0 ||
	    registry_file("caFile", r->ca_file, "certificates", &authorities, e) < 0)
		return -1;
	json_object_set_new(settings, "url", json_string(url));
	if (key)
		json_object_set_new(settings, "keyFile", json_string(key));
	if (authorities)
		json_object_set_new(settings, "caFile", json_string(authorities));
	return 0;
}

/* Those of a session get no right that its turns have not. A call has a sandbox of its own, so nothing keeps running.
 */
static int check_of_session(struct engine *engine, const struct mcp_registration *r, uint32_t uid, struct err *e)
{
	const struct {
		const char *field;
		bool given;
	} fields[] = { { "url", r->url },
		       { "keyFile", r->key_file },
		       { "caFile", r->ca_file },
		       { "envFiles", json_object_size(r->env_files) },
		       { "stateful", r->stateful } };
	buf_auto struct buf text = BUF_INIT;
	struct mcp_server_doc d;

	for (size_t i = 0; i < countof(fields); i++)
		if (fields[i].given)
			return err_field(e, fields[i].field,
					 "is not possible with sessionId: an operator can register such a server for "
					 "all sessions");
	int found = registry_read(engine, &mcp_server_schema, uid, r->name, &text, &d, e);
	if (found < 0)
		return -1;
	if (found == 0)
		return err_at(e, ERR_CONFLICT, "name", "MCP server '%.64s' is registered for all sessions", r->name);
	if (!mcp_session_find(engine, uid, r->session_id, r->name))
		return mcp_session_count(engine, uid) < MCP_SESSION_SERVERS_MAX
			       ? 0
			       : err_set(e, ERR_EXHAUSTED, "%u MCP servers of sessions are added, which is the limit",
					 MCP_SESSION_SERVERS_MAX);
	return r->replace ? 0
			  : err_at(e, ERR_CONFLICT, "name",
				   "the session has an MCP server '%.64s': remove it first, or give replace", r->name);
}

/* What is registered, or with `test` what is stored. New reference in *ret. */
static int take_settings(struct engine *engine, const struct mcp_registration *r, uint32_t uid, json_t **ret,
			 struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	json_auto_t *settings = json_object();
	struct mcp_server_doc d;

	if (check_name(r->name, e) < 0)
		return -1;
	if (r->test) {
		if (mcp_server_find(engine, uid, r->name, &text, &d, e) < 0)
			return -1;
		*ret = mcp_server_settings(&d);
		return 0;
	}
	if (!r->url && (r->key_file || r->ca_file))
		return err_field(e, r->key_file ? "keyFile" : "caFile", "is for servers with a URL; give envFiles");
	if ((r->url ? take_url(r, settings, e) : check_command(r->command, e)) < 0 ||
	    take_env(r->env, r->env_files, r->session_id != NULL, settings, e) < 0 ||
	    (r->session_id ? check_of_session(engine, r, uid, e) : check_free(engine, uid, r->name, r->replace, e)) < 0)
		return -1;
	if (!r->url)
		json_object_set_new(settings, "command", json_deep_copy(r->command));
	if (r->stateful)
		json_object_set_new(settings, "stateful", json_true());
	*ret = json_incref(settings);
	return 0;
}

static void authorise_files(struct engine *engine, const struct caller *c, const json_t *settings)
{
	const char *files[ENV_FILES_MAX + 2] = { json_string_value(json_object_get(settings, "keyFile")),
						 json_string_value(json_object_get(settings, "caFile")) },
					  *name;
	size_t n = 2;
	json_t *v;

	json_object_foreach (json_object_get(settings, "envFiles"), name, v)
		if (n < countof(files))
			files[n++] = json_string_value(v);
	registry_authorise(engine, c, files, n);
}

/* Starts `bailiff-tool mcp list`; rules for mcp__NAME apply to it as to the calls. */
static void start_probe(struct engine *engine, const struct mcp_registration *r, struct probe *p, const char *id)
{
	json_auto_t *where = json_pack("{s:s,s:s*,s:s*}", "commandLine", "mcp", "cwd", r->cwd, "profile", r->profile);
	mem_auto char *tool = mem_printf(TOOL_MCP_PREFIX "%s", p->name);
	const struct requester by = p->by;
	struct start_spec spec;
	struct err e = ERR_INIT;
	char started[ID_TEXT_MAX];
	bool ignored;

	if (mcp_server_sandbox(engine, p->settings, where, &ignored, &e) < 0 ||
	    start_spec_of(engine, where, &spec, &e) < 0) {
		strmap_del(&engine->mcp_servers->probes, id);
		reply_err(&p->reply, &e, NULL, 0);
		probe_free(p);
		return;
	}
	json_auto_t *words = mcp_server_argv(engine, p->settings, NULL, NULL);
	mem_auto char *command = p->session_id[0] ? mcp_server_text(p->settings) : NULL;
	const char *argv[MCP_SERVER_ARGV_MAX];
	struct start_request *s = &spec.request;
	s->command_line = NULL;
	s->argv = argv;
	s->argc = mcp_server_strv(words, argv);
	s->stdin_pipe = true;
	s->stdin_text = "{}";
	s->tool = tool;
	s->tool_command = command;
	s->process_id = id;
	s->end_with_client = false;
	s->sandbox.own_program = engine->o.tool_program;
	s->limits.wall_ms = WALL_MS;
	s->limits.output_bytes = ANSWER_MAX;
	process_start_owned(engine, s, &by, OWNER_MCP_SERVER, id, started);
	start_spec_done(&spec);
}

void engine_add_mcp_server(struct engine *engine, const struct mcp_registration *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	json_t *settings = NULL;
	char id[ID_TEXT_MAX];

	if (r->session_id && !c->connection)
		err_set(&e, ERR_UNAVAILABLE, "servers of a session belong to a connection, and this request has none");
	if (e.code || mcp_server_authority(c, r->session_id, &e) < 0)
		return fn(ctx, &e, NULL, 0);
	if (take_settings(engine, r, c->uid, &settings, &e) < 0)
		return fn(ctx, &e, NULL, 0);
	authorise_files(engine, c, settings);
	struct probe *p = mem_zalloc(1, sizeof *p);
	p->by = requester_of(c);
	p->settings = settings;
	p->replace = r->replace;
	p->test = r->test;
	p->connection = c->connection;
	id_copy(p->session_id, r->session_id ? r->session_id : "");
	id_copy(p->name, r->name);
	reply_copy(&p->reply, c, fn, ctx);
	id_make(ID_KIND_PROCESS, id);
	strmap_put(&engine->mcp_servers->probes, id, p);
	start_probe(engine, r, p, id);
}

static void record_tools(struct engine *engine, struct probe *p, const json_t *tools, struct transaction *tx)
{
	struct mcp_session_server s = { .by = p->by, .connection = p->connection, .settings = p->settings };

	if (p->session_id[0]) {
		id_copy(s.name, p->name);
		id_copy(s.session_id, p->session_id);
		mcp_session_add(engine, &s, tools, tx);
		return;
	}
	tool_set_mcp(engine, p->by.uid, "", p->name, tools);
	tool_update_catalogs(engine, p->by.uid, NULL, tx);
}

/* The reply and, unless it is a test, the fact. */
static void finish_probe(struct engine *engine, struct probe *p)
{
	buf_auto struct buf text = BUF_INIT;
	struct mcp_server_doc d = { 0 };
	json_t *left_out;
	json_auto_t *tools = accept_tools(engine, p, &left_out);
	const json_t *info = json_object_get(p->answer, "server"), *t;
	json_auto_t *server = json_pack("{s:o,s:o}", "name", cut_text(json_get_text(info, "name"), 100), "version",
					cut_text(json_get_text(info, "version"), 100));
	struct err e = ERR_INIT;
	size_t i;

	const bool registers = !p->test && !p->session_id[0];
	if (p->session_id[0] && !p->connection)
		err_set(&e, ERR_UNAVAILABLE, "the client has disconnected");
	if (e.code || (p->test && mcp_server_find(engine, p->by.uid, p->name, &text, &d, &e) < 0) ||
	    (registers && check_free(engine, p->by.uid, p->name, p->replace, &e) < 0)) {
		json_decref(left_out);
		return reply_err(&p->reply, &e, NULL, 0);
	}
	json_auto_t *stored = d.tools.len ? json_loadb(d.tools.text, d.tools.len, 0, NULL) : NULL;
	struct transaction *tx = transaction_new_internal(engine);
	mem_auto char *request_id = mem_strdup(p->reply.request_id), *words = json_dumps(server, JSON_COMPACT),
		      *missing = json_dumps(left_out, JSON_COMPACT);
	transaction_give_reply(tx, &p->reply);
	jw_kstr(&tx->w, "name", p->name);
	jw_kraw(&tx->w, "serverInfo", words, strlen(words));
	jw_karr(&tx->w, "tools");
	json_array_foreach (tools, i, t)
		jw_str(&tx->w, json_get_text(t, "name"));
	jw_arr_end(&tx->w);
	if (json_array_size(left_out))
		jw_kraw(&tx->w, "leftOut", missing, strlen(missing));
	if (p->test) {
		jw_kbool(&tx->w, "changed", !json_equal(stored, tools));
	} else {
		EMIT(mcp_server_added, tx, registry_scope(engine, p->by.uid, request_id, NULL), .name = p->name,
		     .command = json_from_tree(json_object_get(p->settings, "command")),
		     .url = json_string_value(json_object_get(p->settings, "url")),
		     .keyFile = json_string_value(json_object_get(p->settings, "keyFile")),
		     .caFile = json_string_value(json_object_get(p->settings, "caFile")),
		     .sessionId = none_if_empty(p->session_id),
		     .env = registers ? json_from_tree(json_object_get(p->settings, "env")) : JSON_NONE,
		     .envFiles = json_from_tree(json_object_get(p->settings, "envFiles")),
		     .stateful = json_is_true(json_object_get(p->settings, "stateful")), .tools = json_from_tree(tools),
		     .leftOut = json_array_size(left_out) ? json_from_tree(left_out) : JSON_NONE,
		     .serverInfo = json_from_tree(server), .requestedBy = json_requester(&p->by));
		record_tools(engine, p, tools, tx);
	}
	json_decref(left_out);
	transaction_commit(tx);
}

/* A probe that has not ended will add nothing. */
static void probe_orphaned(void *connection, const char *id, void *value)
{
	struct probe *p = value;

	if (p->connection == *(uint64_t *)connection)
		p->connection = 0;
}

void mcp_server_client_disconnected(struct engine *engine, uint64_t connection)
{
	strmap_each(&engine->mcp_servers->probes, probe_orphaned, &connection);
	mcp_session_client_disconnected(engine, connection);
}

/* ---- the owner's callbacks (process_owner.h) ---- */

static void probe_refused(struct engine *engine, const char *id, const struct err *e, const char *data,
			  unsigned long len)
{
	struct probe *p = strmap_del(&engine->mcp_servers->probes, id);

	if (!p)
		return;
	reply_err(&p->reply, e, data, len);
	probe_free(p);
}

/* After a restart of the runtime nobody waits for the answer. */
static bool probe_wanted(struct engine *engine, const char *id, const char *process_id)
{
	return strmap_get(&engine->mcp_servers->probes, id) != NULL;
}

static void probe_ended(struct process *process, const struct process_outcome *o, struct transaction *tx)
{
	struct engine *engine = process->engine;
	struct probe *p = strmap_get(&engine->mcp_servers->probes, process->owner_id);
	const uint64_t size = process->streams[STREAM_STDOUT].size;
	buf_auto struct buf out = BUF_INIT;

	if (!p || p->answer)
		return;
	const size_t want = size < ANSWER_MAX ? (size_t)size : ANSWER_MAX;
	char *at = buf_reserve(&out, want + 1);
	ssize_t n = want ? engine->o.ports->peek_output(engine->o.host, process->id, STREAM_STDOUT, 0, at, want) : 0;
	p->answer = n > 0 ? json_loadb(at, (size_t)n, 0, NULL) : NULL;
	const char *message = json_get_text(json_object_get(p->answer, "error"), "message");
	if (!o->clean)
		err_set(&p->e, ERR_UNAVAILABLE, "the MCP server did not list its tools: %.300s",
			message[0] ? message : o->message);
	else if (!json_is_array(json_object_get(p->answer, "tools")))
		err_set(&p->e, ERR_UNAVAILABLE, "the MCP server did not list its tools: its answer is not valid");
}

static void probe_over(struct engine *engine, const char *id)
{
	struct probe *p = strmap_del(&engine->mcp_servers->probes, id);

	if (!p)
		return;
	if (p->e.code)
		reply_err(&p->reply, &p->e, NULL, 0);
	else
		finish_probe(engine, p);
	probe_free(p);
}

const struct process_owner_ops mcp_server_owner = {
	.refused = probe_refused,
	.wanted = probe_wanted,
	.ended = probe_ended,
	.over = probe_over,
};
