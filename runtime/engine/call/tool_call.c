/* Tool calls: their facts from the first to the last, and the steps that follow each. */

#include "runtime/engine/call/tool_call.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
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

static void started_fact(const struct tool_call_doc *d, const struct tool *tool, const struct tool_use *u,
			 struct transaction *tx)
{
	bool builtin = tool && tool->builtin;
	struct scope s = tool_call_scope(d);

	s.request = u->request_id;
	EMIT(tool_started, tx, s, .envelope.status = "running", .toolName = u->tool,
	     .runner = u->runner ? u->runner
		       : builtin ? "runtime"
				 : "external",
	     .owner = JSON_OBJECT(owner, .kind = builtin ? "runtime" : "client",
				  .uid = opt_int_if(!builtin, tool ? tool->uid : u->by.uid),
				  .connection = opt_int_if(!builtin, tool ? tool->connection : u->connection)),
	     .flags = tool ? json_from_writer(write_flags, tool, 0) : JSON_NONE,
	     .policy = JSON_OBJECT(tool_policy, .sandbox = builtin ? "turn" : "not_applicable"),
	     .part = opt_int_if(u->part >= 0, u->part), .requestedBy = json_requester(&u->by));
}

/* tool.started is durable: the tool runs. */
static void start_call(struct engine *g, const char *call_id) { modules_due(g, DUE_CALL_START, call_id); }

void tool_call_begin(struct transaction *tx, const struct turn_doc *t, const struct tool_use *u, char ret_call[ID_SIZE])
{
	struct engine *g = tx->engine;
	struct tool tool;
	bool known = tool_find(g, u->tool, (struct tool_scope){ (uint32_t)t->uid, t->sessionId }, &tool);
	struct tool_use use = *u;
	struct tool_call_doc doc;

	/* The owner disconnected after the check; tool_process_start then fails the call. */
	if (!known && !u->runner)
		use.runner = "external";
	tool_call_doc_of(t, &use, &doc);
	if (!t->catalog)
		tool_catalog_fact(g, t, tx);
	started_fact(&doc, known && !u->runner ? &tool : NULL, &use, tx);
	args_fact(&doc, &use, tx);
	if (!u->runner)
		transaction_after_commit(tx, start_call, doc.toolCallId);
	if (ret_call)
		id_copy(ret_call, doc.toolCallId);
}

/* ---- the end ---- */

/* The advice that is the same for all failures of a category; NULL = none. */
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
		{ "lost", "look at what it may have done before running it again" },
		{ "owner_gone", "the client that offers the tool must connect and register it again" },
		{ "unavailable", "connect as that user once, then try again" },
		{ "tool", "correct the arguments" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		if (strcmp(rows[i].category, category) == 0)
			return rows[i].advice;
	return NULL;
}

void tool_failed_fact(const struct tool_call_doc *d, const struct tool_failure *why, struct transaction *tx)
{
	EMIT(tool_failed, tx, tool_call_scope(d), .envelope = { .status = why->status, .status_reason = why->message },
	     .category = why->category, .message = why->message, .retryable = opt_bool(why->retryable),
	     .advice = why->advice ? why->advice : tool_advice(why->category),
	     .part = opt_int_if(d->part != VIEW_ABSENT, d->part), .stage = why->stage, .toolName = why->tool,
	     .argumentsHash = why->arguments_hash);
}

void tool_call_fail(struct engine *g, const char *call_id, const struct tool_failure *why)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	/* Harmless when repeated: the first end counts. */
	if (tool_call_read(g, call_id, &text, &d, &e) != 0 || d.endedAt)
		return;
	struct transaction *own = transaction_new_internal(g);
	tool_failed_fact(&d, why, own);
	transaction_after_commit(own, tool_call_ended, call_id);
	transaction_commit(own);
}

void tool_call_ended(struct engine *g, const char *call_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;
	char turn[ID_SIZE];

	if (tool_call_read(g, call_id, &text, &d, &e) != 0)
		return;
	id_copy(turn, d.turnId);
	tool_waiters_answer(g, call_id);
	modules_due(g, DUE_TURN_STEP, turn);
}

/* ---- many calls ---- */

struct call_list {
	char (*ids)[ID_SIZE];
	size_t count, cap;
};

static bool add_call(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct call_list *l = ctx;
	const char *slash = memrchr(id, '/', id_len);
	const char *call = slash ? slash + 1 : id;
	size_t n = id_len - (size_t)(call - id);

	if (l->count == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->ids = mem_realloc(l->ids, l->cap * sizeof l->ids[0]);
	}
	if (n < ID_SIZE) {
		memcpy(l->ids[l->count], call, n);
		l->ids[l->count++][n] = '\0';
	}
	return true;
}

static void list_calls(struct engine *g, enum view_kind kind, const char *prefix, struct call_list *ret)
{
	struct err e = ERR_INIT;

	*ret = (struct call_list){ 0 };
	if (store_model_scan_speculative(g->o.store, (uint8_t)kind, prefix, add_call, ret, &e) < 0)
		log_error("look for open tool calls: %s", e.message);
}

static bool has_process(struct engine *g, const struct tool_call_doc *d)
{
	return d->processId[0] && engine_process(g, d->processId);
}

void tool_cancel_of_turn(struct engine *g, const char *turn_id, const char *reason)
{
	const struct tool_failure why = { .status = "cancelled", .category = "cancelled", .message = reason };
	mem_auto char *prefix = mem_printf("%s/", turn_id);
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;
	struct call_list l;

	list_calls(g, VIEW_TURN_OPEN_CALL, prefix, &l);
	for (size_t i = 0; i < l.count; i++)
		/* A call whose process is being launched ends with that process. */
		if (tool_call_read(g, l.ids[i], &text, &d, &e) == 0 && strcmp(d.runner, "runtime") != 0)
			tool_call_fail(g, l.ids[i], &why);
	free(l.ids);
}

/* Fails the calls whose tool this connection executed. */
void tool_owner_disconnected(struct engine *g, uint64_t connection)
{
	static const struct tool_failure why = { .status = "lost",
						 .category = "owner_gone",
						 .retryable = true,
						 .message = "the client that does this tool has gone" };
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;
	struct call_list l;

	list_calls(g, VIEW_LIVE_TOOL_CALL, NULL, &l);
	for (size_t i = 0; i < l.count; i++)
		if (tool_call_read(g, l.ids[i], &text, &d, &e) == 0 && strcmp(d.runner, "external") == 0 &&
		    d.connection == connection)
			tool_call_fail(g, l.ids[i], &why);
	free(l.ids);
}

static void recover_call(struct engine *g, const char *call_id)
{
	static const struct tool_failure gone = {
		.status = "lost",
		.category = "owner_gone",
		.retryable = true,
		.message = "the daemon was restarted, and with it the connection of the client that does this tool"
	};
	static const struct tool_failure lost = {
		.status = "lost", .category = "lost", .retryable = true, .message = "the process was lost"
	};
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	if (tool_call_read(g, call_id, &text, &d, &e) != 0)
		return;
	if (strcmp(d.runner, "external") == 0)
		tool_call_fail(g, call_id, &gone);
	else if (strcmp(d.runner, "runtime") == 0 && !d.processId[0])
		start_call(g, call_id); /* its process never passed the gate, so nothing of it has run */
	else if (strcmp(d.runner, "runtime") == 0 && !has_process(g, &d))
		tool_call_fail(g, call_id, &lost);
}

void tool_recover(struct engine *g)
{
	struct call_list l;

	list_calls(g, VIEW_LIVE_TOOL_CALL, NULL, &l);
	for (size_t i = 0; i < l.count; i++)
		recover_call(g, l.ids[i]);
	free(l.ids);
}
