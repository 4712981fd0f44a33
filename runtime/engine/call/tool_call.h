#ifndef BAILIFF_ENGINE_TOOL_CALL_H
#define BAILIFF_ENGINE_TOOL_CALL_H

/*
 * Tool calls. A call is a step of a turn: tool.started and tool.args are durable before any of it happens, tool.result
 * or tool.failed ends it. A client that uses its own tools in a turn that it drives reports those calls (runner
 * "client").
 *
 * tool_call.c       calls: their facts, their start, their end
 * tool_report.c     invoke_tool and report_tool_call
 * tool_process.c    calls that run as processes
 * tool_engine.c     calls that the engine executes itself
 * process_tools.c   those about processes that the shell has left running; process_report.c, what they answer
 * tool_permission.c whether a call that has no process may start
 * tool_hooks.c      the hooks for those
 * tool_result.c     the result as a model reads it
 * mcp_server.c      registered MCP servers, whose tools run as processes
 */

#include "runtime/base/hash.h"
#include "runtime/engine/core/reply.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/session/tool_call_read.h"
#include "runtime/engine/tool/tool.h"
#include "runtime/event/event.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

struct fact;
struct transaction;
struct transaction;

struct call_state {
	TAILQ_HEAD(, tool_evaluation)
	evaluations; /* calls that clients execute, until they are allowed, asked about or denied */
	TAILQ_HEAD(, process_wait) waits; /* process_tools.c */
	struct strmap begun;              /* ids of open calls that this runtime has started */
	struct strmap held;               /* ids of those that continue when a client of their user has connected */
	struct strmap hooked;             /* ids of ended calls whose hooks have not answered (tool_hooks.c) */
	struct strmap ending;             /* ids of calls that ended with a process whose hooks have not answered */
};

void call_init(struct engine *engine);
void call_done(struct engine *engine);

struct tool_use {
	const char *tool;
	const json_t *arguments; /* or NULL */
	int part;                /* of the turn's input, or −1 */
	const char *call_id;     /* or NULL: generated */
	const char *runner;      /* NULL = determined by the tool; "client": the client executes it */
	const char *request_id;
	struct requester by;
	uint64_t connection;                   /* of a client that executes the call */
	char arguments_hash[HASH_SHA256_TEXT]; /* of the requested arguments; "" = of `arguments` */
};
void tool_arguments_hash(const json_t *arguments, char ret[HASH_SHA256_TEXT]);
/* Adds the call's first facts and the effects that follow them. Returns the id if ret_call is not NULL. */
void tool_call_begin(struct transaction *tx, const struct turn_doc *t, const struct tool_use *u,
		     char ret_call[ID_SIZE]);

/* The part of the arguments that may be shown: without the values of `env`. New reference. */
json_t *tool_safe_arguments(const json_t *arguments, bool *ret_changed);

struct tool_failure {
	const char *status;                      /* failed, cancelled, timed_out, lost */
	const char *category, *message, *advice; /* advice NULL = the category's */
	bool retryable;
	const char *stage, *tool;   /* of a call that never started: at which stage, and which tool; or NULL */
	const char *arguments_hash; /* likewise */
	const char *permission;     /* id of the permission.evaluated that it ended by; or NULL */
};
/* The advice that is the same for all failures of a category; NULL = none. */
const char *tool_advice(const char *category);
void tool_failed_fact(const struct tool_call_doc *d, const struct tool_failure *why, struct transaction *tx);
/* Fails the call in its own transaction; its turn continues. */
void tool_call_fail(struct engine *engine, const char *call_id, const struct tool_failure *why);
void tool_call_fail_as(struct engine *engine, const char *call_id, const char *category, const char *message);
/* The end of the call is durable: replies to the waiting clients and continues its turn. */
void tool_call_ended(struct engine *engine, const char *call_id);
/* Fails calls that clients execute or that wait for a process. Calls that run as processes end with their process. */
void tool_cancel_of_turn(struct engine *engine, const char *turn_id, const char *reason);
void tool_owner_disconnected(struct engine *engine, uint64_t connection);
void tool_recover(struct engine *engine);
void tool_client_connected(struct engine *engine);

/* tool_permission.c: calls that a client or the engine executes */
enum tool_from { TOOL_FROM_LOOP, TOOL_FROM_INVOKE, TOOL_FROM_REPORT };
/*
 * Evaluates the call: starts it, asks a person or denies it. fn NULL: called by the turn's own loop. The reply is
 * invoke_tool's (at the end of the call) or report_tool_call's; for a denial, ERR_PERMISSION with the decision.
 */
void tool_check_permission(struct engine *engine, const char *turn_id, const struct tool_use *u, enum tool_from from,
			   uint64_t timeout_ms, const struct caller *c, engine_reply_fn fn, void *ctx);
bool tool_is_evaluating(struct engine *engine, const char *turn_id); /* is a call of this turn being evaluated? */
/*
 * A call that has not started: 1 = hooks are running, 2 = a person is asked, with the hash of the requested
 * arguments; 0 = there is no such call.
 */
int tool_not_begun(struct engine *engine, const char *turn_id, const char *call_id, char ret_hash[HASH_SHA256_TEXT],
		   char ret_tool[ID_SIZE]);
/* Predicts a call's document from its first facts, for other facts of the same batch. */
void tool_call_doc_of(const struct turn_doc *t, const struct tool_use *u, struct tool_call_doc *ret);

/* tool_process.c */
void tool_process_start(struct engine *engine, const char *call_id);

/* tool_engine.c */
/* The call has begun and its arguments match the schema; it ends with tool.result or tool.failed. */
void tool_engine_run(struct engine *engine, const struct tool_call_doc *d, const struct turn_doc *t,
		     const struct tool *tool, const json_t *args);

/* tool_hooks.c: the hooks of a call that a client executes, during its evaluation */
struct tool_hooks {
	struct hook_group *group;      /* running */
	struct hook_reply *replies[2]; /* pre_tool_use, permission_request */
	size_t nreplies[2];
	struct hook_result sum[2];
	bool requested[2];
	const struct hook_reply *fresh; /* the answer that has just rewritten the arguments */
	char *updated_ref;              /* or NULL */
	void (*go)(struct engine *engine, void *ctx);
	void *ctx;
};
struct tool_hooks_use {
	const struct turn_doc *turn;
	const char *tool, *call_id, *cwd;
	const json_t *arguments;
	const struct requester *by;
	int mode;
	const struct policy_hooks *hooks;
	const struct rules_query *use;
};
/*
 * True: there are hooks at this point that have not run yet. tool_hooks_run then runs them and calls `go` when they
 * have answered.
 */
bool tool_hooks_prepare(struct engine *engine, struct tool_hooks *h, enum hook_point point,
			const struct tool_hooks_use *u);
void tool_hooks_run(struct tool_hooks *h, void (*go)(struct engine *engine, void *ctx), void *ctx);
/* The arguments as hooks rewrote them, returned once; NULL = unchanged. New reference. */
json_t *tool_hooks_rewritten(struct tool_hooks *h, const char *tool, const json_t *arguments);
void tool_hooks_done(struct tool_hooks *h);
/* The transaction ends the call: after its commit the hooks run, then tool_call_ended. */
void tool_hooks_follow(struct transaction *tx, const char *call_id);
/* The call has ended, and its result must not be read yet: hooks may replace it. */
bool tool_hooks_pending(struct engine *engine, const char *call_id);
size_t tool_hooks_pending_parts(struct engine *engine, const char *turn_id); /* calls of its input, likewise */
/* After a restart: the results of calls are held back until the hooks that check them have answered. */
void tool_hooks_recover(struct engine *engine);
/*
 * The same for calls that ended just before the restart, whose results nothing has read: runs the hooks of those for
 * which none was started. True: there are some, and the turn continues when they have answered.
 */
bool tool_hooks_resume(struct engine *engine, const char *turn_id, const char (*call_ids)[ID_SIZE], size_t n);
/* Adds tool.result with this text as its output. Hooks and the next step follow the commit. */
void tool_call_finish(const struct tool_call_doc *d, const char *text, size_t len, struct transaction *tx);

#endif
