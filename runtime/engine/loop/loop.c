/* What is due in a turn that the loop drives. loop.h describes the module. */

#include "runtime/engine/loop/loop_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/turn_owner.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/work/work.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"

#define ATTEMPTS_MAX 5u /* of a request */
#define BACKOFF_MS 500u
#define BACKOFF_MOST_MS 30000u
#define PARALLEL_MAX 4u
#define REPEATS_ASK 3u /* a person is asked at each multiple of this */
#define WAITS_ASK 20u  /* … if the calls only wait for processes */
#define CALLS_SHOWN 300

/* ---- limits ---- */

static void read_cost(struct engine *engine, const struct turn_doc *t, struct cost_doc *ret)
{
	buf_auto struct buf text = BUF_INIT;
	char key[VIEW_COST_KEY];
	struct err e = ERR_INIT;

	cost_key(COST_OF_TURN, t->turnId, 0, 0, key);
	if (view_read_speculative(engine->o.store, &cost_schema, key, &text, ret, &e) != 0)
		view_clear(&cost_schema, ret);
}

/* True: the turn has made all of its requests, and was ended. Routing checks tokens and costs. */
static bool over_limit(struct engine *engine, const struct turn_doc *t)
{
	const uint64_t most = jval_uint(jval_get(t->loopLimits, "maxRequests"), TURN_REQUESTS_MAX);
	struct agent_usage below;

	subagent_usage(engine, t, &below);
	if (view_counted(t->requests) + below.requests >= most) {
		loop_fail(engine, t, "limit", false, "the turn has made %llu requests to models, which is its limit",
			  (unsigned long long)most);
		return true;
	}
	return false;
}

/* ---- requests ---- */

/* Begins the next request with these items (stolen). */
static void request(struct engine *engine, const struct turn_doc *t, struct loop_history *h, json_t *items,
		    unsigned attempt, const char *fallback)
{
	struct loop_ask ask = { .purpose = LOOP_TURN, .items = items, .attempt = attempt, .fallback = fallback };

	if (over_limit(engine, t)) {
		json_decref(items);
		return;
	}
	loop_add_processes(engine, t, h->items, false, items);
	ask.steered = loop_add_steers(engine, t, items);
	if (!loop_request(engine, t, h, &ask))
		loop_compact(engine, t, 1);
}

/* The first request of a turn: what an earlier turn left open, the surroundings, and the text of the turn. */
static void first_request(struct engine *engine, const struct turn_doc *t)
{
	loop_history_auto struct loop_history h = { 0 };
	json_t *items = json_array();
	struct err e = ERR_INIT;

	if (loop_history_read(engine, t, &h, &e) < 0) {
		json_decref(items);
		return loop_fail(engine, t, "store", false, "the conversation cannot be read: %s", e.message);
	}
	if (h.open && json_array_size(h.open)) {
		loop_add_results(engine, h.open, items);
		json_array_append_new(
			items, json_pack("{s:s,s:s}", "type", "note", "text", "The previous turn was interrupted."));
	}
	if (h.fresh)
		json_array_append_new(items, loop_environment(engine, t));
	loop_add_hook_context(engine, t, h.fresh, items);
	loop_add_instructions(engine, t, h.items, items);
	if (loop_add_input(engine, t, items, &e) < 0) {
		json_decref(items);
		return loop_fail(engine, t, "store", false, "%s", e.message);
	}
	request(engine, t, &h, items, 1, NULL);
}

/* A further request of the turn. `note` (or NULL) is for the model. */
static void next_request(struct engine *engine, const struct turn_doc *t, const json_t *calls, const char *note,
			 unsigned attempt, const char *fallback)
{
	loop_history_auto struct loop_history h = { 0 };
	json_t *items = json_array();
	struct err e = ERR_INIT;

	if (loop_history_read(engine, t, &h, &e) < 0) {
		json_decref(items);
		return loop_fail(engine, t, "store", false, "the conversation cannot be read: %s", e.message);
	}
	if (calls)
		loop_add_results(engine, calls, items);
	if (note)
		json_array_append_new(items, json_pack("{s:s,s:s}", "type", "note", "text", note));
	request(engine, t, &h, items, attempt, fallback);
}

/* ---- a request failed ---- */

static bool loop_waits(struct engine *engine, const char *turn_id)
{
	const struct loop_wait *w = strmap_get(&engine->loop->waits, turn_id);

	if (!w || w->due_ns <= engine_now(engine))
		return false;
	engine_wake(engine, w->due_ns);
	return true;
}

static uint64_t delay_ms(unsigned attempt, uint64_t asked)
{
	uint64_t wait = BACKOFF_MS;

	for (unsigned i = 1; i < attempt && wait < BACKOFF_MOST_MS; i++)
		wait *= 2;
	wait = wait < BACKOFF_MOST_MS ? wait : BACKOFF_MOST_MS;
	return asked > wait ? asked : wait;
}

/* Another model may succeed unless the request itself is at fault. */
static void give_up(struct engine *engine, const struct turn_doc *t, const struct model_request_doc *r,
		    const char *category, const char *message, unsigned attempt)
{
	static const char *const hopeless[] = { "invalid_request", "content_filter", "context_too_long", "cancelled",
						"program" };
	mem_auto char *why = mem_printf("%s (%s, attempt %u)", message[0] ? message : "the request failed", category,
					attempt);

	for (size_t i = 0; i < countof(hopeless); i++)
		if (strcmp(category, hopeless[i]) == 0 || jval_is_str(r->purpose, "compaction"))
			return loop_fail(engine, t, "model", jval_bool(r->retryable, false), "%s", why);
	next_request(engine, t, NULL, NULL, 1, why);
}

/* Waits before the next attempt, or gives up. The wait is in memory: after a restart it begins anew. */
static void retry(struct engine *engine, const struct turn_doc *t, const struct model_request_doc *r)
{
	const unsigned attempt = (unsigned)jval_uint(r->attempt, 1);
	const struct loop_wait *w = strmap_get(&engine->loop->waits, t->turnId);
	char message[400] = "", category[64] = "model";

	if (w) {
		free(strmap_del(&engine->loop->waits, t->turnId));
		if (jval_is_str(r->purpose, "compaction"))
			return loop_compact(engine, t, attempt + 1);
		return next_request(engine, t, NULL, NULL, attempt + 1, NULL);
	}
	if (jval_is_str(r->category, "context_too_long") && !jval_bool(r->base, false) &&
	    !jval_is_str(r->purpose, "compaction"))
		return loop_compact(engine, t, 1);
	const uint64_t asked = jval_uint(r->retryAfterMs, 0);
	jval_str(r->message, message, sizeof message);
	jval_str(r->category, category, sizeof category);
	if (!jval_bool(r->retryable, false) || attempt >= ATTEMPTS_MAX || asked > WAIT_MOST_MS)
		return give_up(engine, t, r, category, message, attempt);
	loop_wait(engine, t->turnId, delay_ms(attempt, asked));
}

/* The request is open and no process runs for it: the runtime died before it was started, or the process was lost. */
static void request_lost(struct engine *engine, const struct turn_doc *t, const struct model_request_doc *r)
{
	struct transaction *tx = transaction_new_internal(engine);
	struct scope s = turn_scope(t);

	s.model_request = t->lastRequestId;
	s.step = none_if_empty(r->stepId);
	EMIT(model_failed, tx, s,
	     .envelope = { .status = "lost", .status_reason = "the daemon was restarted before there was an answer" },
	     .category = "lost", .message = "the daemon was restarted before there was an answer",
	     .retryable = OPT_BOOL_TRUE);
	transaction_after_commit(tx, loop_step_due, t->turnId);
	transaction_commit(tx);
}

/* ---- an answer with calls ---- */

static const json_t *block_of(const json_t *answer, const char *id)
{
	const json_t *b;
	size_t i;

	json_array_foreach (json_object_get(answer, "blocks"), i, b)
		if (json_text_is(b, "type", "tool_call") && json_text_is(b, "id", id))
			return b;
	return NULL;
}

/* A call that cannot begin still has a result, so that the model can correct it. */
static void reject_call(struct engine *engine, const struct turn_doc *t, const struct tool_use *u, const struct err *e)
{
	mem_auto char *message = mem_printf("%s%s%s", e->field, e->field[0] ? ": " : "", e->message);
	const struct tool_failure why = {
		.status = "failed",
		.category = e->code == ERR_NOT_FOUND ? "unknown_tool" : "arguments",
		.message = message,
		.advice = "call a tool that was offered, with arguments that match its schema",
		.stage = "check",
		.tool = u->tool
	};
	struct transaction *tx = transaction_new_internal(engine);
	struct tool_call_doc d;

	tool_call_doc_of(t, u, &d);
	tool_failed_fact(&d, &why, tx);
	transaction_after_commit(tx, loop_step_due, t->turnId);
	transaction_commit(tx);
}

static void begin_call(struct engine *engine, const struct turn_doc *t, const json_t *answer, const json_t *call)
{
	const json_t *block = block_of(answer, json_get_text(call, "id"));
	struct tool_use use = { .tool = json_get_text(call, "name"),
				.arguments = json_object_get(block, "arguments"),
				.part = -1,
				.call_id = json_get_text(call, "toolCallId") };
	struct err e = ERR_INIT;

	turn_requester(t, &use.by);
	if (json_object_get(block, "malformed")) {
		err_field(&e, "arguments", "not a JSON object: %s", json_get_text(block, "malformed"));
		return reject_call(engine, t, &use, &e);
	}
	if (tool_check(engine, use.tool, use.arguments, (struct tool_scope){ (uint32_t)t->uid, t->sessionId }, &e) < 0)
		return reject_call(engine, t, &use, &e);
	if (tool_evaluated_first(engine, use.tool, (struct tool_scope){ (uint32_t)t->uid, t->sessionId })) {
		tool_check_permission(engine, t->turnId, &use, TOOL_FROM_LOOP, LIMIT_NONE, NULL, NULL, NULL);
		return;
	}
	struct transaction *tx = transaction_new_internal(engine);
	tool_call_begin(tx, t, &use, NULL);
	transaction_commit(tx);
}

enum call_progress { CALL_NEW, CALL_OPEN, CALL_ENDED, CALL_UNREADABLE };

static enum call_progress call_progress(struct engine *engine, const struct turn_doc *t, const char *id)
{
	buf_auto struct buf text = BUF_INIT;
	char hash[HASH_SHA256_TEXT], tool[ID_SIZE];
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	const int found = tool_call_read(engine, id, &text, &d, &e);
	if (found < 0)
		return CALL_UNREADABLE;
	/* A result can be read when it is durable, which is another step, and its hooks have answered. */
	if (found == 0)
		return d.endedAt && !tool_hooks_pending(engine, id) &&
				       view_read(engine->o.store, &tool_call_schema, id, &text, &d, &e) == 0 &&
				       d.endedAt
			       ? CALL_ENDED
			       : CALL_OPEN;
	return tool_not_begun(engine, t->turnId, id, hash, tool) ? CALL_OPEN : CALL_NEW;
}

/* Calls run in the order of the answer; neighbours that only read run in parallel. True: all of them have ended. */
static bool run_calls(struct engine *engine, const struct turn_doc *t, const struct model_request_doc *r,
		      const json_t *calls)
{
	const struct tool_scope in = { (uint32_t)t->uid, t->sessionId };
	json_auto_t *answer = NULL;
	struct err e = ERR_INIT;
	size_t i, open = 0;
	bool parallel = true;
	json_t *call;

	json_array_foreach (calls, i, call) {
		const char *id = json_get_text(call, "toolCallId"), *name = json_get_text(call, "name");
		enum call_progress state = call_progress(engine, t, id);

		if (state == CALL_NEW) {
			const bool fits = tool_is_parallel(engine, name, in) && parallel && open < PARALLEL_MAX;

			if (open && !fits)
				return false;
			if (!answer && !(answer = loop_load(engine, r->responseRef, &e))) {
				loop_fail(engine, t, "store", false, "the answer cannot be read: %s", e.message);
				return false;
			}
			begin_call(engine, t, answer, call);
			state = call_progress(engine, t, id);
		}
		/* It may have run: it must not begin again. */
		if (state == CALL_UNREADABLE) {
			loop_fail(engine, t, "store", false, "tool call %s cannot be read", id);
			return false;
		}
		if (state == CALL_ENDED)
			continue;
		open++;
		parallel = parallel && tool_is_parallel(engine, name, in);
	}
	return open == 0;
}

/* ---- repeated calls ---- */

static json_t *calls_in(const json_t *answer)
{
	json_t *calls = json_array();
	const json_t *b;
	size_t i;

	json_array_foreach (json_object_get(answer, "blocks"), i, b)
		if (json_text_is(b, "type", "tool_call"))
			json_array_append_new(calls, json_pack("{s:s,s:O}", "name", json_get_text(b, "name"),
							       "arguments", json_object_get(b, "arguments")));
	return calls;
}

/* How many answers in a row make the same calls, up to the last one; *ret_calls: which. New reference. */
static unsigned count_repeats(const json_t *items, json_t **ret_calls)
{
	unsigned n = 0;

	*ret_calls = NULL;
	for (size_t i = json_array_size(items); i-- > 0;) {
		const json_t *item = json_array_get(items, i);

		if (json_text_is(item, "type", "user"))
			break;
		if (!json_text_is(item, "type", "assistant"))
			continue;
		json_auto_t *calls = calls_in(item);
		if (*ret_calls && !json_equal(*ret_calls, calls))
			break;
		if (!*ret_calls)
			*ret_calls = json_incref(calls);
		n++;
	}
	return n;
}

/* Calls that wait for a process may have to be repeated. */
static bool only_wait(const json_t *calls)
{
	const json_t *call;
	size_t i;

	json_array_foreach (calls, i, call)
		if (!json_text_is(call, "name", "wait") && !json_text_is(call, "name", "screen"))
			return false;
	return true;
}

struct repeat_question {
	struct engine *engine;
	char turn_id[ID_SIZE];
};

/* If nobody can be asked, nobody has allowed it: the turn ends. */
static void on_asked(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct repeat_question *q = ctx;
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err unread = ERR_INIT;

	if (e && turn_read(q->engine, q->turn_id, &text, &t, &unread) == 0 && !turn_doc_ended(&t))
		loop_fail(q->engine, &t, "permission", false,
			  "the model repeats the same calls, and nobody can be asked about it: %s", e->message);
	free(q);
}

/* True: the model repeats itself, and a person was asked whether it may, or the turn was ended. A "no" ends it, too. */
static bool ask_about_repeats(struct engine *engine, const struct turn_doc *t)
{
	loop_history_auto struct loop_history h = { 0 };
	json_auto_t *calls = NULL;
	struct err e = ERR_INIT;

	if (view_counted(t->requests) < REPEATS_ASK)
		return false;
	if (loop_history_read(engine, t, &h, &e) < 0) {
		loop_fail(engine, t, "store", false, "the conversation cannot be read: %s", e.message);
		return true;
	}
	const unsigned n = count_repeats(h.items, &calls), most = only_wait(calls) ? WAITS_ASK : REPEATS_ASK;
	if (n < most || n % most || (uintptr_t)strmap_get(&engine->loop->repeats, t->turnId) == n)
		return false;
	strmap_put(&engine->loop->repeats, t->turnId, (void *)(uintptr_t)n);
	mem_auto char *text = json_dumps(calls, JSON_COMPACT);
	mem_auto char *prompt = mem_printf(
		"The model has made the same calls %u times in a row: %.*s. May it continue?", n,
		(int)text_utf8_cut(text, strnlen(text, CALLS_SHOWN)), text);
	const struct action_request r = { .turn_id = t->turnId, .action_type = "approval", .prompt = prompt };
	const struct caller c = { .uid = (uint32_t)t->uid, .role = ROLE_AGENT, .peer_fd = -1 };
	struct repeat_question *q = mem_zalloc(1, sizeof *q);
	q->engine = engine;
	id_copy(q->turn_id, t->turnId);
	engine_request_action(engine, &r, &c, on_asked, q);
	return true;
}

/* ---- an answer without calls ---- */

/* With that of its subagents. */
static json_t *usage_of(struct engine *engine, const struct turn_doc *t)
{
	struct agent_usage below;
	struct cost_doc d;

	read_cost(engine, t, &d);
	subagent_usage(engine, t, &below);
	return json_pack("{s:I,s:I,s:I,s:I,s:f}", "inputTokens",
			 (json_int_t)(view_counted(d.inputTokens) + below.input), "outputTokens",
			 (json_int_t)(view_counted(d.outputTokens) + below.output), "cachedTokens",
			 (json_int_t)(view_counted(d.cachedTokens) + below.cached), "requests",
			 (json_int_t)(view_counted(t->requests) + below.requests), "costUsd",
			 (double)(view_counted(d.microUsd) + below.micro_usd) / 1e6);
}

static void end_answered(struct engine *engine, const struct turn_doc *t, const struct model_request_doc *r)
{
	json_auto_t *usage = usage_of(engine, t);
	mem_auto char *usage_text = json_dumps(usage, JSON_COMPACT), *summary = jval_strdup(r->preview);
	const struct turn_end end = {
		.status = "completed", .outcome = "answered", .summary = none_if_empty(summary), .usage = usage_text
	};

	turn_finish(engine, t, &end);
}

/* True: hooks of calls that ended just before a restart run first; another step follows. */
static bool run_missed_hooks(struct engine *engine, const struct turn_doc *t, const json_t *calls)
{
	const size_t n = json_array_size(calls);

	if (!strmap_del(&engine->loop->recovered, t->turnId))
		return false;
	char(*ids)[ID_SIZE] = mem_zalloc(n + 1, sizeof *ids);
	for (size_t i = 0; i < n; i++)
		id_copy(ids[i], json_get_text(json_array_get(calls, i), "toolCallId"));
	const bool runs = tool_hooks_resume(engine, t->turnId, (const char(*)[ID_SIZE])ids, n);
	free(ids);
	return runs;
}

static void answered(struct engine *engine, const struct turn_doc *t, const struct model_request_doc *r)
{
	json_auto_t *calls = r->calls.type == JT_ARRAY ? json_loadb(r->calls.text, r->calls.len, 0, NULL) : NULL;

	if (json_array_size(calls)) {
		const char *first = json_get_text(json_array_get(calls, 0), "toolCallId");

		if (run_missed_hooks(engine, t, calls))
			return;
		if (call_progress(engine, t, first) == CALL_NEW && ask_about_repeats(engine, t))
			return;
		if (run_calls(engine, t, r, calls))
			next_request(engine, t, calls, NULL, 1, NULL);
		return;
	}
	uint64_t steers = 0;
	for (struct jiter it = jiter_on(t->steers); jiter_next(&it);)
		steers++;
	if (steers > view_counted(t->steered) && loop_durable_steers(engine, t) <= view_counted(t->steered))
		return; /* its commit is another step (engine_steer_turn) */
	if (steers > view_counted(t->steered) || jval_is_str(r->stopReason, "paused"))
		next_request(engine, t, NULL, NULL, 1, NULL);
	else if (jval_is_str(r->stopReason, "max_tokens"))
		next_request(engine, t, NULL,
			     "Your answer was cut off at the output limit. Continue, in smaller steps.", 1, NULL);
	else if (jval_is_str(r->stopReason, "refusal") || jval_is_str(r->stopReason, "filtered"))
		loop_fail(engine, t, "refusal", false, "the model declined to answer");
	else if (jval_is_str(r->stopReason, "context_full") && !jval_bool(r->base, false))
		loop_compact(engine, t, 1);
	else if (jval_is_str(r->stopReason, "context_full"))
		loop_fail(engine, t, "context", false, "the conversation does not fit into the model's context");
	else
		end_answered(engine, t, r);
}

/* ---- the module ---- */

static void phase_fact(struct engine *engine, const struct turn_doc *t, const char *phase, const char *title)
{
	struct transaction *tx = transaction_new_internal(engine);

	EMIT(run_status, tx, turn_scope(t), .envelope.phase = phase, .phase = phase, .title = title);
	transaction_commit(tx);
}

/* True: nothing can be started in the name of the turn's user yet. loop_client_connected continues. */
static bool held(struct engine *engine, const struct turn_doc *t)
{
	const bool waits = strcmp(t->phase, "waiting_resource") == 0;

	if (engine->o.ports->find_peer(engine->o.host, (uint32_t)t->uid) >= 0) {
		if (waits)
			phase_fact(engine, t, "running", "a client of its user has connected");
		return false;
	}
	strmap_put(&engine->loop->held, t->turnId, engine->loop);
	if (!waits)
		phase_fact(engine, t, "waiting_resource", "no client of its user has connected since the restart");
	return true;
}

void loop_drive(struct engine *engine, const struct turn_doc *t)
{
	buf_auto struct buf text = BUF_INIT;
	struct model_request_doc r;
	struct err e = ERR_INIT;

	/* A request is on its way, a person has to answer first, or hooks decide about the end: another step follows.
	 */
	if (engine->stopping || loop_stream_of(engine, t->turnId) || view_counted(t->openActions) ||
	    turn_stop_pending(engine, t->turnId) || held(engine, t) || loop_waits(engine, t->turnId))
		return;
	if (!t->lastRequestId[0]) {
		if (!loop_read_instructions(engine, t))
			first_request(engine, t);
		return;
	}
	if (loop_request_read(engine, t, t->lastRequestId, &text, &r, &e) != 0)
		return loop_fail(engine, t, "store", false, "the last request cannot be read: %s", e.message);
	if (strcmp(r.status, "open") == 0) {
		mem_auto char *process = jval_strdup(r.processId);

		if (!process || !engine_process(engine, process))
			request_lost(engine, t, &r);
		return;
	}
	/* Any process of the turn may end now, which is a step, too: the commit of the answer is another. */
	if (!loop_request_has_ended(engine, t, t->lastRequestId))
		return;
	if (strcmp(r.status, "completed") != 0)
		retry(engine, t, &r);
	else if (jval_is_str(r.purpose, "compaction"))
		loop_compacted(engine, t, &r);
	else
		answered(engine, t, &r);
}

struct due_turns {
	uint64_t now, next;
	char (*id)[ID_SIZE];
	size_t count;
};

static void find_due(void *ctx, const char *id, void *value)
{
	const struct loop_wait *w = value;
	struct due_turns *d = ctx;

	if (w->due_ns > d->now) {
		d->next = w->due_ns < d->next ? w->due_ns : d->next;
		return;
	}
	d->id = mem_realloc(d->id, (d->count + 1) * sizeof *d->id);
	id_copy(d->id[d->count++], id);
}

/* The turn has ended: nothing of it waits any longer. */
static void forget(struct engine *engine, const char *turn_id)
{
	free(strmap_del(&engine->loop->waits, turn_id));
	strmap_del(&engine->loop->repeats, turn_id);
	strmap_del(&engine->loop->held, turn_id);
	strmap_del(&engine->loop->recovered, turn_id);
}

void loop_on_turn_completed(struct transaction *tx, const struct scope *s, const struct turn_completed *p)
{
	forget(tx->engine, s->turn);
}

void loop_on_turn_failed(struct transaction *tx, const struct scope *s, const struct turn_failed *p)
{
	forget(tx->engine, s->turn);
}

uint64_t loop_tick(struct engine *engine, uint64_t now)
{
	struct due_turns due = { .now = now, .next = UINT64_MAX };

	if (engine->stopping)
		return UINT64_MAX;
	strmap_each(&engine->loop->waits, find_due, &due);
	for (size_t i = 0; i < due.count; i++)
		loop_step_due(engine, due.id[i]);
	free(due.id);
	const uint64_t forget = loop_history_forget(engine, now);
	return forget < due.next ? forget : due.next;
}

static void let_go(void *ctx, const char *turn_id, void *value)
{
	struct engine *engine = ctx;

	strmap_del(&engine->loop->held, turn_id);
	loop_step_due(engine, turn_id);
}

void loop_client_connected(struct engine *engine) { strmap_visit(&engine->loop->held, let_go, engine); }

void engine_steer_turn(struct engine *engine, const struct turn_steer *r, const struct caller *c, engine_reply_fn fn,
		       void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT, steers = BUF_INIT;
	struct jw w = jw_on(&steers);
	struct err e = ERR_INIT;
	char ref[ID_TEXT_MAX], preview[257];
	struct turn_doc t;

	if (turn_open_of_caller(engine, r->turn_id, c, &text, &t, &e) < 0)
		return transaction_reject(tx, &e);
	if (!turn_driven_by_loop(&t)) {
		err_set(&e, ERR_STATE, "turn '%s' is not driven by the loop: submit another turn instead", t.turnId);
		return transaction_reject(tx, &e);
	}
	const struct requester by = requester_of(c);
	struct scope s = turn_scope(&t);
	size_t n = strlen(r->input);
	id_make(ID_KIND_OUTPUT, ref);
	jw_arr(&w);
	for (struct jiter it = jiter_on(t.steers); jiter_next(&it);)
		jw_raw(&w, it.value.text, it.value.len);
	jw_str(&w, ref);
	jw_arr_end(&w);
	n = text_utf8_cut(r->input, n < sizeof preview ? n : sizeof preview - 1);
	memcpy(preview, r->input, n);
	preview[n] = '\0';
	s.request = c->request_id;
	EMIT(turn_steered, tx, s, .inputRef = ref, .inputBytes = (int64_t)strlen(r->input), .preview = preview,
	     .steers = json_from_buf(&steers), .requestedBy = json_requester(&by));
	transaction_add_output(tx, ref, r->input, strlen(r->input));
	transaction_after_commit(tx, loop_step_due, t.turnId);
	jw_kstr(&tx->w, "turnId", t.turnId);
	jw_kstr(&tx->w, "status", "accepted");
	transaction_commit(tx);
}

void loop_recover(struct engine *engine)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_LIVE_TURN, NULL, ID_LIST_ALL, &turns);
	for (size_t i = 0; i < turns.n; i++)
		strmap_put(&engine->loop->recovered, turns.id[i], engine->loop);
}

void loop_init(struct engine *engine) { engine->loop = mem_zalloc(1, sizeof *engine->loop); }

static void free_stream(void *ctx, const char *id, void *value) { loop_stream_free(value); }

static void free_wait(void *ctx, const char *id, void *value) { free(value); }

void loop_done(struct engine *engine)
{
	strmap_each(&engine->loop->streams, free_stream, NULL);
	strmap_each(&engine->loop->waits, free_wait, NULL);
	strmap_done(&engine->loop->streams);
	strmap_done(&engine->loop->waits);
	strmap_done(&engine->loop->reading);
	strmap_done(&engine->loop->repeats);
	strmap_done(&engine->loop->held);
	strmap_done(&engine->loop->recovered);
	(void)loop_history_forget(engine, UINT64_MAX);
	loop_tools_forget(engine);
	free(engine->loop);
}
