#ifndef BAILIFF_ENGINE_TOOL_H
#define BAILIFF_ENGINE_TOOL_H

/*
 * The inventory of tools.
 *
 * A tool is built in (tools.def) and runs as a process in the turn's sandbox or in the engine itself, or external:
 * registered by a client, which runs it itself as long as it is connected. The tools of a registered MCP server
 * (call/mcp_server.h) run as processes like built-in ones. Tool calls are in call/.
 *
 * The flags of a tool are claims of its author. The execution loop orders calls by them (tool_is_parallel) and
 * decisions show `destructive` to the approver; no flag allows anything.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/reply.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

struct policy_changed;
struct scope;
struct transaction;

#define TOOL_NAME_MAX 64
#define TOOL_ARGS_INLINE 4096u

enum tool_builtin {
	TOOL_EXTERNAL,
#define TOOL(NAME, ...) TOOL_##NAME,
#define SHARED_TOOL(NAME, ...) TOOL_##NAME,
#include "runtime/engine/tool/tools.def"
	TOOL_MCP /* of a registered MCP server */
};

enum tool_runs { TOOL_RUNS_CLIENT, TOOL_RUNS_COMMAND, TOOL_RUNS_FILES, TOOL_RUNS_ENGINE, TOOL_RUNS_MCP };

struct tool {
	enum tool_builtin builtin;
	enum tool_runs runs;
	char name[TOOL_NAME_MAX + 1];
	bool read_only, concurrent, destructive; /* see tool_flags.h; `concurrent` is isConcurrencySafe on the wire */
	const char *interrupt;                   /* cancel, block */
	const char *description, *schema;        /* as models get them */
	/* external: what its client says about it; capabilities as JSON; or NULL, except for runtime_owner */
	const char *capabilities, *runtime_owner, *metadata_ref;
	uint32_t uid;           /* external: the uid of its client, */
	uint64_t connection;    /* its connection, */
	const char *session_id; /* and the session that it is registered for; "" = all sessions of the uid */
};

/* Where a tool is called. A tool registered for one session is not visible in others. */
struct tool_scope {
	uint32_t uid;
	const char *session_id; /* NULL = only tools registered for all sessions of the uid */
};

void tool_init(struct engine *engine);
void tool_done(struct engine *engine);

/* Searches the built-in tools first, then external ones visible in the scope. *ret borrows from the inventory: it is
 * valid until a client registers tools or disconnects. */
bool tool_find(struct engine *engine, const char *name, struct tool_scope in, struct tool *ret);
/* Checks that the tool exists and that the arguments match its schema: ERR_NOT_FOUND, ERR_INVALID. */
int tool_check(struct engine *engine, const char *name, const json_t *arguments, struct tool_scope in, struct err *e);
/* What clients may give: more than models for the shell, otherwise the same. */
const char *tool_client_schema(const struct tool *t);
bool tool_is_parallel(struct engine *engine, const char *name, struct tool_scope in);
/* The tools that this uid can call; session_id NULL = in any session. */
typedef void tool_fn(void *ctx, const struct tool *t);
void tool_each(struct engine *engine, uint32_t uid, const char *session_id, tool_fn *fn, void *ctx);
/*
 * Whether a call is evaluated before it begins (tool_check_permission): a client or the engine executes it. Others are
 * evaluated when their process starts.
 */
bool tool_evaluated_first(struct engine *engine, const char *tool, struct tool_scope in);

/* tool_inventory.c */
void tool_flags_json(const struct tool *t, struct jw *w);
/* Those that policy, as it was last read, neither denies nor makes unavailable. */
void tool_each_offered(struct engine *engine, uint32_t uid, const char *session_id, tool_fn *fn, void *ctx);
/* Adds tool.catalog_resolved, the list of tools that a turn can call. */
void tool_catalog_fact(struct engine *engine, const struct turn_doc *t, struct transaction *tx);
/* The inventory or the policy has changed: records the catalogue of live turns again; session_id NULL = of all. */
#define TOOL_ANY_UID UINT32_MAX
void tool_update_catalogs(struct engine *engine, uint32_t uid, const char *session_id, struct transaction *tx);
/* Reaction to policy.changed. */
void tool_on_policy_changed(struct transaction *tx, const struct scope *s, const struct policy_changed *p);

/* Registered tools: an accepted one replaces that of the same name and session; the connection that has one, 0 = none.
 */
void tool_register(struct engine *engine, const json_t *v, const char *session_id, const struct caller *c);
uint64_t tool_registered_by(struct engine *engine, const char *name, uint32_t uid, const char *session_id);
size_t tool_registered_count(struct engine *engine, uint32_t uid);
bool tool_is_builtin(const char *name);
/* Modes do not restrict the engine's own tools, except that mode plan denies input for processes. */
bool tool_ignores_mode(const struct tool *t, int mode);
/* Whether the engine executes it for a process that the shell has left running, and whether that process notices. */
bool tool_is_about_process(const char *name);
bool tool_sends_to_process(const char *name);
void tools_client_disconnected(struct engine *engine, uint64_t connection);
/*
 * mcp__SERVER__TOOL for each tool of the list [{name, description?, inputSchema}], in place of the server's earlier
 * ones; tools NULL = none; session_id "" = for all sessions. The list was checked by mcp_probe.c. A name that a client
 * has registered is skipped.
 */
#define TOOL_MCP_PREFIX "mcp__"
void tool_set_mcp(struct engine *engine, uint32_t uid, const char *session_id, const char *server, const json_t *tools);
/* Whether a client of the uid has registered this name, for whichever session. */
bool tool_is_registered(struct engine *engine, const char *name, uint32_t uid);
/* Likewise: whether an MCP server of the uid has it. */
bool tool_is_mcp(struct engine *engine, const char *name, uint32_t uid);

/* tool_paths.c: the files that a call names, each once and spelled as in the arguments. Rules about paths match these.
 */
#define TOOL_PATHS_MAX 2048u /* twice the limit of bailiff-tool for files in one patch */
struct tool_paths {
	char **path;
	size_t count;
	bool too_many; /* the list is incomplete and the rules cannot be evaluated: such a call is rejected */
};
void tool_paths_of(const char *tool, const json_t *args, struct tool_paths *ret);
void tool_paths_done(struct tool_paths *n);
unsigned tool_access(const char *tool); /* what it does with its paths: COMMAND_READS … */
char *tool_host_of(const json_t *args); /* of its url; NULL = none, or ambiguous */

#endif
