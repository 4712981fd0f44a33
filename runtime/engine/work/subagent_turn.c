/*
 * The tool subagent: a prompt that another turn of the loop works on, in a thread of its own below that of the caller.
 * The turn's end, the end of the subagent and the result of the call are one commit. A restart finds the call open and
 * submits the turn again unless it exists. The turn has the options of its parent, so that it may do nothing that the
 * parent may not, and gets what is left of its parent's limits; what it uses counts for the parent as well.
 */

#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/work/agent_turn.h"
#include "runtime/engine/work/subagent_private.h"
#include "runtime/view/view.h"

/* ---- limits ---- */

static uint64_t limit_of(const struct turn_doc *t, const char *name, uint64_t otherwise)
{
	return jval_uint(jval_get(t->loopLimits, name), otherwise);
}

/* How many subagents the thread is below. */
static uint64_t depth_of(struct engine *engine, const char *thread_id)
{
	buf_auto struct buf text = BUF_INIT;
	char id[ID_SIZE];
	uint64_t n = 0;

	id_copy(id, thread_id);
	while (n < SUBAGENT_DEPTH_MAX) {
		struct thread_doc d;
		struct err e = ERR_INIT;

		if (view_read_speculative(engine->o.store, &thread_schema, id, &text, &d, &e) != 0 ||
		    !jval_is_str(d.origin, "subagent"))
			break;
		jval_str(d.parentThreadId, id, sizeof id);
		n++;
	}
	return n;
}

bool subagent_may_call(struct engine *engine, const struct turn_doc *t)
{
	uint64_t most = limit_of(t, "subagentDepth", SUBAGENT_DEPTH);

	return depth_of(engine, t->threadId) < (most < SUBAGENT_DEPTH_MAX ? most : SUBAGENT_DEPTH_MAX) &&
	       limit_of(t, "maxSubagents", SUBAGENTS_OF_TURN) > 0;
}

void subagent_usage(struct engine *engine, const struct turn_doc *t, struct agent_usage *ret)
{
	view_ids_auto struct view_ids children = VIEW_IDS_INIT;

	*ret = (struct agent_usage){ 0 };
	id_list_read(engine, VIEW_THREAD_SUBAGENT, t->threadId, ID_LIST_ALL, &children);
	for (size_t i = 0; i < children.n; i++) {
		buf_auto struct buf text = BUF_INIT, turn_text = BUF_INIT;
		struct agent_usage below;
		struct subagent_doc d;
		struct turn_doc child;
		struct err e = ERR_INIT;
		char turn[ID_SIZE];

		if (!subagent_doc_of(engine, children.id[i], &text, &d) || strcmp(d.parentTurnId, t->turnId) != 0 ||
		    !subagent_turn_of(&d, turn))
			continue;
		ret->subagents++;
		agent_turn_usage(engine, turn, ret);
		if (turn_read(engine, turn, &turn_text, &child, &e) != 0)
			continue;
		subagent_usage(engine, &child, &below);
		ret->requests += below.requests;
		ret->input += below.input;
		ret->output += below.output;
		ret->cached += below.cached;
		ret->micro_usd += below.micro_usd;
	}
}

/* The limits of a subagent: what is left of its parent's. NULL with e: nothing is. */
static json_t *share_of(struct engine *engine, const struct turn_doc *t, struct err *e)
{
	const uint64_t requests = limit_of(t, "maxRequests", TURN_REQUESTS_MAX), tokens = limit_of(t, "maxTokens", 0),
		       most = limit_of(t, "maxSubagents", SUBAGENTS_OF_TURN);
	struct jval cost = jval_get(t->loopLimits, "maxCostUsd");
	struct agent_usage used;

	subagent_usage(engine, t, &used);
	if (used.subagents >= most)
		err_set(e, ERR_EXHAUSTED, "the turn has had %llu subagents, which is its limit",
			(unsigned long long)most);
	agent_turn_usage(engine, t->turnId, &used);
	/* One request is kept for the answer of the parent. */
	if (!e->code && used.requests + 1 >= requests)
		err_set(e, ERR_EXHAUSTED, "the turn may make %llu requests to models, and none is left for a subagent",
			(unsigned long long)requests);
	if (!e->code && tokens && used.input + used.output >= tokens)
		err_set(e, ERR_EXHAUSTED, "the turn's limit of %llu tokens is reached", (unsigned long long)tokens);
	json_t *limits = json_pack("{s:I}", "maxRequests", (json_int_t)(requests - used.requests - 1));
	if (tokens)
		json_object_set_new(limits, "maxTokens", json_integer((json_int_t)(tokens - used.input - used.output)));
	if (cost.type == JT_NUMBER) {
		char text[32];

		snprintf(text, sizeof text, "%.*s", (int)cost.len, cost.text);
		const double left = strtod(text, NULL) - (double)used.micro_usd / 1e6;
		if (!e->code && left <= 0)
			err_set(e, ERR_EXHAUSTED, "the turn's limit of %s USD is reached", text);
		json_object_set_new(limits, "maxCostUsd", json_real(left));
	}
	json_object_set_new(limits, "maxSubagents", json_integer((json_int_t)most));
	json_object_set_new(limits, "subagentDepth",
			    json_integer((json_int_t)limit_of(t, "subagentDepth", SUBAGENT_DEPTH)));
	if (!e->code)
		return limits;
	json_decref(limits);
	return NULL;
}

/* ---- the start ---- */

static void fail_call(struct engine *engine, const char *call_id, const char *category, const char *message)
{
	const struct tool_failure why = {
		.status = "failed", .category = category, .message = message, .advice = "do the work yourself"
	};

	tool_call_fail(engine, call_id, &why);
}

struct submitted {
	struct engine *engine;
	char subagent_id[ID_SIZE], call_id[ID_SIZE], turn_id[ID_SIZE];
};

/* A turn that exists ends with facts; without one, the subagent and the call end here. */
static void on_submitted(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct submitted *s = ctx;
	buf_auto struct buf text = BUF_INIT, turn_text = BUF_INIT;
	struct subagent_doc d;
	struct turn_doc t;
	struct err none = ERR_INIT;

	if (e && !s->engine->stopping && turn_read(s->engine, s->turn_id, &turn_text, &t, &none) != 0 &&
	    subagent_doc_of(s->engine, s->subagent_id, &text, &d) && !subagent_doc_ended(&d)) {
		struct transaction *tx = transaction_new_internal(s->engine);

		EMIT(subagent_failed, tx, subagent_scope(&d, NULL, NULL),
		     .envelope = { .status = "failed", .status_reason = e->message }, .category = "spawn",
		     .message = e->message);
		transaction_after_commit(tx, subagent_ended, d.subagentId);
		transaction_commit(tx);
		fail_call(s->engine, s->call_id, "tool", e->message);
	}
	free(s);
}

/* The facts of the subagent are durable. Repeated after a restart. */
static void submit_turn(struct engine *engine, const char *subagent_id)
{
	buf_auto struct buf text = BUF_INIT, call_text = BUF_INIT, turn_text = BUF_INIT;
	char call[ID_SIZE] = "", turn[ID_SIZE];
	struct tool_call_doc c;
	struct subagent_doc d;
	struct turn_doc t;
	struct requester by;
	struct err e = ERR_INIT;

	if (!subagent_doc_of(engine, subagent_id, &text, &d) || !subagent_turn_of(&d, turn))
		return;
	jval_str(jval_get(d.start, "toolCallId"), call, sizeof call);
	if (subagent_doc_ended(&d)) { /* closed before its turn existed: nothing else would end the call */
		if (tool_call_read(engine, call, &call_text, &c, &e) == 0 && !c.endedAt)
			fail_call(engine, call, "cancelled", "the subagent was ended before it began");
		return;
	}
	if (agent_turn_open(engine, turn) || tool_call_read(engine, call, &call_text, &c, &e) != 0 || c.endedAt ||
	    turn_read(engine, d.parentTurnId, &turn_text, &t, &e) != 0)
		return;
	json_auto_t *args = tool_call_arguments(engine, &c, &e), *options = turn_part_merged(engine, &t, NULL),
		    *limits = json_loadb(d.modelPolicy.text, d.modelPolicy.len, 0, NULL);
	mem_auto char *model = jval_strdup(t.model);
	if (!args)
		return fail_call(engine, call, "store", e.message);
	if (jval_bool(jval_get(t.options, "editor"), false))
		json_object_set_new(options, "editor", json_true());
	turn_requester(&t, &by);
	const struct caller as = {
		.uid = by.uid, .pid = by.pid, .role = by.role, .peer_fd = -1, .trace_id = none_if_empty(t.traceId)
	};
	const struct turn_request r = { .session_id = d.sessionId,
					.thread_id = d.threadId,
					.turn_id = turn,
					.task_id = none_if_empty(d.taskId),
					.tool_call_id = call };
	const struct agent_prompt p = {
		.text = param_str(args, "prompt"), .model = model, .limits = limits, .options = options
	};
	struct submitted *s = mem_zalloc(1, sizeof *s);
	s->engine = engine;
	id_copy(s->subagent_id, subagent_id);
	id_copy(s->call_id, call);
	id_copy(s->turn_id, turn);
	agent_turn_submit(engine, &r, &p, &as, on_submitted, s);
}

/* Below the caller's thread, with the limits in modelPolicy and its turn in start. */
static void spawn(struct engine *engine, const struct tool_call_doc *c, const struct turn_doc *t, const char *id,
		  const json_t *limits, const char *name)
{
	struct transaction *tx = transaction_new_internal(engine);
	char turn[ID_SIZE], thread[ID_TEXT_MAX];
	struct subagent_doc d;
	struct requester by;

	view_clear(&subagent_schema, &d);
	d.uid = t->uid;
	id_copy(d.subagentId, id);
	id_copy(d.sessionId, t->sessionId);
	id_copy(d.parentThreadId, t->threadId);
	id_copy(d.parentTurnId, t->turnId);
	id_copy(d.taskId, t->taskId);
	id_make(ID_KIND_THREAD, thread);
	agent_id(ID_KIND_TURN, c->toolCallId, turn);
	json_auto_t *start = json_pack("{s:s,s:s}", "turnId", turn, "toolCallId", c->toolCallId);
	turn_requester(t, &by);
	struct scope s = subagent_scope(&d, NULL, NULL),
		     child = { .uid = (uint32_t)t->uid, .session = t->sessionId, .thread = thread };
	s.tool_call = c->toolCallId;
	EMIT(thread_started, tx, child, .origin = "subagent", .parentThreadId = t->threadId);
	EMIT(subagent_spawned, tx, s, .envelope.status = "accepted", .parentSessionId = t->sessionId,
	     .parentThreadId = t->threadId, .parentTurnId = t->turnId, .childThreadId = thread, .role = "agent",
	     .nickname = name, .modelPolicy = json_from_tree(limits), .supervised = OPT_BOOL_TRUE,
	     .start = json_from_tree(start), .requestedBy = json_requester(&by));
	if (d.taskId[0])
		EMIT(task_delegated, tx, s, .delegateKind = "subagent", .delegateId = id);
	EMIT(subagent_status, tx, s, .envelope.status = "running", .status = "running");
	transaction_after_commit(tx, submit_turn, id);
	transaction_commit(tx);
}

void subagent_call_start(struct engine *engine, const char *call_id)
{
	buf_auto struct buf text = BUF_INIT, turn_text = BUF_INIT, known = BUF_INIT;
	struct tool_call_doc c;
	struct subagent_doc d;
	struct turn_doc t;
	struct err e = ERR_INIT;
	char id[ID_SIZE], of[ID_SIZE] = "";

	if (engine->stopping || tool_call_read(engine, call_id, &text, &c, &e) != 0 || c.endedAt ||
	    turn_read(engine, c.turnId, &turn_text, &t, &e) != 0)
		return;
	agent_id(ID_KIND_SUBAGENT, call_id, id);
	if (view_read_speculative(engine->o.store, &subagent_schema, id, &known, &d, &e) == 0) {
		jval_str(jval_get(d.start, "toolCallId"), of, sizeof of);
		if (strcmp(of, call_id) != 0)
			return fail_call(engine, call_id, "tool", "the id of the call is taken by another subagent");
		if (subagent_doc_ended(&d))
			return fail_call(engine, call_id, "cancelled", "the subagent was ended");
		return submit_turn(engine, id);
	}
	if (!subagent_may_call(engine, &t))
		return fail_call(engine, call_id, "limit", "this agent may not have subagents");
	json_auto_t *limits = share_of(engine, &t, &e), *args = limits ? tool_call_arguments(engine, &c, &e) : NULL;
	if (!args)
		return fail_call(engine, call_id, "limit", e.message);
	spawn(engine, &c, &t, id, limits, param_str(args, "description"));
}

/* ---- the end ---- */

static void interrupt(struct engine *engine, const char *id)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;
	char turn[ID_SIZE];

	if (subagent_doc_of(engine, id, &text, &d) && subagent_turn_of(&d, turn))
		agent_turn_interrupt(engine, turn, "parent_cancelled");
}

/* The result of the call: {subagentId, turnId, answerRef}. */
static void finish_call(struct transaction *tx, const struct tool_call_doc *c, const struct turn_doc *t, const char *id,
			const struct buf *answer)
{
	const struct ref_owner owner = turn_ref_owner(t, "subagentId", id, NULL);
	char ref[ID_TEXT_MAX];

	ref_store(tx, &owner, answer->len ? answer->data : "", answer->len, ref);
	json_auto_t *result = json_pack("{s:s,s:s,s:s}", "subagentId", id, "turnId", t->turnId, "answerRef", ref);
	mem_auto char *text = json_dumps(result, JSON_COMPACT);
	tool_call_finish(c, text, strlen(text), tx);
}

/* `why` NULL: the turn has completed. In its transaction. */
static void turn_over(struct transaction *tx, const char *turn_id, const struct tool_failure *why)
{
	struct engine *engine = tx->engine;
	buf_auto struct buf text = BUF_INIT, turn_text = BUF_INIT, call_text = BUF_INIT, answer = BUF_INIT;
	struct tool_call_doc c;
	struct subagent_doc d;
	struct turn_doc t;
	struct err e = ERR_INIT;
	char id[ID_SIZE], turn[ID_SIZE];

	if (turn_read(engine, turn_id, &turn_text, &t, &e) != 0 || !t.toolCallId[0] || !turn_driven_by_loop(&t))
		return;
	agent_id(ID_KIND_SUBAGENT, t.toolCallId, id);
	if (view_read_speculative(engine->o.store, &subagent_schema, id, &text, &d, &e) != 0 ||
	    !subagent_turn_of(&d, turn) || strcmp(turn, turn_id) != 0)
		return;
	const bool open = tool_call_read(engine, t.toolCallId, &call_text, &c, &e) == 0 && !c.endedAt;
	if (!why)
		agent_turn_answer(engine, &t, &answer);
	if (open && !why)
		finish_call(tx, &c, &t, id, &answer);
	else if (open)
		tool_failed_fact(&c, why, tx);
	if (open && why)
		tool_hooks_follow(tx, c.toolCallId);
	if (subagent_doc_ended(&d))
		return;
	const struct scope s = subagent_scope(&d, NULL, NULL);
	if (why)
		EMIT(subagent_failed, tx, s, .envelope = { .status = why->status, .status_reason = why->message },
		     .category = why->category, .message = why->message);
	else
		EMIT(subagent_completed, tx, s, .envelope.status = "completed", .outcome = "answered");
	subagent_closed_fact(tx, &d, "its turn has ended", NULL);
	transaction_after_commit(tx, subagent_ended, id);
}

void subagent_on_turn_completed(struct transaction *tx, const struct scope *s, const struct turn_completed *p)
{
	if (p->outcome != turn_outcome_process)
		turn_over(tx, s->turn, NULL);
}

void subagent_on_turn_failed(struct transaction *tx, const struct scope *s, const struct turn_failed *p)
{
	const struct tool_failure why = {
		.status = p->envelope.status, .category = p->category, .message = p->message, .retryable = p->retryable
	};

	turn_over(tx, s->turn, &why);
}

/* The end of a turn is decided: it waits for its calls, and those for the turns of their subagents. */
void subagent_on_run_status(struct transaction *tx, const struct scope *s, const struct run_status *p)
{
	view_ids_auto struct view_ids children = VIEW_IDS_INIT;

	if (!p->ending.value || !s->thread || !s->turn)
		return;
	id_list_read(tx->engine, VIEW_THREAD_SUBAGENT, s->thread, ID_LIST_ALL, &children);
	for (size_t i = 0; i < children.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc d;
		char turn[ID_SIZE];

		if (subagent_doc_of(tx->engine, children.id[i], &text, &d) && !subagent_doc_ended(&d) &&
		    strcmp(d.parentTurnId, s->turn) == 0 && subagent_turn_of(&d, turn))
			transaction_after_commit(tx, interrupt, d.subagentId);
	}
}

/* Also by close_subagent, or with the task above: then its turn still runs. */
void subagent_on_closed(struct transaction *tx, const struct scope *s, const struct subagent_closed *p)
{
	transaction_after_commit(tx, interrupt, s->subagent);
}

/* The runtime may have died between the decision to end the parent and the interruption of the child. */
void subagent_turns_recover(struct engine *engine)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_LIVE_TURN, NULL, ID_LIST_ALL, &turns);
	for (size_t i = 0; i < turns.n; i++) {
		buf_auto struct buf text = BUF_INIT, call_text = BUF_INIT, parent_text = BUF_INIT;
		struct turn_doc t, parent;
		struct tool_call_doc c;
		struct err e = ERR_INIT;

		if (turn_read(engine, turns.id[i], &text, &t, &e) != 0 || !t.toolCallId[0] || !turn_driven_by_loop(&t))
			continue;
		if (tool_call_read(engine, t.toolCallId, &call_text, &c, &e) != 0 || c.endedAt ||
		    turn_read(engine, c.turnId, &parent_text, &parent, &e) != 0 || turn_doc_ended(&parent) ||
		    parent.ending.type == JT_OBJECT)
			agent_turn_interrupt(engine, turns.id[i], "parent_cancelled");
	}
}
