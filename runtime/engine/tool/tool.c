/*
 * The inventory: built-in tools, those of registered MCP servers, and the tools that connected clients have registered.
 *
 * External tools live in memory and end with the connection of their client, which is the only one that can run them; a
 * client registers them again when it reconnects. What a turn could call at a given time is recorded as
 * tool.catalog_resolved, so that the log explains a call even after its tool is gone.
 *
 * A name is resolved in this order: built in, registered for the session, registered for all sessions of the uid.
 * Built-in names and those of MCP servers cannot be registered, so a client can never replace a tool whose calls are
 * confined by the sandbox.
 */

#include "runtime/engine/tool/tool.h"

#include "policy/rules.h"
#include "runtime/base/jscan.h"
#include "runtime/base/json_get.h"
#include "runtime/base/json_schema.h"
#include "runtime/base/mem.h"
#include "runtime/base/tool_flags.h"
#include "runtime/engine/core/core.h"

#include <sys/queue.h>

#define LOOP_TEXT(text) text
#define LOOP_ONLY(...) #__VA_ARGS__
#define MCP_TEXT(text)
#define MCP_ONLY(...)

static const struct tool own[] = {
#define TOOL(NAME, name_, runs_, flags, description_, schema_) \
	{ .builtin = TOOL_##NAME,                              \
	  .name = name_,                                       \
	  .runs = TOOL_RUNS_##runs_,                           \
	  .read_only = ((flags)&TOOL_READS) != 0,              \
	  .concurrent = ((flags)&TOOL_PARALLEL) != 0,          \
	  .destructive = ((flags)&TOOL_DESTROYS) != 0,         \
	  .interrupt = "cancel",                               \
	  .description = description_,                         \
	  .schema = schema_,                                   \
	  .session_id = "" },
#define SHARED_TOOL(NAME, name, runs, flags, description, schema, ...) \
	TOOL(NAME, name, runs, flags, description, schema)
#include "runtime/engine/tool/tools.def"
};

/* Clients choose the sandbox of a command too; of a model's call only what tools.def has counts. */
static const char shell_of_clients[] = TOOL_SCHEMA({
	"type" : "object",
	"properties" : {
		"commandLine" : { "type" : "string" },
		"command" : { "type" : [ "array", "string" ], "items" : { "type" : "string" } },
		"cwd" : { "type" : "string" },
		"env" : { "type" : "object", "additionalProperties" : { "type" : [ "string", "null" ] } },
		"timeoutMs" : { "type" : "integer", "minimum" : 1 },
		"yieldMs" : { "type" : "integer", "minimum" : 0, "maximum" : 600000 },
		"background" : { "type" : "boolean" },
		"interactive" : { "type" : "boolean" },
		"tty" : { "type" : "boolean" },
		"limits" : { "type" : "object" },
		"profile" : { "type" : "string" },
		"sandbox" : { "type" : "object" },
		"cow" : { "type" : "boolean" },
		"stderr" : { "enum" : [ "separate", "merge" ] },
		"keepTree" : { "type" : "boolean" },
		"description" : { "type" : "string" },
		"justification" : { "type" : "string" }
	},
	"additionalProperties" : false
});

const char *tool_client_schema(const struct tool *t) { return t->builtin == TOOL_SHELL ? shell_of_clients : t->schema; }

struct tool_state {
	TAILQ_HEAD(, external_tool) external; /* registered by clients; removed when the client disconnects */
};

struct external_tool {
	TAILQ_ENTRY(external_tool) link;
	struct tool tool;
	char *description, *schema, *session_id, *capabilities, *runtime_owner, *metadata_ref;
};

static void external_free(struct external_tool *x)
{
	free(x->description);
	free(x->schema);
	free(x->session_id);
	free(x->capabilities);
	free(x->runtime_owner);
	free(x->metadata_ref);
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

bool tool_evaluated_first(struct engine *engine, const char *tool, struct tool_scope in)
{
	struct tool t;

	return !tool_find(engine, tool, in, &t) || t.runs == TOOL_RUNS_CLIENT || t.runs == TOOL_RUNS_ENGINE;
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
	json_auto_t *schema = json_loads(tool_client_schema(t), JSON_DECODE_ANY, NULL), *none = json_object();
	char field[ERR_FIELD_MAX];

	if (!schema)
		return err_set(e, ERR_INTERNAL, "the schema of tool '%s' cannot be read", t->name);
	if (json_is_deeper(arguments, JSCAN_VALUE_DEPTH))
		return err_field(e, "arguments", "nested in more than %d levels", JSCAN_VALUE_DEPTH);
	if (json_schema_check(schema, arguments ? arguments : none, e) == 0)
		return 0;
	snprintf(field, sizeof field, "arguments%s%.48s", e->field[0] ? "." : "", e->field);
	memcpy(e->field, field, sizeof field);
	return err_wrap(e, "arguments of %s", t->name);
}

int tool_check(struct engine *engine, const char *name, const json_t *arguments, struct tool_scope in, struct err *e)
{
	struct tool t;

	if (!tool_find(engine, name, in, &t))
		return err_at(e, ERR_NOT_FOUND, "toolName", "there is no tool '%.64s'; get_tool_inventory lists them",
			      name);
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

void tool_each(struct engine *engine, uint32_t uid, const char *session_id, tool_fn *fn, void *ctx)
{
	const struct external_tool *x;

	for (size_t i = 0; i < countof(own); i++)
		fn(ctx, &own[i]);
	TAILQ_FOREACH (x, &engine->tools->external, link) {
		if (((uid != 0 || x->tool.builtin) && x->tool.uid != uid) ||
		    (session_id && x->session_id[0] && strcmp(session_id, x->session_id) != 0))
			continue;
		if (session_id && !x->session_id[0] && external_find(engine, x->tool.name, x->tool.uid, session_id))
			continue; /* hidden by a tool of the same name registered for this session */
		fn(ctx, &x->tool);
	}
}

/* ---- registered tools ---- */

size_t tool_registered_count(struct engine *engine, uint32_t uid)
{
	const struct external_tool *x;
	size_t n = 0;

	TAILQ_FOREACH (x, &engine->tools->external, link)
		n += x->tool.uid == uid && !x->tool.builtin;
	return n;
}

uint64_t tool_registered_by(struct engine *engine, const char *name, uint32_t uid, const char *session_id)
{
	const struct external_tool *x = external_find(engine, name, uid, session_id ? session_id : "");

	return x ? x->tool.connection : 0;
}

bool tool_is_builtin(const char *name) { return own_find(name); }

bool tool_ignores_mode(const struct tool *t, int mode)
{
	return t->runs == TOOL_RUNS_ENGINE && !(t->builtin == TOOL_WRITE_STDIN && mode == MODE_PLAN);
}

bool tool_sends_to_process(const char *name)
{
	const struct tool *t = own_find(name);

	return t && (t->builtin == TOOL_WRITE_STDIN || t->builtin == TOOL_KILL);
}

bool tool_is_about_process(const char *name)
{
	const struct tool *t = own_find(name);

	return tool_sends_to_process(name) || (t && (t->builtin == TOOL_WAIT || t->builtin == TOOL_SCREEN));
}

/* Adds the tool, or replaces the connection's earlier one of that name. */
void tool_register(struct engine *engine, const json_t *v, const char *session_id, const struct caller *c)
{
	const json_t *schema = json_object_get(v, "inputSchema");
	const char *text = json_string_value(json_object_get(v, "description"));
	const char *behaviour = json_string_value(json_object_get(v, "interruptBehavior")),
		   *owner = json_string_value(json_object_get(v, "runtimeOwner"));
	const json_t *capabilities = json_object_get(v, "capabilities");
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
	x->capabilities = capabilities ? json_dumps(capabilities, JSON_COMPACT) : NULL;
	x->runtime_owner = mem_strdup(owner ? owner : "client");
	x->metadata_ref = mem_strdup(json_string_value(json_object_get(v, "metadataRef")));
	x->tool = (struct tool){
		.capabilities = x->capabilities,
		.runtime_owner = x->runtime_owner,
		.metadata_ref = x->metadata_ref,
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

/* ---- MCP servers ---- */

bool tool_is_registered(struct engine *engine, const char *name, uint32_t uid)
{
	const struct external_tool *x;

	TAILQ_FOREACH (x, &engine->tools->external, link)
		if (!x->tool.builtin && x->tool.uid == uid && strcmp(x->tool.name, name) == 0)
			return true;
	return false;
}

bool tool_is_mcp(struct engine *engine, const char *name, uint32_t uid)
{
	const struct external_tool *x;

	TAILQ_FOREACH (x, &engine->tools->external, link)
		if (x->tool.builtin == TOOL_MCP && x->tool.uid == uid && strcmp(x->tool.name, name) == 0)
			return true;
	return false;
}

/* Before the clients' tools and in the order of their names, so that a restart does not change what models are sent. */
static void insert_mcp(struct engine *engine, struct external_tool *x)
{
	struct external_tool *at;

	TAILQ_FOREACH (at, &engine->tools->external, link)
		if (at->tool.builtin != TOOL_MCP || strcmp(at->tool.name, x->tool.name) > 0)
			break;
	if (at)
		TAILQ_INSERT_BEFORE(at, x, link);
	else
		TAILQ_INSERT_TAIL(&engine->tools->external, x, link);
}

void tool_set_mcp(struct engine *engine, uint32_t uid, const char *session_id, const char *server, const json_t *tools)
{
	mem_auto char *prefix = mem_printf(TOOL_MCP_PREFIX "%s__", server);
	struct external_tool *x, *next;
	const json_t *v;
	size_t i;

	for (x = TAILQ_FIRST(&engine->tools->external); x; x = next) {
		next = TAILQ_NEXT(x, link);
		if (x->tool.builtin != TOOL_MCP || x->tool.uid != uid || strcmp(x->session_id, session_id) != 0 ||
		    strncmp(x->tool.name, prefix, strlen(prefix)) != 0)
			continue;
		TAILQ_REMOVE(&engine->tools->external, x, link);
		external_free(x);
	}
	json_array_foreach (tools, i, v) {
		mem_auto char *name = mem_printf("%s%s", prefix, json_get_text(v, "name"));

		if (strlen(name) > TOOL_NAME_MAX || tool_is_registered(engine, name, uid))
			continue;
		x = mem_zalloc(1, sizeof *x);
		x->schema = json_dumps(json_object_get(v, "inputSchema"), JSON_COMPACT | JSON_SORT_KEYS);
		x->description = mem_strdup(json_get_text(v, "description"));
		x->session_id = mem_strdup(session_id);
		x->runtime_owner = mem_strdup("mcp");
		/* What a server says about the effects of its tools is not believed. */
		x->tool = (struct tool){ .builtin = TOOL_MCP,
					 .runs = TOOL_RUNS_MCP,
					 .destructive = true,
					 .interrupt = "cancel",
					 .description = x->description,
					 .schema = x->schema,
					 .runtime_owner = x->runtime_owner,
					 .session_id = x->session_id,
					 .uid = uid };
		snprintf(x->tool.name, sizeof x->tool.name, "%s", name);
		insert_mcp(engine, x);
	}
}

/* ---- disconnect ---- */

void tools_client_disconnected(struct engine *engine, uint64_t connection)
{
	struct external_tool *x, *next;

	for (x = TAILQ_FIRST(&engine->tools->external); x; x = next) {
		next = TAILQ_NEXT(x, link);
		if (x->tool.builtin || x->tool.connection != connection)
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
