/* Tool calls: their facts from the first to the last, and the steps that follow each. */

#include "runtime/engine/call/tool_call.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/session/waiter.h"

/* ---- the start ---- */

/* Values of environment variables may be secrets, so events only show the names. */
json_t *tool_safe_arguments(const json_t *arguments, bool *ret_changed)
{
	json_t *env = json_object_get(arguments, "env"), *copy, *names, *v;
	const char *name;

	*ret_changed = false;
	if (!json_is_object(env))
		return json_incref((json_t *)(uintptr_t)arguments);
	copy = json_copy((json_t *)(uintptr_t)arguments);
	names = json_object();
	json_object_foreach (env, name, v)
		json_object_set_new(names, name, json_is_null(v) ? json_null() : json_string("(not shown)"));
	json_object_set_new(copy, "env", names);
	*ret_changed = true;
	return copy;
}

/* Sorted keys: the hash must not depend on the order in which a client writes the arguments. */
void tool_arguments_hash(const json_t *arguments, char ret[HASH_SHA256_TEXT])
{
	mem_auto char *text = arguments ? json_dumps(arguments, JSON_COMPACT | JSON_SORT_KEYS) : mem_strdup("{}");

	hash_sha256_text(text, strlen(text), ret);
}

/* tool.args: what may be shown of the arguments, their hash, and a ref to the whole if that is not all. */
static void args_fact(const struct tool_call_doc *d, const struct tool_use *u, struct transaction *tx)
{
	json_t *none = json_object(), *safe;
	const json_t *given = u->arguments ? u->arguments : none;
	mem_auto char *whole = json_dumps(given, JSON_COMPACT), *shown = NULL;
	char ref[ID_TEXT_MAX] = "", hash[HASH_SHA256_TEXT];
	struct scope s = tool_call_scope(d);
	bool changed;

	if (!u->arguments_hash[0])
		tool_arguments_hash(given, hash);
	safe = tool_safe_arguments(given, &changed);
	shown = json_dumps(safe, JSON_COMPACT);
	/* Arguments with hidden values are stored whole behind a ref, because the call needs them. */
	bool by_ref = changed || strlen(whole) > TOOL_ARGS_INLINE;
	if (by_ref) {
		id_make(ID_KIND_OUTPUT, ref);
		transaction_add_output(tx, ref, whole, strlen(whole));
	}
	s.request = u->request_id;
	EMIT(tool_args, tx, s, .safeArgs = strlen(shown) <= TOOL_ARGS_INLINE ? json_from_text(shown) : JSON_NONE,
	     .argumentsHash = u->arguments_hash[0] ? u->arguments_hash : hash, .inputRef = none_if_empty(ref),
	     .inputBytes = opt_int_if(by_ref, strlen(whole)));
	json_decref(safe);
	json_decref(none);
}

void tool_call_doc_of(const struct turn_doc *t, const struct tool_use *u, struct tool_call_doc *ret)
{
	view_clear(&tool_call_schema, ret);
	if (u->call_id)
		id_copy(ret->toolCallId, u->call_id);
	else
		id_make(ID_KIND_TOOL_CALL, ret->toolCallId);
	id_make(ID_KIND_STEP, ret->stepId);
	id_copy(ret->sessionId, t->sessionId);
	id_copy(ret->threadId, t->threadId);
	id_copy(ret->turnId, t->turnId);
	id_copy(ret->taskId, t->taskId);
	id_copy(ret->traceId, t->traceId);
	ret->uid = t->uid;
}

static void write_flags(struct jw *w, const void *tool, size_t n) { tool_flags_json(tool, w); }

/*
 * tool.started is durable: the tool runs. Once in the life of a runtime: a call that began just before tool_recover is
 * found by it, too, and tool.started may become durable later than that.
 */
static void start_call(struct engine *engine, const char *call_id)
{
	if (!strmap_put(&engine->calls->begun, call_id, engine))
		modules_due(engine, DUE_CALL_START, call_id);
}

/*
 * The order matters to readers: the catalogue of tools that the turn can use, tool.started, then tool.args. Nothing
 * runs before they are durable.
 */
void tool_call_begin(struct transaction *tx, const struct turn_doc *t, const struct tool_use *u, char ret_call[ID_SIZE])
{
	struct tool tool;
	bool known = tool_find(tx->engine, u->tool, (struct tool_scope){ (uint32_t)t->uid, t->sessionId }, &tool);
	struct tool_use use = *u;
	struct tool_call_doc doc;

	/* The owner disconnected after the check; tool_process_start then fails the call. */
	if (!known && !u->runner)
		use.runner = "external";
	tool_call_doc_of(t, &use, &doc);
	if (!t->catalog)
		tool_catalog_fact(tx->engine, t, tx);
	/* A call that the client reports has no registered tool: its owner is the client itself. */
	const struct tool *of = known && !u->runner ? &tool : NULL;
	const bool builtin = of && of->builtin;
	const char *runner = builtin ? "runtime" : "external";
	struct scope s = tool_call_scope(&doc);
	s.request = u->request_id;
	EMIT(tool_started, tx, s, .envelope.status = "running", .toolName = u->tool,
	     .runner = use.runner ? use.runner : runner,
	     .owner = JSON_OBJECT(owner, .kind = builtin ? "runtime" : "client",
				  .uid = opt_int_if(!builtin, of ? of->uid : u->by.uid),
				  .connection = opt_int_if(!builtin, of ? of->connection : u->connection)),
	     .flags = of ? json_from_writer(write_flags, of, 0) : JSON_NONE,
	     .policy = JSON_OBJECT(tool_policy,
				   .sandbox = builtin && of->runs != TOOL_RUNS_ENGINE ? "turn" : "not_applicable"),
	     .part = opt_int_if(u->part >= 0, u->part), .requestedBy = json_requester(&u->by));
	args_fact(&doc, &use, tx);
	if (!u->runner)
		transaction_after_commit(tx, start_call, doc.toolCallId);
	if (ret_call)
		id_copy(ret_call, doc.toolCallId);
}

/* ---- the end ---- */

const char *tool_advice(const char *category)
{
	static const struct {
		const char *category, *advice;
	} rows[] = {
		{ "permission", "ask for permission, or for less" },
		{ "sandbox", "see the process's violations; a wider profile needs an operator" },
		{ "timeout", "give it more time (limits.wallMs), or less to do" },
		{ "cancelled", "submit it again if it is still wanted" },
		{ "exit", "read the output: the command itself reported failure" },
		{ "spawn", "check the command's name and working directory" },
		{ "lost", "check what it may have done before running it again" },
		{ "transport", "it did not run, because its sandbox ended while it waited: call it again" },
		{ "owner_gone", "the client that offers the tool must connect and register it again" },
		{ "unavailable", "connect as that user once, then try again" },
		{ "tool", "correct the arguments" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		if (strcmp(rows[i].category, category) == 0)
			return rows[i].advice;
	return NULL;
}

/* Also used for a call that never started: its document then exists only as a prediction (tool_call_doc_of). */
void tool_failed_fact(const struct tool_call_doc *d, const struct tool_failure *why, struct transaction *tx)
{
	EMIT(tool_failed, tx, tool_call_scope(d), .envelope = { .status = why->status, .status_reason = why->message },
	     .category = why->category, .message = why->message, .retryable = opt_bool(why->retryable),
	     .advice = why->advice ? why->advice : tool_advice(why->category),
	     .part = opt_int_if(d->part != VIEW_ABSENT, d->part), .permissionRef = why->permission, .stage = why->stage,
	     .toolName = why->tool, .argumentsHash = why->arguments_hash);
}

void tool_call_fail(struct engine *engine, const char *call_id, const struct tool_failure *why)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	/* Harmless when repeated: the first end counts. */
	if (tool_call_read(engine, call_id, &text, &d, &e) != 0 || d.endedAt)
		return;
	strmap_del(&engine->calls->hooked, call_id); /* of an end that could not be stored */
	struct transaction *own = transaction_new_internal(engine);
	tool_failed_fact(&d, why, own);
	transaction_after_commit(own, tool_call_ended, call_id);
	transaction_commit(own);
}

void tool_call_fail_as(struct engine *engine, const char *call_id, const char *category, const char *message)
{
	const struct tool_failure why = { .status = "failed", .category = category, .message = message };

	tool_call_fail(engine, call_id, &why);
}

/*
 * The id of the turn is copied because a reply may release the document that it was read from. The process of a call
 * may end while the hooks of the call still run; they continue here.
 */
void tool_call_ended(struct engine *engine, const char *call_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;
	char turn[ID_SIZE];

	if (strmap_get(&engine->calls->hooked, call_id) || tool_call_read(engine, call_id, &text, &d, &e) != 0)
		return;
	id_copy(turn, d.turnId);
	strmap_del(&engine->calls->begun, d.toolCallId);
	tool_waiters_answer(engine, call_id);
	modules_due(engine, DUE_TURN_STEP, turn);
}

/* ---- many calls ---- */

void tool_cancel_of_turn(struct engine *engine, const char *turn_id, const char *reason)
{
	const struct tool_failure why = { .status = "cancelled", .category = "cancelled", .message = reason };
	view_ids_auto struct view_ids calls = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	id_list_read(engine, VIEW_TURN_OPEN_CALL, turn_id, ID_LIST_ALL, &calls);
	for (size_t i = 0; i < calls.n; i++)
		/* A call whose process is being launched ends with that process. */
		if (tool_call_read(engine, calls.id[i], &text, &d, &e) == 0 &&
		    (strcmp(d.runner, "runtime") != 0 || tool_is_about_process(d.toolName)))
			tool_call_fail(engine, calls.id[i], &why);
}

/* Fails the calls whose tool this connection executed. */
void tool_owner_disconnected(struct engine *engine, uint64_t connection)
{
	static const struct tool_failure why = { .status = "lost",
						 .category = "owner_gone",
						 .retryable = true,
						 .message = "the client that executes this tool has disconnected" };
	view_ids_auto struct view_ids calls = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	id_list_read(engine, VIEW_LIVE_TOOL_CALL, NULL, ID_LIST_ALL, &calls);
	for (size_t i = 0; i < calls.n; i++)
		if (tool_call_read(engine, calls.id[i], &text, &d, &e) == 0 && strcmp(d.runner, "external") == 0 &&
		    d.connection == connection)
			tool_call_fail(engine, calls.id[i], &why);
}

void tool_recover(struct engine *engine)
{
	static const struct tool_failure gone = { .status = "lost",
						  .category = "owner_gone",
						  .retryable = true,
						  .message = "the daemon was restarted, which closed the connection of "
							     "the client that executes this tool" };
	static const struct tool_failure lost = {
		.status = "lost", .category = "lost", .retryable = true, .message = "the process was lost"
	};
	/* Input and signals are not repeated. */
	static const struct tool_failure unknown = { .status = "lost",
						     .category = "lost",
						     .message = "the daemon was restarted; it may have been sent" };
	view_ids_auto struct view_ids calls = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	id_list_read(engine, VIEW_LIVE_TOOL_CALL, NULL, ID_LIST_ALL, &calls);
	for (size_t i = 0; i < calls.n; i++) {
		if (tool_call_read(engine, calls.id[i], &text, &d, &e) != 0)
			continue;
		if (strcmp(d.runner, "external") == 0)
			tool_call_fail(engine, calls.id[i], &gone);
		else if (strcmp(d.runner, "runtime") == 0 && tool_sends_to_process(d.toolName))
			tool_call_fail(engine, calls.id[i], &unknown);
		else if (strcmp(d.runner, "runtime") == 0 && !d.processId[0])
			start_call(engine, calls.id[i]); /* its process never passed the gate: nothing has run */
		else if (strcmp(d.runner, "runtime") == 0 && !engine_process(engine, d.processId))
			tool_call_fail(engine, calls.id[i], &lost);
	}
}
