#ifndef BAILIFF_ENGINE_TOOL_CALL_H
#define BAILIFF_ENGINE_TOOL_CALL_H

/*
 * Calls of tools. A call is a step of a turn: tool.started and tool.args are durable before anything of it happens,
 * tool.result or tool.failed ends it. Clients that use tools of their own in turns that they drive report those (runner
 * "client").
 *
 * tool_call.c       calls: their facts, their beginning, their end
 * tool_process.c    calls that are processes
 * tool_report.c     calls that a client does
 * tool_permission.c whether those may begin
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
struct store_batch;

void call_init(struct engine *g);
void call_done(struct engine *g);

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
/*
 * Begins the call if policy allows it, asks, or refuses. fn NULL: the turn's own loop. The reply: as invoke_tool's (at
 * its end) or report_tool_call's; ERR_PERMISSION with the decision.
 */
void tool_check_permission(struct engine *g, const char *turn_id, const struct tool_use *u, enum tool_from from,
			   uint64_t timeout_ms, const struct caller *c, engine_reply_fn fn, void *ctx);
bool tool_is_evaluating(struct engine *g, const char *turn_id); /* a call of this turn, right now */
/* One that has not begun: hooks look at it (1), or a person is asked (2), with what it was asked for; 0 = there is
 * none. */
int tool_not_begun(struct engine *g, const char *turn_id, const char *call_id, char ret_hash[HASH_SHA256_TEXT],
		   char ret_tool[ID_ROOM]);
/* A call's document as its first facts will make it. */
void tool_call_doc_of(const struct turn_doc *t, const struct tool_use *u, struct tool_call_doc *ret);

/* tool_process.c */
void tool_process_start(struct engine *g, const char *call_id);
void tool_on_started(struct engine *g, const void *subject); /* subject: the call's id */

/* tool_hooks.c: of a call that somebody else does, on its way to its verdict */
struct tool_hooks {
	struct hook_group *group;   /* under way */
	struct hook_reply *said[2]; /* before it, and instead of a person */
	size_t nsaid[2];
	struct hook_result sum[2];
	bool asked[2];
	const struct hook_reply *fresh; /* has just rewritten it */
	char *updated_ref;              /* or NULL */
	void (*go)(struct engine *g, void *ctx);
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
/* Are there hooks to ask which have not been? Then hook_call_go lets them run, and calls `go` when they have answered.
 */
bool tool_hooks_prepare(struct engine *g, struct tool_hooks *h, enum hook_point point, const struct tool_hooks_use *u);
void tool_hooks_run(struct tool_hooks *h, void (*go)(struct engine *g, void *ctx), void *ctx);
/* What they have made of the arguments, once; NULL = nothing. New reference. */
json_t *tool_hooks_rewritten(struct tool_hooks *h, const char *tool, const json_t *arguments);
void tool_hooks_done(struct tool_hooks *h);
/* It has ended, durably: hooks look at that, then tool_call_over. */
void tool_hooks_after(struct engine *g, const char *call_id);

#endif
