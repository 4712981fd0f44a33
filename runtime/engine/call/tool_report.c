/*
 * invoke_tool, and report_tool_call: reports from owners of external tools and from clients that use tools of their
 * own. Above the other files of the module, since both evaluate calls (tool_permission.c) and run hooks (tool_hooks.c).
 */

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/session/turn_owner.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/session/waiter.h"

#define PREVIEW_BYTES 2048u
#define RESULT_MAX (1u << 20)
#define MESSAGE_MAX 2048u
#define OPEN_MAX 256u /* of one turn */

/* ---- invoke_tool ---- */

/*
 * Only a turn that its client drives takes calls from outside: the loop decides the order of the calls of the others.
 */
static int check_invocation(struct engine *engine, const struct tool_request *r, const struct caller *c,
			    struct buf *text, struct turn_doc *t, struct err *e)
{
	mem_auto char *args = r->arguments ? json_dumps(r->arguments, JSON_COMPACT) : NULL;

	if (engine->stopping)
		return err_set(e, ERR_UNAVAILABLE, "the daemon is stopping");
	if (args && strlen(args) > TOOL_ARGS_MAX)
		return err_field(e, "arguments", "must have at most %u bytes as JSON", TOOL_ARGS_MAX);
	if (turn_open_of_caller(engine, r->turn_id, c, text, t, e) < 0 ||
	    tool_check(engine, r->tool, r->arguments, (struct tool_scope){ (uint32_t)t->uid, t->sessionId }, e) < 0)
		return -1;
	if (t->openCalls != VIEW_ABSENT && t->openCalls >= OPEN_MAX)
		return err_set(e, ERR_EXHAUSTED, "turn '%s' has %u open tool calls already", t->turnId, OPEN_MAX);
	if (!turn_driven_by_client(t))
		return err_set(e, ERR_STATE, "turn '%s' is run by the runtime: submit the call as a part of a turn",
			       t->turnId);
	return 0;
}

/*
 * A request with a known call id is a retry if turn, tool and arguments are the same. 0: the id is not known; 1: it has
 * begun (*ret); 2: it waits for a person; −1: it is another call, or hooks still run.
 */
static int find_repeated(struct engine *engine, const struct caller *c, const struct tool_request *r, struct buf *text,
			 struct tool_call_doc *ret, struct err *e)
{
	char other_hash[HASH_SHA256_TEXT] = "", tool[ID_SIZE] = "", hash[HASH_SHA256_TEXT];
	int found = tool_call_read(engine, r->call_id, text, ret, e), early = 0;

	if (found < 0)
		return -1;
	tool_arguments_hash(r->arguments, hash);
	if (found == 0) {
		jval_str(ret->argumentsHash, other_hash, sizeof other_hash);
		id_copy(tool, ret->toolName);
	} else {
		early = tool_not_begun(engine, r->turn_id, r->call_id, other_hash, tool);
		if (!early)
			return 0;
	}
	if (found == 0 && ((c->uid != 0 && ret->uid != c->uid) || strcmp(ret->turnId, r->turn_id) != 0))
		return err_at(e, ERR_CONFLICT, "toolCallId", "toolCallId '%s' is taken by another call", r->call_id);
	if (strcmp(tool, r->tool) != 0)
		return err_at(e, ERR_CONFLICT, "toolCallId", "toolCallId '%s' is taken by a call of '%s'", r->call_id,
			      tool);
	if (strcmp(other_hash, hash) != 0)
		return err_at(e, ERR_CONFLICT, "toolCallId", "toolCallId '%s' is taken by a call with other arguments",
			      r->call_id);
	if (early == 1)
		return err_at(e, ERR_UNAVAILABLE, "toolCallId", "hooks are evaluating call '%s': try again",
			      r->call_id);
	return found == 0 ? 1 : 2;
}

/* A retry waits for the end of the call. 1 = the id was known, and the transaction is finished. */
static int invoke_again(struct engine *engine, struct transaction *tx, const struct tool_request *r)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc known;
	struct err e = ERR_INIT;
	int found = find_repeated(engine, &tx->caller, r, &text, &known, &e);

	if (found < 0)
		transaction_reject(tx, &e);
	if (found <= 0)
		return found < 0;
	tool_waiter_add(engine, r->call_id, r->timeout_ms, tx);
	if (found == 1 && known.endedAt)
		transaction_after_commit(tx, tool_waiters_answer, r->call_id);
	transaction_commit(tx);
	return 1;
}

/*
 * The reply is sent at the end of the call. A tool that its client executes is evaluated first; the others are
 * evaluated when their process starts.
 */
void engine_invoke_tool(struct engine *engine, const struct tool_request *r, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;
	char call[ID_SIZE];
	struct tool_use use = { .tool = r->tool,
				.arguments = r->arguments,
				.part = -1,
				.call_id = r->call_id,
				.request_id = c->request_id,
				.by = requester_of(c),
				.connection = c->connection };

	tool_arguments_hash(r->arguments, use.arguments_hash);
	if (r->call_id && invoke_again(engine, tx, r))
		return;
	if (check_invocation(engine, r, c, &text, &t, &e) < 0)
		return transaction_reject(tx, &e);
	if (tool_evaluated_first(engine, r->tool, (struct tool_scope){ (uint32_t)t.uid, t.sessionId })) {
		struct pending_reply unused;

		/* tool_check_permission replies instead of this transaction. */
		transaction_take_reply(tx, &unused);
		reply_done(&unused);
		transaction_commit(tx);
		tool_check_permission(engine, t.turnId, &use, TOOL_FROM_INVOKE, r->timeout_ms, c, fn, ctx);
		return;
	}
	tool_call_begin(tx, &t, &use, call);
	tx->flags |= STORE_MUST;
	tool_waiter_add(engine, call, r->timeout_ms, tx);
	transaction_commit(tx);
}

/* ---- report_tool_call ---- */

/* May this client report the call? Only the external tool's owner, or the client that executes it. */
static int check_reporter(const struct tool_call_doc *d, const struct caller *c, struct err *e)
{
	if (strcmp(d->runner, "runtime") == 0)
		return err_set(e, ERR_NOT_ALLOWED, "call '%s' is executed by the runtime itself", d->toolCallId);
	if (strcmp(d->runner, "external") == 0 && d->connection != c->connection)
		return err_set(e, ERR_NOT_ALLOWED, "call '%s' belongs to the connection that registered the tool",
			       d->toolCallId);
	if (d->endedAt)
		return err_set(e, ERR_STATE, "call '%s' has ended (%s)", d->toolCallId, d->status);
	return 0;
}

/* Cuts the text to the length of a preview; NULL for NULL. */
static char *preview_of(const char *text)
{
	return text ? mem_strndup(text, text_utf8_cut(text, strnlen(text, PREVIEW_BYTES))) : NULL;
}

/* The result is stored behind a ref in any case: hooks and clients read it from there. The event has a preview. */
static int result_report(const struct tool_call_doc *d, const struct tool_report *r, struct transaction *tx,
			 struct err *e)
{
	mem_auto char *result = r->result ? json_dumps(r->result, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	mem_auto char *artifacts = r->artifacts ? json_dumps(r->artifacts, JSON_COMPACT) : NULL;
	mem_auto char *preview = preview_of(r->preview                  ? r->preview
					    : json_is_string(r->result) ? json_string_value(r->result)
									: result);
	struct scope s = tool_call_scope(d);
	char ref[ID_TEXT_MAX] = "";

	if (result && strlen(result) > RESULT_MAX)
		return err_field(e, "result", "must have at most %u bytes as JSON", RESULT_MAX);
	if (result) {
		id_make(ID_KIND_OUTPUT, ref);
		transaction_add_output(tx, ref, result, strlen(result));
	}
	s.request = tx->caller.request_id;
	int done = EMIT(tool_result, tx, s, .envelope.status = "completed", .rawOutputRef = none_if_empty(ref),
			.rawOutputBytes = opt_int_if(result, result ? strlen(result) : 0),
			.structuredContentRef = none_if_empty(ref), .artifactRefs = json_from_text(artifacts),
			.displayPreview = preview, .part = opt_int_if(d->part != VIEW_ABSENT, d->part));
	return done < 0 ? err_set(e, ERR_INVALID, "the report is too long") : 0;
}

/* A retry gets the present state of its call. 0: the id is not known; 1: the request has its reply. */
static int begin_again(struct engine *engine, const struct tool_report *r, const struct caller *c, engine_reply_fn fn,
		       void *ctx, struct err *e)
{
	const struct tool_request q = {
		.turn_id = r->turn_id, .tool = r->tool, .call_id = r->call_id, .arguments = r->arguments
	};
	buf_auto struct buf text = BUF_INIT, action_text = BUF_INIT;
	struct tool_call_doc known;
	struct action_doc action;
	int found = find_repeated(engine, c, &q, &text, &known, e);

	if (found == 1 && strcmp(known.runner, "client") != 0)
		return err_at(e, ERR_CONFLICT, "toolCallId", "toolCallId '%s' is taken by a call of invoke_tool",
			      r->call_id);
	if (found <= 0)
		return found;
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	jw_kstr(&tx->w, "toolCallId", r->call_id);
	jw_kstr(&tx->w, "status", found == 2 ? "waiting_permission" : known.status);
	if (found == 2 && action_of_call(engine, ACTION_KIND_TOOL, r->turn_id, r->call_id, &action_text, &action))
		jw_kstr(&tx->w, "actionId", action.actionId);
	transaction_commit(tx);
	return 1;
}

/* Starts a call that a client executes itself: the client must drive the turn. */
static int begin_report(struct engine *engine, const struct tool_report *r, const struct caller *c, engine_reply_fn fn,
			void *ctx, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;

	if (!r->turn_id || !r->tool)
		return err_field(e, r->turn_id ? "toolName" : "turnId",
				 "missing: a call that begins names its turn and tool");
	const int again = r->call_id ? begin_again(engine, r, c, fn, ctx, e) : 0;
	if (again)
		return again < 0 ? -1 : 0;
	if (turn_open_of_caller(engine, r->turn_id, c, &text, &t, e) < 0)
		return -1;
	if (!turn_driven_by_client(&t))
		return err_set(e, ERR_STATE,
			       "turn '%s' is run by the runtime; only turns with text have calls of their clients'",
			       t.turnId);
	if (t.openCalls != VIEW_ABSENT && t.openCalls >= OPEN_MAX)
		return err_set(e, ERR_EXHAUSTED, "turn '%s' has %u open tool calls already", t.turnId, OPEN_MAX);
	if (strlen(r->tool) > TOOL_NAME_MAX)
		return err_field(e, "toolName", "must have at most %u bytes", TOOL_NAME_MAX);
	const struct tool_use use = { .tool = r->tool,
				      .arguments = r->arguments,
				      .part = -1,
				      .call_id = r->call_id,
				      .runner = "client",
				      .request_id = c->request_id,
				      .by = requester_of(c),
				      .connection = c->connection };
	tool_check_permission(engine, t.turnId, &use, TOOL_FROM_REPORT, 0, c, fn, ctx);
	return 0;
}

/* Status started begins a call; progress, completed, failed and cancelled are about one that has begun. */
void engine_report_tool_call(struct engine *engine, const struct tool_report *r, const struct caller *c,
			     engine_reply_fn fn, void *ctx)
{
	const bool begins = strcmp(r->status, "started") == 0, progress = strcmp(r->status, "progress") == 0,
		   cancelled = strcmp(r->status, "cancelled") == 0;
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc call;
	struct err e = ERR_INIT;

	if (begins && begin_report(engine, r, c, fn, ctx, &e) == 0)
		return;
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	if (!begins && !r->call_id)
		err_field(&e, "toolCallId", "missing");
	if (e.code || tool_call_of_caller(engine, r->call_id, c, &text, &call, &e) < 0 ||
	    check_reporter(&call, c, &e) < 0)
		return transaction_reject(tx, &e);
	if (progress) {
		mem_auto char *preview = preview_of(r->preview ? r->preview : r->message);
		struct scope s = tool_call_scope(&call);

		s.request = c->request_id;
		EMIT(tool_progress, tx, s, .preview = preview);
	} else if (r->message && strlen(r->message) > MESSAGE_MAX) {
		err_field(&e, "message", "must have at most %u bytes", MESSAGE_MAX);
	} else if (strcmp(r->status, "completed") == 0) {
		result_report(&call, r, tx, &e);
	} else {
		const char *category = cancelled ? "cancelled" : "tool";
		const struct tool_failure why = { .status = cancelled ? "cancelled" : "failed",
						  .category = r->category ? r->category : category,
						  .message = r->message ? r->message : "reported by its owner",
						  .advice = r->advice,
						  .retryable = r->retryable };

		tool_failed_fact(&call, &why, tx);
	}
	if (e.code)
		return transaction_reject(tx, &e);
	/* The hooks run before the waiting clients get the result. */
	if (!progress)
		tool_hooks_follow(tx, call.toolCallId);
	jw_kstr(&tx->w, "toolCallId", r->call_id);
	jw_kstr(&tx->w, "status", progress ? "running" : r->status);
	transaction_commit(tx);
}
