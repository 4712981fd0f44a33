#ifndef BAILIFF_ENGINE_TOOL_H
#define BAILIFF_ENGINE_TOOL_H

/*
 * The inventory of tools.
 *
 * A tool is one of bailiff's own (tools.def), which runs as a process in the turn's sandbox, or one that a client has
 * registered and does itself while its connection lasts. Calls of tools are in call/.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/reply.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

struct transaction;
struct store_batch;
enum event_type;

#define TOOL_NAME_MAX 64
#define TOOL_ARGS_INLINE 4096u

enum tool_builtin {
	TOOL_EXTERNAL,
#define TOOL(NAME, ...) TOOL_##NAME,
#include "runtime/engine/tool/tools.def"
#undef TOOL
	TOOL_COUNT
};

struct tool {
	enum tool_builtin builtin;
	char name[TOOL_NAME_MAX + 1];
	bool read_only, beside, destructive;
	const char *interrupt; /* cancel, block */
	const char *description, *schema;
	uint32_t uid; /* of an external one: whose */
	uint64_t connection;
	const char *session_id; /* or "" = all of its owner's */
};

/* Where a tool is called: what one session was given is not there for another one. */
struct tool_scope {
	uint32_t uid;
	const char *session_id; /* NULL = none: only what all sessions of the uid have */
};

void tool_init(struct engine *g);
void tool_done(struct engine *g);

/* Own ones first; an external one must be offered to the scope. False when there is none. */
bool tool_find(struct engine *g, const char *name, struct tool_scope in, struct tool *ret);
/* May it be called like this? ERR_NOT_FOUND, ERR_INVALID. */
int tool_check(struct engine *g, const char *name, const json_t *arguments, struct tool_scope in, struct err *e);
bool tool_is_parallel(struct engine *g, const char *name, struct tool_scope in);
void tool_flags_json(const struct tool *t, struct jw *w);
/* [{…}] of what this uid can call. `brief`: without schemas. */
void tool_list_json(struct engine *g, uint32_t uid, const char *session_id, bool brief, struct jw *w);
bool tool_is_client_run(const char *tool, const char *runner);
/* tool.catalog_resolved: what a turn can call. */
void tool_catalog_fact(struct engine *g, const struct turn_doc *t, struct store_batch *b);
void tools_client_disconnected(struct engine *g, uint64_t connection);

/* tool_paths.c: the files that a call is about, each once, as its arguments name them: what rules about paths look at.
 */
#define TOOL_PATHS_MAX 2048u /* twice what bailiff-tool takes of files in one patch */
struct tool_paths {
	char **path;
	size_t count;
	bool too_many; /* there are more, which nobody could judge: such a call is refused */
};
void tool_paths_of(const char *tool, const json_t *args, struct tool_paths *ret);
void tool_paths_done(struct tool_paths *n);
bool tool_searches(const char *tool);
char *tool_host_of(const json_t *args); /* of its url; NULL = there is none, or it is not plain which one that is */

#endif
