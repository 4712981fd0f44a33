/*
 * The inventory: built-in tools, and the tools that connected clients have registered.
 *
 * External tools live in memory and end with the connection of their client, which is the only one that can run them; a
 * client registers them again when it reconnects. What a turn could call at a given time is recorded as
 * tool.catalog_resolved, so that the log explains a call even after its tool is gone.
 *
 * A name is resolved in this order: built in, registered for the session, registered for all sessions of the uid.
 * Built-in names cannot be registered, so a client can never replace a tool whose calls are confined by the sandbox.
 */

#include "runtime/engine/tool/tool.h"

#include "runtime/base/json_get.h"
#include "runtime/base/json_schema.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/session/turn_read.h"

#include <sys/queue.h>

#define EXTERNAL_MAX 256u /* for each uid, so that one user cannot exhaust the inventory for others */
#define DESCRIPTION_MAX 4096u
#define SCHEMA_MAX 32768u

static const struct tool own[] = {
#define TOOL(NAME, name_, runs_, read_only_, concurrent_, destructive_, interrupt_, description_, schema_) \
	{ .builtin = TOOL_##NAME,                                                                          \
	  .name = name_,                                                                                   \
	  .runs = TOOL_RUNS_##runs_,                                                                       \
	  .read_only = read_only_,                                                                         \
	  .concurrent = concurrent_,                                                                       \
	  .destructive = destructive_,                                                                     \
	  .interrupt = interrupt_,                                                                         \
	  .description = description_,                                                                     \
	  .schema = schema_,                                                                               \
	  .session_id = "" },
#include "runtime/engine/tool/tools.def"
#undef TOOL
};

struct tool_state {
	TAILQ_HEAD(, external_tool) external; /* registered by clients; removed when the client disconnects */
};

struct external_tool {
	TAILQ_ENTRY(external_tool) link;
	struct tool tool;
	char *description, *schema, *session_id;
};

static void external_free(struct external_tool *x)
{
	free(x->description);
	free(x->schema);
	free(x->session_id);
	free(x);
}

/* Finds a tool registered for exactly this session; "" = for all sessions of the uid. Tools are never offered across
 * uids, because their client can only see events of its own uid. */
static struct external_tool *external_find(struct engine *engine, const char *name, uint32_t uid,
					   const char *session_id)
{
	struct external_tool *x;

	TAILQ_FOREACH (x, &engine->tools->external, link)
		if (strcmp(x->tool.name, name) == 0 && x->tool.uid == uid && strcmp(x->session_id, session_id) == 0)
			return x;
	return NULL;
}

static const struct tool *own_find(const char *name)
{
	for (size_t i = 0; i < countof(own); i++)
		if (strcmp(own[i].name, name) == 0)
			return &own[i];
	return NULL;
}

bool tool_find(struct engine *engine, const char *name, struct tool_scope in, struct tool *ret)
{
	const struct tool *t = own_find(name);
	const struct external_tool *x = t || !in.session_id ? NULL : external_find(engine, name, in.uid, in.session_id);

	if (!t && !x)
		x = external_find(engine, name, in.uid, "");
	if (t || x)
		*ret = t ? *t : x->tool;
	return t || x;
}

bool tool_evaluated_first(const char *tool, const char *runner)
{
	const struct tool *t = own_find(tool);

	return runner || !t || t->runs == TOOL_RUNS_ENGINE;
}

/* Both flags: a tool that writes may say that it is safe to run in parallel, but its order with other tools matters. */
bool tool_is_parallel(struct engine *engine, const char *name, struct tool_scope in)
{
	struct tool t;

	return tool_find(engine, name, in, &t) && t.concurrent && t.read_only;
}

/* Validates the arguments against the tool's schema. Errors name the field as "arguments.<path>". */
static int check_arguments(const struct tool *t, const json_t *arguments, struct err *e)
{
	json_auto_t *schema = json_loads(t->schema, JSON_DECODE_ANY, NULL), *none = json_object();
	char field[ERR_FIELD_MAX];

	if (!schema)
		return err_set(e, ERR_INTERNAL, "the schema of tool '%s' cannot be read", t->name);
	if (json_schema_check(schema, arguments ? arguments : none, e) == 0)
		return 0;
	snprintf(field, sizeof field, "arguments%s%.48s", e->field[0] ? "." : "", e->field);
	memcpy(e->field, field, sizeof field);
	return err_wrap(e, "arguments of %s", t->name);
}

int tool_check(struct engine *engine, const char *name, const json_t *arguments, struct tool_scope in, struct err *e)
{
	struct tool t;

	if (!tool_find(engine, name, in, &t)) {
		err_set(e, ERR_NOT_FOUND, "there is no tool '%.64s'; get_tool_inventory lists them", name);
		snprintf(e->field, sizeof e->field, "toolName");
		return -1;
	}
	if (check_arguments(&t, arguments, e) < 0)
		return -1;
	/* The rules about paths need all of them: a list that was cut would let the rest through unchecked. */
	if (t.builtin == TOOL_APPLY_PATCH) {
		struct tool_paths paths;

		tool_paths_of(name, arguments, &paths);
		bool too_many = paths.too_many;
		tool_paths_done(&paths);
		if (too_many)
			return err_field(e, "arguments.patch", "names more than %u files; make it several",
					 TOOL_PATHS_MAX);
	}
	if (t.builtin == TOOL_SHELL &&
	    !json_object_get(arguments, "command") == !json_object_get(arguments, "commandLine"))
		return err_field(e, "arguments", "shell needs commandLine or command, and not both");
	return 0;
}

/* ---- JSON ---- */

void tool_flags_json(const struct tool *t, struct jw *w)
{
	jw_obj(w);
	jw_kbool(w, "isReadOnly", t->read_only);
	jw_kbool(w, "isConcurrencySafe", t->concurrent);
	jw_kbool(w, "isDestructive", t->destructive);
	jw_kstr(w, "interruptBehavior", t->interrupt);
	jw_obj_end(w);
}

static const char *capability_of(const struct tool *t)
{
	static const char *const names[] = { [TOOL_RUNS_CLIENT] = "external",
					     [TOOL_RUNS_COMMAND] = "process",
					     [TOOL_RUNS_FILES] = "filesystem",
					     [TOOL_RUNS_ENGINE] = "runtime" };

	return names[t->runs];
}

static void tool_json(const struct tool *t, bool brief, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "name", t->name);
	jw_kobj(w, "owner");
	jw_kstr(w, "kind", t->builtin ? "runtime" : "client");
	if (!t->builtin) {
		jw_kuint(w, "uid", t->uid);
		jw_kuint(w, "connection", t->connection);
	}
	jw_obj_end(w);
	jw_key(w, "flags");
	tool_flags_json(t, w);
	jw_kobj(w, "policy");
	jw_kstr(w, "sandbox", t->runs == TOOL_RUNS_COMMAND || t->runs == TOOL_RUNS_FILES ? "turn" : "not_applicable");
	jw_obj_end(w);
	if (!brief) {
		jw_kstr(w, "description", t->description);
		jw_kraw(w, "inputSchema", t->schema, strlen(t->schema));
		jw_karr(w, "capabilities");
		jw_str(w, capability_of(t));
		jw_arr_end(w);
		jw_kstr(w, "status", "available");
		if (t->session_id[0])
			jw_kstr(w, "sessionId", t->session_id);
	}
	jw_obj_end(w);
}

void tool_list_json(struct engine *engine, uint32_t uid, const char *session_id, bool brief, struct jw *w)
{
	const struct external_tool *x;

	jw_arr(w);
	for (size_t i = 0; i < countof(own); i++)
		tool_json(&own[i], brief, w);
	TAILQ_FOREACH (x, &engine->tools->external, link) {
		if ((uid != 0 && x->tool.uid != uid) ||
		    (session_id && x->session_id[0] && strcmp(session_id, x->session_id) != 0))
			continue;
		if (session_id && !x->session_id[0] && external_find(engine, x->tool.name, x->tool.uid, session_id))
			continue; /* hidden by a tool of the same name registered for this session */
		tool_json(&x->tool, brief, w);
	}
	jw_arr_end(w);
}

void engine_tool_inventory(struct engine *engine, const char *session_id, const struct caller *c, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_key(&w, "tools");
	tool_list_json(engine, c->uid, session_id, false, &w);
	jw_obj_end(&w);
}

/* ---- register_tools ---- */

static size_t external_count(struct engine *engine, uint32_t uid)
{
	const struct external_tool *x;
	size_t n = 0;

	TAILQ_FOREACH (x, &engine->tools->external, link)
		n += x->tool.uid == uid;
	return n;
}

static bool name_fits(const char *name)
{
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-");

	return n >= 1 && n <= TOOL_NAME_MAX && !name[n];
}

static int check_schema(const json_t *schema, json_t *unchecked, size_t i, struct err *e)
{
	char field[ERR_FIELD_MAX];
	mem_auto char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);

	snprintf(field, sizeof field, "tools[%zu].inputSchema", i);
	if (!json_is_object(schema))
		return err_field(e, field, "must be an object");
	if (strlen(text) > SCHEMA_MAX)
		return err_field(e, field, "has %zu bytes as JSON; at most %u are kept", strlen(text), SCHEMA_MAX);
	if (json_schema_verify(schema, unchecked, e) == 0)
		return 0;
	snprintf(field, sizeof field, "tools[%u].inputSchema%s%.30s", (unsigned)i, e->field[0] ? "." : "", e->field);
	memcpy(e->field, field, sizeof field);
	return -1;
}

/*
 * A name belongs to one connection within its uid and session: that connection can replace the tool, others cannot. The
 * names of built-in tools are reserved.
 */
static int check_registered(struct engine *engine, const json_t *v, size_t i, const char *session_id,
			    const struct caller *c, json_t *unchecked, struct err *e)
{
	const char *name = json_string_value(json_object_get(v, "name")),
		   *text = json_string_value(json_object_get(v, "description"));
	const json_t *schema = json_object_get(v, "inputSchema");
	const struct external_tool *x;
	char field[ERR_FIELD_MAX];

	snprintf(field, sizeof field, "tools[%zu].name", i);
	if (!name || !name_fits(name))
		return err_field(e, field, "must be 1 to %u of A-Z a-z 0-9 _ . / -", TOOL_NAME_MAX);
	if (own_find(name))
		return err_field(e, field, "'%s' is one of the runtime's own tools", name);
	x = external_find(engine, name, c->uid, session_id ? session_id : "");
	if (x && x->tool.connection != c->connection) {
		err_set(e, ERR_CONFLICT, "tools[%zu].name: another connection offers '%s'", i, name);
		return -1;
	}
	if (text && strlen(text) > DESCRIPTION_MAX) {
		snprintf(field, sizeof field, "tools[%zu].description", i);
		return err_field(e, field, "must have at most %u bytes", DESCRIPTION_MAX);
	}
	return schema ? check_schema(schema, unchecked, i, e) : 0;
}

/* Adds a tool that check_registered has accepted, or replaces the connection's earlier one of that name. */
static void external_put(struct engine *engine, const json_t *v, const char *session_id, const struct caller *c)
{
	const json_t *schema = json_object_get(v, "inputSchema");
	const char *text = json_string_value(json_object_get(v, "description"));
	const char *behaviour = json_string_value(json_object_get(v, "interruptBehavior"));
	struct external_tool *x = external_find(engine, json_string_value(json_object_get(v, "name")), c->uid,
						session_id ? session_id : "");
	char *dumped = schema ? json_dumps(schema, JSON_COMPACT) : NULL;

	if (x) {
		TAILQ_REMOVE(&engine->tools->external, x, link);
		external_free(x);
	}
	x = mem_zalloc(1, sizeof *x);
	x->schema = dumped ? dumped : mem_strdup("{\"type\":\"object\"}");
	x->description = mem_strdup(text ? text : "");
	x->session_id = mem_strdup(session_id ? session_id : "");
	x->tool = (struct tool){
		.read_only = json_get_flag(v, "isReadOnly"),
		.concurrent = json_get_flag(v, "isConcurrencySafe"),
		.destructive = json_get_flag(v, "isDestructive"),
		.interrupt = behaviour && strcmp(behaviour, "block") == 0 ? "block" : "cancel",
		.description = x->description,
		.schema = x->schema,
		.session_id = x->session_id,
		.uid = c->uid,
		.connection = c->connection,
	};
	snprintf(x->tool.name, sizeof x->tool.name, "%s", json_string_value(json_object_get(v, "name")));
	TAILQ_INSERT_TAIL(&engine->tools->external, x, link);
}

struct catalog_of {
	struct engine *engine;
	const struct turn_doc *turn;
};

static void write_catalog(struct jw *w, const void *turn, size_t n)
{
	const struct catalog_of *c = turn;

	tool_list_json(c->engine, (uint32_t)c->turn->uid, c->turn->sessionId, true, w);
}

void tool_catalog_fact(struct engine *engine, const struct turn_doc *t, struct transaction *tx)
{
	const struct catalog_of catalog = { engine, t };
	char step[ID_TEXT_MAX], call[ID_TEXT_MAX];
	struct scope s = turn_scope(t);

	/* The catalogue is not a call, but its event type requires the ids of a step and a call: generate unused ones.
	 */
	id_make(ID_KIND_STEP, step);
	id_make(ID_KIND_TOOL_CALL, call);
	s.step = step;
	s.tool_call = call;
	EMIT(tool_catalog_resolved, tx, s, .tools = json_from_writer(write_catalog, &catalog, 0));
}

/* The inventory has changed: records the catalogue of live turns again. */
static void update_catalogs(struct engine *engine, uint32_t uid, const char *session_id, struct transaction *tx)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	id_list_read(engine, VIEW_LIVE_TURN, NULL, ID_LIST_ALL, &turns);
	for (size_t i = 0; i < turns.n; i++)
		if (turn_read(engine, turns.id[i], &text, &t, &e) == 0 && t.catalog && t.uid == uid &&
		    (!session_id || strcmp(session_id, t.sessionId) == 0))
			tool_catalog_fact(engine, &t, tx);
}

/* Reports the schema keywords that are not supported, so that authors do not rely on checks that do not happen. */
static void unchecked_json(const json_t *tools, const json_t *unchecked, struct jw *w)
{
	const json_t *words, *word;
	size_t i, k, n = 0;

	json_array_foreach (unchecked, i, words)
		n += json_array_size(words);
	if (!n)
		return;
	jw_karr(w, "uncheckedKeywords");
	json_array_foreach (unchecked, i, words) {
		if (!json_array_size(words))
			continue;
		jw_obj(w);
		jw_kstr(w, "name", json_string_value(json_object_get(json_array_get(tools, i), "name")));
		jw_karr(w, "keywords");
		json_array_foreach (words, k, word)
			jw_str(w, json_string_value(word));
		jw_arr_end(w);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

void engine_register_tools(struct engine *engine, const json_t *tools, const char *session_id, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	json_auto_t *unchecked = json_array();
	const json_t *v;
	struct err e = ERR_INIT;
	size_t i;

	if (!c->connection)
		err_set(&e, ERR_UNAVAILABLE, "tools belong to a connection, and this request has none");
	else if (external_count(engine, c->uid) + json_array_size(tools) > EXTERNAL_MAX)
		err_set(&e, ERR_EXHAUSTED, "uid %u has registered %zu tools; at most %u can be", c->uid,
			external_count(engine, c->uid), EXTERNAL_MAX);
	json_array_foreach (tools, i, v) {
		json_t *words = json_array();

		json_array_append_new(unchecked, words);
		if (e.code || check_registered(engine, v, i, session_id, c, words, &e) < 0)
			break;
	}
	if (e.code) {
		transaction_reject(tx, &e);
		return;
	}
	/* All tools were checked above, so that a request registers all of them or none. */
	jw_karr(&tx->w, "tools");
	json_array_foreach (tools, i, v) {
		external_put(engine, v, session_id, c);
		jw_str(&tx->w, json_string_value(json_object_get(v, "name")));
	}
	jw_arr_end(&tx->w);
	unchecked_json(tools, unchecked, &tx->w);
	update_catalogs(engine, c->uid, session_id, tx);
	transaction_commit(tx);
}

/* ---- disconnect ---- */

void tools_client_disconnected(struct engine *engine, uint64_t connection)
{
	struct external_tool *x, *next;

	for (x = TAILQ_FIRST(&engine->tools->external); x; x = next) {
		next = TAILQ_NEXT(x, link);
		if (x->tool.connection != connection)
			continue;
		TAILQ_REMOVE(&engine->tools->external, x, link);
		external_free(x);
	}
}

void tool_init(struct engine *engine)
{
	engine->tools = mem_zalloc(1, sizeof *engine->tools);
	TAILQ_INIT(&engine->tools->external);
}

void tool_done(struct engine *engine)
{
	struct external_tool *x;

	while ((x = TAILQ_FIRST(&engine->tools->external))) {
		TAILQ_REMOVE(&engine->tools->external, x, link);
		external_free(x);
	}
	free(engine->tools);
}
