#include "runtime/engine/call/mcp_server.h"

#include "runtime/base/json_get.h"
#include "runtime/base/json_schema.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/tool/tool.h"
#include "runtime/view/view_ids.h"
#include "runtime/view/view_model.h"
#include "runtime/view/view_write.h"

#define SERVERS_MAX 32u /* of a uid */
#define NAME_MAX_BYTES 32u
#define COMMAND_BYTES 8192u
#define TOOLS_BYTES (40u << 10) /* as JSON: all of it is in one event */
#define DESCRIPTION_MAX 4096u
#define LEFT_OUT_MAX 32u
#define WALL_MS 60000u /* bailiff-tool ends earlier */
#define ANSWER_MAX (2u << 20)

/* A server that is being asked for its tools, by the id of its process. */
struct probe {
	struct pending_reply reply;
	struct requester by;
	char name[ID_SIZE];
	json_t *command, *answer;
	bool replace, test;
	struct err e; /* why there is no answer */
};

struct mcp_server_state {
	struct strmap probes;
};

void mcp_server_init(struct engine *engine) { engine->mcp_servers = mem_zalloc(1, sizeof *engine->mcp_servers); }

static void probe_free(struct probe *p)
{
	reply_done(&p->reply);
	json_decref(p->command);
	json_decref(p->answer);
	free(p);
}

static void free_entry(void *ctx, const char *key, void *value) { probe_free(value); }

void mcp_server_done(struct engine *engine)
{
	strmap_each(&engine->mcp_servers->probes, free_entry, NULL);
	strmap_done(&engine->mcp_servers->probes);
	free(engine->mcp_servers);
}

/* ---- reading ---- */

/* 0, 1 = not there, −1. */
static int read_server(struct engine *engine, uint32_t uid, const char *name, struct buf *text,
		       struct mcp_server_doc *ret, struct err *e)
{
	char key[ID_SIZE];

	view_model_key(uid, name, key);
	return view_read_speculative(engine->o.store, &mcp_server_schema, key, text, ret, e);
}

static int find_server(struct engine *engine, uint32_t uid, const char *name, struct buf *text,
		       struct mcp_server_doc *ret, struct err *e)
{
	int r = read_server(engine, uid, name, text, ret, e);

	if (r <= 0)
		return r;
	return err_at(e, ERR_NOT_FOUND, "name",
		      "no MCP server '%.64s' is registered: see `bailiff mcp-server list`, or add it with "
		      "`bailiff mcp-server add`",
		      name);
}

static json_t *load_member(struct jval v) { return v.len ? json_loadb(v.text, v.len, 0, NULL) : NULL; }

const char *mcp_tool_name(const char *tool)
{
	const char *end = strstr(tool + strlen(TOOL_MCP_PREFIX), "__");

	return end ? end + 2 : "";
}

json_t *mcp_server_command(struct engine *engine, uint32_t uid, const char *tool, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct mcp_server_doc d;
	char name[ID_SIZE];
	const char *begin = tool + strlen(TOOL_MCP_PREFIX);

	snprintf(name, sizeof name, "%.*s", (int)(mcp_tool_name(tool) - begin - 2), begin);
	if (find_server(engine, uid, name, &text, &d, e) < 0)
		return NULL;
	json_t *command = load_member(d.command);
	if (!command)
		err_set(e, ERR_CORRUPT, "the document of MCP server '%.64s' is damaged: add it again with replace",
			name);
	return command;
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
		tool_set_mcp(engine, (uint32_t)d.uid, name, tools);
	}
}

/* ---- JSON ---- */

static void write_server(struct jw *w, const struct mcp_server_doc *d, bool brief)
{
	jw_kraw(w, "name", d->name.text, d->name.len);
	jw_kraw(w, "command", d->command.text, d->command.len);
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
	char owner[ID_SIZE];
	const char *last = NULL;
	unsigned n = 0;

	if (limit < 1 || limit > 1000)
		return err_field(e, "limit", "must be 1 to 1000");
	(void)snprintf(owner, sizeof owner, "%u", uid);
	if (view_ids_speculative(engine->o.store, VIEW_MCP_SERVER, owner, SERVERS_MAX, &names, e) < 0)
		return -1;
	jw_obj(&w);
	jw_karr(&w, "servers");
	for (size_t i = 0; i < names.n && n <= limit; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct mcp_server_doc d;

		/* The cursor is the name of the last one that was returned. */
		if ((cursor && strcmp(names.id[i], cursor) <= 0) ||
		    read_server(engine, uid, names.id[i], &text, &d, e) != 0 || n++ == limit)
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

	if (find_server(engine, uid, name, &text, &d, e) < 0)
		return -1;
	jw_obj(&w);
	write_server(&w, &d, false);
	jw_obj_end(&w);
	return 0;
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

static struct scope registry_scope(struct engine *engine, uint32_t uid, const char *request_id)
{
	return (struct scope){ .uid = uid,
			       .session = engine->system_session,
			       .thread = engine->system_thread,
			       .turn = engine->system_turn,
			       .request = request_id };
}

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
	char owner[ID_SIZE];
	int r = read_server(engine, uid, name, &text, &d, e);

	if (r < 0)
		return -1;
	if (r == 0 && !replace)
		return err_at(e, ERR_CONFLICT, "name",
			      "MCP server '%.64s' is registered: remove it first, or give replace", name);
	(void)snprintf(owner, sizeof owner, "%u", uid);
	if (view_ids_speculative(engine->o.store, VIEW_MCP_SERVER, owner, SERVERS_MAX, &names, e) < 0)
		return -1;
	if (r > 0 && names.n >= SERVERS_MAX)
		return err_set(e, ERR_EXHAUSTED, "%u MCP servers are registered, which is the limit: remove one",
			       SERVERS_MAX);
	return 0;
}

static int check_registration(struct engine *engine, const struct mcp_registration *r, uint32_t uid,
			      json_t **ret_command, struct err *e)
{
	mem_auto char *tool = mem_printf(TOOL_MCP_PREFIX "%s__", r->name);

	if (check_name(r->name, e) < 0)
		return -1;
	if (r->test)
		return (*ret_command = mcp_server_command(engine, uid, tool, e)) ? 0 : -1;
	if (r->url)
		return err_at(e, ERR_UNAVAILABLE, "url",
			      "unavailable: only servers that are started as a command can be registered, because a "
			      "call runs in the sandbox of its turn");
	if (check_command(r->command, e) < 0 || check_free(engine, uid, r->name, r->replace, e) < 0)
		return -1;
	*ret_command = json_deep_copy(r->command);
	return 0;
}

/* Starts `bailiff-tool mcp list`; rules for mcp__NAME apply to it as to the calls. */
static void start_probe(struct engine *engine, const struct mcp_registration *r, struct probe *p, const char *id)
{
	json_auto_t *where = json_pack("{s:s,s:s*,s:s*}", "commandLine", "mcp", "cwd", r->cwd, "profile", r->profile);
	mem_auto char *tool = mem_printf(TOOL_MCP_PREFIX "%s", p->name);
	const char *argv[MCP_SERVER_ARGS_MAX + 4] = { engine->o.tool_program, "mcp", "list", "--" };
	const struct requester by = p->by;
	size_t argc = 4;
	struct start_spec spec;
	struct err e = ERR_INIT;
	char started[ID_TEXT_MAX];

	if (!engine->o.tool_program)
		err_set(&e, ERR_UNAVAILABLE, "bailiff-tool, which starts MCP servers, was not found next to bailiffd");
	if (e.code || start_spec_of(engine, where, &spec, &e) < 0) {
		strmap_del(&engine->mcp_servers->probes, id);
		reply_err(&p->reply, &e, NULL, 0);
		probe_free(p);
		return;
	}
	for (size_t i = 0; i < json_array_size(p->command) && argc < countof(argv); i++)
		argv[argc++] = json_string_value(json_array_get(p->command, i));
	struct start_request *s = &spec.request;
	s->command_line = NULL;
	s->argv = argv;
	s->argc = argc;
	s->stdin_pipe = true;
	s->stdin_text = "{}";
	s->tool = tool;
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
	json_t *command = NULL;
	char id[ID_TEXT_MAX];

	if (check_registration(engine, r, c->uid, &command, &e) < 0)
		return fn(ctx, &e, NULL, 0);
	struct probe *p = mem_zalloc(1, sizeof *p);
	p->by = requester_of(c);
	p->command = command;
	p->replace = r->replace;
	p->test = r->test;
	id_copy(p->name, r->name);
	reply_copy(&p->reply, c, fn, ctx);
	id_make(ID_KIND_PROCESS, id);
	strmap_put(&engine->mcp_servers->probes, id, p);
	start_probe(engine, r, p, id);
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

	if (p->test ? find_server(engine, p->by.uid, p->name, &text, &d, &e) < 0
		    : check_free(engine, p->by.uid, p->name, p->replace, &e) < 0) {
		json_decref(left_out);
		return reply_err(&p->reply, &e, NULL, 0);
	}
	json_auto_t *stored = load_member(d.tools);
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
		EMIT(mcp_server_added, tx, registry_scope(engine, p->by.uid, request_id), .name = p->name,
		     .command = json_from_tree(p->command), .tools = json_from_tree(tools),
		     .leftOut = json_array_size(left_out) ? json_from_tree(left_out) : JSON_NONE,
		     .serverInfo = json_from_tree(server), .requestedBy = json_requester(&p->by));
		tool_set_mcp(engine, p->by.uid, p->name, tools);
		tool_update_catalogs(engine, p->by.uid, NULL, tx);
	}
	json_decref(left_out);
	transaction_commit(tx);
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

/* ---- remove_mcp_server ---- */

void engine_remove_mcp_server(struct engine *engine, const char *name, const struct caller *c, engine_reply_fn fn,
			      void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	const struct requester by = requester_of(c);
	struct mcp_server_doc d;
	struct err e = ERR_INIT;

	if (find_server(engine, c->uid, name, &text, &d, &e) < 0)
		return transaction_reject(tx, &e);
	EMIT(mcp_server_removed, tx, registry_scope(engine, c->uid, c->request_id), .name = name,
	     .requestedBy = json_requester(&by));
	tool_set_mcp(engine, c->uid, name, NULL);
	tool_update_catalogs(engine, c->uid, NULL, tx);
	jw_kstr(&tx->w, "name", name);
	jw_kbool(&tx->w, "removed", true);
	transaction_commit(tx);
}
