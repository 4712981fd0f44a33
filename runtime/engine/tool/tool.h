#ifndef BAILIFF_ENGINE_TOOL_H
#define BAILIFF_ENGINE_TOOL_H

/*
 * Tools and their calls.
 *
 * A tool is one of bailiff's own (tools.def), which runs as a process in the turn's sandbox, or one that a client has
 * registered and does itself while its connection lasts. A call of it is a step of a turn: tool.started and tool.args
 * are durable before anything of it happens, tool.result or tool.failed ends it. Clients that use tools of their own in
 * turns that they drive report those (runner "client").
 *
 * tool.c         the inventory: bailiff's own and registered ones
 * tool_call.c    calls: their facts, their beginning, their end, who waits for it
 * tool_process.c calls that are processes
 * tool_report.c  calls that somebody else does
 */

#include "runtime/base/hash.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/process/process.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

struct transaction;
struct store_batch;
enum event_type;

#define TOOL_NAME_MAX 64
#define TOOL_ARGS_MAX (4u << 20)
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

/* Own ones first; an external one must be offered to the scope. False when there is none. */
bool tool_find(struct engine *g, const char *name, struct tool_scope in, struct tool *ret);
/* May it be called like this? ERR_NOT_FOUND, ERR_INVALID. */
int tool_check(struct engine *g, const char *name, const json_t *arguments, struct tool_scope in, struct err *e);
bool tool_is_parallel(struct engine *g, const char *name, struct tool_scope in);
void tool_flags_json(const struct tool *t, struct jw *w);
/* [{…}] of what this uid can call. `brief`: without schemas. */
void tool_list_json(struct engine *g, uint32_t uid, const char *session_id, bool brief, struct jw *w);
void tools_client_disconnected(struct engine *g, uint64_t connection);
void tools_free(struct engine *g);

struct tool_use {
	const char *tool;
	const json_t *arguments; /* or NULL */
	int part;                /* of the turn's input, or −1 */
	const char *call_id;     /* or NULL: made */
	const char *runner;      /* NULL = by the tool; "client": its client does it itself */
	const char *request_id;
	struct requester by;
	uint64_t connection;                   /* of a client that does it itself */
	char arguments_hash[HASH_SHA256_TEXT]; /* of the arguments that were asked for; "" = of `arguments` */
};
void tool_arguments_hash(const json_t *arguments, char ret[HASH_SHA256_TEXT]);
/* The call's first facts, and what follows them. The id is returned when asked for. */
void tool_call_begin(struct transaction *tx, const struct turn_doc *t, const struct tool_use *u,
		     char ret_call[ID_ROOM]);
void tool_catalog_fact(struct engine *g, const struct turn_doc *t, struct store_batch *b);

int tool_call_read(struct engine *g, const char *call_id, struct buf *text, struct tool_call_doc *ret, struct err *e);
int tool_call_of_caller(struct engine *g, const char *call_id, const struct caller *c, struct buf *text,
			struct tool_call_doc *ret, struct err *e);
struct scope tool_call_scope(const struct tool_call_doc *d);
json_t *tool_call_arguments(struct engine *g, const struct tool_call_doc *d, struct err *e);

/* What of such an object may be shown: not the values of its `env`. New reference. */
json_t *tool_safe_arguments(const json_t *arguments, bool *ret_changed);

struct tool_failure {
	const char *status;                      /* failed, cancelled, timed_out, lost */
	const char *category, *message, *advice; /* advice NULL = as for the category */
	bool retryable;
	const char *stage, *tool;   /* it never began: why, and which it was; or NULL */
	const char *arguments_hash; /* likewise */
};
/* What to do about it, where that is the same for all of a category; NULL = nothing to say. */
const char *tool_advice(const char *category);
void tool_failed_fact(const struct tool_call_doc *d, const struct tool_failure *why, struct store_batch *b);
/* A transaction of its own: the call failed, and its turn goes on. */
void tool_call_fail(struct engine *g, const char *call_id, const struct tool_failure *why);
/* It has ended, durably: whoever waits is answered, and its turn goes on. */
void tool_call_ended(struct engine *g, const char *call_id);
/* Calls that others do are failed; those that are processes end with them. */
void tool_cancel_of_turn(struct engine *g, const char *turn_id, const char *reason);
void tool_owner_disconnected(struct engine *g, uint64_t connection);
void tool_recover(struct engine *g);

/* tool_permission.c: calls that somebody else does */
enum tool_from { TOOL_FROM_LOOP, TOOL_FROM_INVOKE, TOOL_FROM_REPORT };
bool tool_is_client_run(const char *tool, const char *runner);
/*
 * Begins the call if policy allows it, asks, or refuses. fn NULL: the turn's own loop. The reply: as invoke_tool's (at
 * its end) or report_tool_call's; ERR_PERMISSION with the decision.
 */
void tool_check_permission(struct engine *g, const char *turn_id, const struct tool_use *u, enum tool_from from,
			   uint64_t timeout_ms, const struct caller *c, engine_reply_fn fn, void *ctx);
bool tool_is_evaluating(struct engine *g, const char *turn_id); /* a call of this turn, right now */
void tool_evaluations_done(struct engine *g);
/* One that has not begun: hooks look at it (1), or a person is asked (2), with what it was asked for; 0 = there is
 * none. */
int tool_not_begun(struct engine *g, const char *turn_id, const char *call_id, char ret_hash[HASH_SHA256_TEXT],
		   char ret_tool[ID_ROOM]);
/* A call's document as its first facts will make it. */
void tool_call_doc_of(const struct turn_doc *t, const struct tool_use *u, struct tool_call_doc *ret);

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

/* tool_process.c */
void tool_process_start(struct engine *g, const char *call_id);

#endif
