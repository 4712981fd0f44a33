#include "runtime/engine/call/mcp_server.h"

#include "policy/command_text.h"
#include "runtime/base/hash.h"
#include "runtime/base/json_get.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/call/mcp_session.h"
#include "runtime/engine/core/registry.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/tool/tool.h"
#include "runtime/view/view_write.h"

#include <inttypes.h>

/* ---- reading ---- */

int mcp_server_find(struct engine *engine, uint32_t uid, const char *name, struct buf *text, struct mcp_server_doc *ret,
		    struct err *e)
{
	int r = registry_read(engine, &mcp_server_schema, uid, name, text, ret, e);

	if (r <= 0)
		return r;
	return err_at(e, ERR_NOT_FOUND, "name",
		      "no MCP server '%.64s' is registered: see `bailiff mcp-server list`, or add it with "
		      "`bailiff mcp-server add`",
		      name);
}

static json_t *load_member(struct jval v) { return v.len ? json_loadb(v.text, v.len, 0, NULL) : NULL; }

/* The server's own name of the tool. */
static const char *mcp_tool_name(const char *tool)
{
	const char *end = strstr(tool + strlen(TOOL_MCP_PREFIX), "__");

	return end ? end + 2 : "";
}

json_t *mcp_server_settings(const struct mcp_server_doc *d)
{
	const struct {
		const char *name;
		struct jval value;
	} members[] = { { "command", d->command },   { "url", d->url },         { "env", d->env },
			{ "envFiles", d->envFiles }, { "keyFile", d->keyFile }, { "caFile", d->caFile },
			{ "stateful", d->stateful } };
	json_t *ret = json_object();

	for (size_t i = 0; i < countof(members); i++)
		if (members[i].value.len)
			json_object_set_new(
				ret, members[i].name,
				json_loadb(members[i].value.text, members[i].value.len, JSON_DECODE_ANY, NULL));
	return ret;
}

void mcp_server_recover(struct engine *engine)
{
	view_ids_auto struct view_ids one = VIEW_IDS_INIT;
	char key[VIEW_KEY_MAX] = "";
	struct err e = ERR_INIT;

	/* One by one: a list of ids would have the names without the uids. */
	for (;;) {
		const struct view_ids_query q = { .kind = VIEW_MCP_SERVER, .after = none_if_empty(key), .max = 1 };
		buf_auto struct buf text = BUF_INIT;
		struct mcp_server_doc d;
		char name[ID_SIZE];

		if (view_ids(engine->o.store, &q, &one, key, &e) < 0)
			log_error("read the MCP servers: %s", e.message);
		if (e.code || !one.n)
			return;
		if (view_read_speculative(engine->o.store, &mcp_server_schema, key, &text, &d, &e) != 0) {
			log_error("read the MCP server %s: %s", key, e.message);
			e = ERR_INIT;
			continue;
		}
		json_auto_t *tools = load_member(d.tools);
		jval_str(d.name, name, sizeof name);
		tool_set_mcp(engine, (uint32_t)d.uid, "", name, tools);
	}
}

/* ---- JSON ---- */

static void write_server(struct jw *w, const struct mcp_server_doc *d, bool brief)
{
	jw_kraw(w, "name", d->name.text, d->name.len);
	json_auto_t *settings = mcp_server_settings(d);
	const char *key;
	json_t *v;

	json_object_foreach (settings, key, v) {
		mem_auto char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);

		jw_kraw(w, key, text, strlen(text));
	}
	if (d->serverInfo.len)
		jw_kraw(w, "serverInfo", d->serverInfo.text, d->serverInfo.len);
	if (brief) {
		jw_karr(w, "tools");
		for (struct jiter it = jiter_on(d->tools); jiter_next(&it);) {
			struct jval name = jval_get(it.value, "name");

			jw_raw(w, name.text, name.len);
		}
		jw_arr_end(w);
	} else {
		jw_kraw(w, "tools", d->tools.text, d->tools.len);
	}
	if (d->leftOut.len)
		jw_kraw(w, "leftOut", d->leftOut.text, d->leftOut.len);
	view_write_time(w, "addedAt", d->addedAt);
}

int engine_list_mcp_servers(struct engine *engine, uint32_t uid, unsigned limit, const char *cursor, struct buf *out,
			    struct err *e)
{
	view_ids_auto struct view_ids names = VIEW_IDS_INIT;
	struct jw w = jw_on(out);
	const char *last = NULL;
	unsigned n = 0;

	if (limit < 1 || limit > 1000)
		return err_field(e, "limit", "must be 1 to 1000");
	if (registry_names(engine, VIEW_MCP_SERVER, uid, MCP_SERVERS_MAX, &names, e) < 0)
		return -1;
	jw_obj(&w);
	jw_karr(&w, "servers");
	for (size_t i = 0; i < names.n && n <= limit; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct mcp_server_doc d;

		/* The cursor is the name of the last one that was returned. */
		if ((cursor && strcmp(names.id[i], cursor) <= 0) ||
		    registry_read(engine, &mcp_server_schema, uid, names.id[i], &text, &d, e) != 0 || n++ == limit)
			continue;
		last = names.id[i];
		jw_obj(&w);
		write_server(&w, &d, true);
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	if (n > limit)
		jw_kstr(&w, "nextCursor", last);
	jw_obj_end(&w);
	return e->code ? -1 : 0;
}

int engine_get_mcp_server(struct engine *engine, uint32_t uid, const char *name, struct buf *out, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct mcp_server_doc d;
	struct jw w = jw_on(out);

	if (mcp_server_find(engine, uid, name, &text, &d, e) < 0)
		return -1;
	jw_obj(&w);
	write_server(&w, &d, false);
	jw_obj_end(&w);
	return 0;
}

/* ---- the start ---- */

static void append_path(json_t *sandbox, const char *path)
{
	json_t *roots = json_object_get(sandbox, "readRoots") ? json_copy(json_object_get(sandbox, "readRoots"))
							      : json_array();

	json_array_append_new(roots, json_string(path));
	json_object_set_new(sandbox, "readRoots", roots);
}

/*
 * A server that is reached by a URL needs nothing of the turn's sandbox: its own reaches that host only. The operator
 * who registered it has decided that.
 */
static void confine_to_host(struct engine *engine, const json_t *settings, json_t *where)
{
	mem_auto char *url = NULL, *host = NULL;
	struct err ignored = ERR_INIT;
	json_t *sandbox = json_object();

	if (registry_url("url", json_get_text(settings, "url"), true, &url, &host, &ignored) == 0) {
		json_object_set_new(sandbox, "network", json_string("allow"));
		json_object_set_new(sandbox, "allowHosts", json_pack("[s]", host));
	}
	append_path(sandbox, engine->o.model_program);
	json_object_set_new(where, "sandbox", sandbox);
	json_object_set_new(where, "profile", json_string("isolated"));
	json_object_del(where, "cwd");
	json_object_del(where, "env");
}

int mcp_server_sandbox(struct engine *engine, const json_t *settings, json_t *where, bool *ret_operator, struct err *e)
{
	static const char *const files[] = { "keyFile", "caFile" };
	const json_t *env = json_object_get(settings, "env"), *secrets = json_object_get(settings, "envFiles");
	const bool url = json_object_get(settings, "url");
	const char *name;
	json_t *v;

	if (!engine->o.tool_program)
		return err_set(e, ERR_UNAVAILABLE,
			       "bailiff-tool, which starts MCP servers, was not found next to bailiffd");
	if (url && !engine->o.model_program)
		return err_set(e, ERR_UNAVAILABLE,
			       "bailiff-model, which reaches MCP servers by their URL, was not found next to bailiffd");
	if (url)
		confine_to_host(engine, settings, where);
	json_t *sandbox = json_object_get(where, "sandbox") ? json_copy(json_object_get(where, "sandbox"))
							    : json_object();
	for (size_t i = 0; i < countof(files); i++)
		if ((v = json_object_get(settings, files[i])))
			append_path(sandbox, json_string_value(v));
	json_object_foreach ((json_t *)(uintptr_t)secrets, name, v)
		append_path(sandbox, json_string_value(v));
	if (json_object_size(sandbox))
		json_object_set(where, "sandbox", sandbox);
	json_decref(sandbox);
	if (env) {
		json_t *all = json_object_get(where, "env") ? json_copy(json_object_get(where, "env")) : json_object();

		json_object_update(all, (json_t *)(uintptr_t)env);
		json_object_set_new(where, "env", all);
	}
	*ret_operator = url || secrets;
	return 0;
}

json_t *mcp_server_argv(struct engine *engine, const json_t *settings, const char *tool, const char *keep)
{
	const char *url = json_string_value(json_object_get(settings, "url")), *name;
	json_t *argv = json_pack("[s,s,s]", engine->o.tool_program, "mcp", tool ? "call" : "list"), *v;

	if (keep) {
		json_array_append_new(argv, json_string("--keep"));
		json_array_append_new(argv, json_string(keep));
	}
	json_object_foreach (json_object_get(settings, "envFiles"), name, v) {
		json_array_append_new(argv, json_string("--env-file"));
		json_array_append_new(argv, json_sprintf("%s=%s", name, json_string_value(v)));
	}
	if (tool)
		json_array_append_new(argv, json_string(tool));
	json_array_append_new(argv, json_string("--"));
	if (!url) {
		json_array_extend(argv, json_object_get(settings, "command"));
		return argv;
	}
	json_auto_t *bridge = json_pack("[s,s,s,s]", engine->o.tool_program, "mcp-http", engine->o.model_program, url);
	static const char *const files[][2] = { { "keyFile", "--key-file" }, { "caFile", "--ca-file" } };
	for (size_t i = 0; i < countof(files); i++)
		if ((v = json_object_get(settings, files[i][0]))) {
			json_array_append_new(bridge, json_string(files[i][1]));
			json_array_append(bridge, v);
		}
	json_array_extend(argv, bridge);
	return argv;
}

char *mcp_server_text(const json_t *settings)
{
	buf_auto struct buf text = BUF_INIT;
	const json_t *v;
	size_t i;

	json_array_foreach (json_object_get(settings, "command"), i, v) {
		buf_str(&text, i ? " " : "");
		command_quote(json_string_value(v), json_string_length(v), &text);
	}
	return mem_strdup(buf_cstr(&text));
}

char *mcp_server_chosen(struct engine *engine, const struct tool_call_doc *call)
{
	const char *begin = call->toolName + strlen(TOOL_MCP_PREFIX), *tool = mcp_tool_name(call->toolName);
	char name[ID_SIZE];

	snprintf(name, sizeof name, "%.*s", (int)(tool - begin - 2), begin);
	const struct mcp_session_server *own = mcp_session_find(engine, (uint32_t)call->uid, call->sessionId, name);
	return own ? mcp_server_text(own->settings) : NULL;
}

/*
 * An operator's rights extend what the turn itself asks for (profile, directory, roots), not only by the files of the
 * server. A URL's sandbox has nothing of the turn; any other is only for turns that an operator requested.
 */
static int extend_rights(const json_t *settings, struct requester *by, struct err *e)
{
	if (by->role != ROLE_OPERATOR && !json_object_get(settings, "url"))
		return err_set(e, ERR_PERMISSION,
			       "this MCP server reads secrets from files (envFiles), so only turns that an operator "
			       "requested can call it");
	by->role = ROLE_OPERATOR;
	return 0;
}

json_t *mcp_server_launch(struct engine *engine, const struct tool_call_doc *call, json_t *where, struct requester *by,
			  struct err *e)
{
	bool extended = false;
	buf_auto struct buf text = BUF_INIT;
	const char *begin = call->toolName + strlen(TOOL_MCP_PREFIX), *tool = mcp_tool_name(call->toolName);
	char name[ID_SIZE], key[HASH_SHA256_TEXT];
	struct mcp_server_doc d;

	snprintf(name, sizeof name, "%.*s", (int)(tool - begin - 2), begin);
	const struct mcp_session_server *own = mcp_session_find(engine, (uint32_t)call->uid, call->sessionId, name);
	if (own) {
		json_object_set_new(where, "sandboxId", json_string(SANDBOX_OWN));
		return mcp_server_sandbox(engine, own->settings, where, &extended, e) < 0
			       ? NULL
			       : mcp_server_argv(engine, own->settings, tool, NULL);
	}
	if (mcp_server_find(engine, (uint32_t)call->uid, name, &text, &d, e) < 0)
		return NULL;
	json_auto_t *settings = mcp_server_settings(&d);
	if (mcp_server_sandbox(engine, settings, where, &extended, e) < 0 ||
	    (extended && extend_rights(settings, by, e) < 0))
		return NULL;
	/* One for each thread, as its sandboxes; and another one when it is registered again. */
	mem_auto char *words = mem_printf("%s %s %" PRIu64, call->threadId, name, d.addedAt);
	hash_sha256_text(words, strlen(words), key);
	key[32] = '\0';
	return mcp_server_argv(engine, settings, tool,
			       json_is_true(json_object_get(settings, "stateful")) ? key : NULL);
}

/* ---- remove_mcp_server ---- */

int mcp_server_authority(const struct caller *c, const char *session_id, struct err *e)
{
	if (!session_id && c->role != ROLE_OPERATOR)
		return err_at(e, ERR_NOT_ALLOWED, "sessionId",
			      "only an operator may change the servers of all sessions; an agent gives sessionId");
	return 0;
}

void engine_remove_mcp_server(struct engine *engine, const char *name, const char *session_id, const struct caller *c,
			      engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	const struct requester by = requester_of(c);
	struct mcp_server_doc d;
	struct err e = ERR_INIT;

	if (mcp_server_authority(c, session_id, &e) < 0 ||
	    (session_id ? mcp_session_remove(engine, &by, session_id, name, tx, &e)
			: mcp_server_find(engine, c->uid, name, &text, &d, &e)) < 0)
		return transaction_reject(tx, &e);
	if (!session_id) {
		EMIT(mcp_server_removed, tx, registry_scope(engine, c->uid, c->request_id, c->trace_id), .name = name,
		     .requestedBy = json_requester(&by));
		tool_set_mcp(engine, c->uid, "", name, NULL);
		tool_update_catalogs(engine, c->uid, NULL, tx);
	}
	jw_kstr(&tx->w, "name", name);
	jw_kbool(&tx->w, "removed", true);
	transaction_commit(tx);
}
