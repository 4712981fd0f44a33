/*
 * Turns and what happens in them: tool calls, the choice of a model, costs and limits. These handlers only translate
 * parameters to the engine's request structs and bound the texts that go into events. The engine checks states and
 * answers through call_engine_reply. The structs are on the stack: the engine keeps no pointer to them.
 */

#include "supervisor/control/methods.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/engine/loop/loop.h"
#include "runtime/engine/model/model.h"
#include "runtime/engine/turn/turn.h"

#include <string.h>

#define WORD_MAX 64u
#define REASON_MAX 256u
#define SUMMARY_MAX 16384u
#define USAGE_MAX 8192u
#define PROMPT_MAX (64u << 10)
#define STEER_MAX (256u << 10)
#define CAPABILITIES_MAX 64u
#define TOKENS_MAX (1ull << 40)

/* ---- turns ---- */

int method_submit_turn(struct call *c, const struct submit_turn_params *p, struct buf *out, struct err *e)
{
	const struct turn_request r = {
		.session_id = p->sessionId,
		.thread_id = p->threadId,
		.turn_id = p->turnId,
		.input = p->input,
		.options = p->options.json,
		.metadata = p->metadata,
		.new_thread = p->newThread.value,
		.loop = p->driver && strcmp(p->driver, "loop") == 0,
		.model = p->model,
		.loop_limits = p->limits.json,
		.system_prompt = p->systemPrompt,
	};

	if (param_length("model", p->model, 1, WORD_MAX, e) < 0 ||
	    param_length("systemPrompt", p->systemPrompt, 1, PROMPT_MAX, e) < 0)
		return -1;
	engine_submit_turn(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_steer_turn(struct call *c, const struct steer_turn_params *p, struct buf *out, struct err *e)
{
	const struct turn_steer r = { .turn_id = p->turnId, .input = p->input };

	if (param_length("input", p->input, 1, STEER_MAX, e) < 0)
		return -1;
	engine_steer_turn(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_claim_turn(struct call *c, const struct claim_turn_params *p, struct buf *out, struct err *e)
{
	engine_claim_turn(call_engine(c), p->turnId, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_complete_turn(struct call *c, const struct complete_turn_params *p, struct buf *out, struct err *e)
{
	mem_auto char *usage = param_json_text("usage", p->usage, USAGE_MAX, e);
	const struct turn_verdict v = {
		.turn_id = p->turnId, .outcome = p->outcome, .summary = p->summary, .usage_json = usage
	};

	if (e->code || param_length("outcome", p->outcome, 0, WORD_MAX, e) < 0 ||
	    param_length("summary", p->summary, 0, SUMMARY_MAX, e) < 0)
		return -1;
	engine_complete_turn(call_engine(c), &v, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_fail_turn(struct call *c, const struct fail_turn_params *p, struct buf *out, struct err *e)
{
	const struct turn_verdict v = {
		.turn_id = p->turnId, .category = p->category, .message = p->message, .retryable = p->retryable.value
	};

	if (param_length("category", p->category, 0, WORD_MAX, e) < 0 ||
	    param_length("message", p->message, 0, SUMMARY_MAX, e) < 0)
		return -1;
	engine_fail_turn(call_engine(c), &v, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_interrupt_turn(struct call *c, const struct interrupt_turn_params *p, struct buf *out, struct err *e)
{
	const struct turn_interrupt r = {
		.reason = p->reason,
		.session_id = p->sessionId,
		.thread_id = p->threadId,
		.turn_id = p->turnId,
		.clear_queue = p->clearQueue.value,
		.end_processes = p->endProcesses.value,
	};

	if (param_length("reason", p->reason, 0, REASON_MAX, e) < 0)
		return -1;
	engine_interrupt_turn(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* A queued turn has one id, which two names may carry. */
static const char *queued_turn(const char *queued, const char *turn, struct err *e)
{
	if (!queued && !turn)
		err_field(e, "queuedTurnId", "missing");
	else if (queued && turn && strcmp(queued, turn) != 0)
		err_field(e, "turnId", "is another turn than queuedTurnId");
	return queued ? queued : turn;
}

int method_remove_queued_turn(struct call *c, const struct remove_queued_turn_params *p, struct buf *out, struct err *e)
{
	const char *turn = queued_turn(p->queuedTurnId, p->turnId, e);

	if (e->code || param_length("reason", p->reason, 0, REASON_MAX, e) < 0)
		return -1;
	engine_remove_queued_turn(call_engine(c), turn, p->reason, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_promote_queued_turn(struct call *c, const struct promote_queued_turn_params *p, struct buf *out,
			       struct err *e)
{
	const char *turn = queued_turn(p->queuedTurnId, p->turnId, e);

	if (e->code)
		return -1;
	engine_promote_queued_turn(call_engine(c), turn, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* ---- tools ---- */

int method_get_tool_inventory(struct call *c, const struct get_tool_inventory_params *p, struct buf *out, struct err *e)
{
	const struct inventory_query q = { .session_id = p->sessionId, .cwd = p->cwd, .mode = p->mode };

	engine_tool_inventory(call_engine(c), &q, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_register_tools(struct call *c, const struct register_tools_params *p, struct buf *out, struct err *e)
{
	engine_register_tools(call_engine(c), p->tools, p->sessionId, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_invoke_tool(struct call *c, const struct invoke_tool_params *p, struct buf *out, struct err *e)
{
	const struct tool_request r = {
		.turn_id = p->turnId,
		.tool = p->toolName,
		.call_id = p->toolCallId,
		.arguments = p->arguments,
		.timeout_ms = param_uint_or(p->timeoutMs, LIMIT_NONE),
	};

	engine_invoke_tool(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_report_tool_call(struct call *c, const struct report_tool_call_params *p, struct buf *out, struct err *e)
{
	const struct tool_report r = {
		.call_id = p->toolCallId,
		.turn_id = p->turnId,
		.tool = p->toolName,
		.status = p->status,
		.preview = p->preview,
		.category = p->category,
		.message = p->message,
		.advice = p->advice,
		.arguments = p->arguments,
		.result = p->result,
		.artifacts = p->artifactRefs,
		.retryable = p->retryable.value,
	};

	engine_report_tool_call(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* ---- models ---- */

/* The profile as it is recorded: with its defaults, so that a reader of the event need not know them. */
static char *profile_text(json_t *profile, const struct routing_request *want)
{
	json_auto_t *whole = profile ? json_deep_copy(profile) : json_object();

	if (!json_object_get(whole, "kind"))
		json_object_set_new(whole, "kind", json_string("unknown"));
	if (!json_object_get(whole, "requiredCapabilities"))
		json_object_set_new(whole, "requiredCapabilities", json_array());
	json_object_set_new(whole, "budgetClass", json_string(budget_class_name(want->budget_class)));
	json_object_set_new(whole, "fallbackPolicy", json_string(fallback_policy_name(want->fallback)));
	return json_dumps(whole, JSON_COMPACT);
}

int method_resolve_routing(struct call *c, const struct resolve_routing_params *p, struct buf *out, struct err *e)
{
	const struct taskProfile_members *profile = &p->taskProfile;
	const char *latency = profile->latencyTarget, *class = profile->budgetClass,
		   *fallback = profile->fallbackPolicy, *capability[CAPABILITIES_MAX];
	const json_t *v;
	/* The table admits only the words that the _find functions know. */
	struct routing_ask r = {
		.turn_id = p->turnId,
		.task_id = p->taskId,
		.failed_request_id = p->failed.modelRequestId,
		.failed_reason = p->failed.reason,
		.override_reason = p->override.reason,
		.want = {
			.override = p->override.json != NULL,
			.kind = profile->kind,
			.capability = capability,
			.latency = latency ? (enum model_latency)model_latency_find(latency) : LATENCY_COUNT,
			.budget_class = class ? (enum budget_class)budget_class_find(class) : BUDGET_HIGH,
			.fallback = fallback ? (enum fallback_policy)fallback_policy_find(fallback) : FALLBACK_NEXT,
			.provider = p->requested.provider,
			.model = p->requested.model,
			.failed_provider = p->failed.provider,
			.failed_model = p->failed.model,
			.input_tokens = profile->inputTokens.value,
			.output_tokens = profile->outputTokens.value,
		},
	};

	if (p->override.json && c->caller.role < ROLE_OPERATOR)
		return err_at(e, ERR_NOT_ALLOWED, "override", "only an operator can override limits and budgets");
	if (param_length("override.reason", r.override_reason, 1, REASON_MAX, e) < 0)
		return -1;
	if (json_array_size(profile->requiredCapabilities) > CAPABILITIES_MAX)
		return err_field(e, "taskProfile.requiredCapabilities", "must have at most %u words", CAPABILITIES_MAX);
	json_array_foreach (profile->requiredCapabilities, r.want.ncapability, v)
		capability[r.want.ncapability] = json_string_value(v);
	if (param_length("taskProfile.kind", r.want.kind, 1, WORD_MAX, e) < 0 ||
	    param_length("requested.provider", r.want.provider, 1, WORD_MAX, e) < 0 ||
	    param_length("requested.model", r.want.model, 1, WORD_MAX, e) < 0)
		return -1;
	mem_auto char *text = profile_text(profile->json, &r.want);
	r.profile_json = text;
	r.profile_len = strlen(text);
	engine_resolve_routing(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_record_cost(struct call *c, const struct record_cost_params *p, struct buf *out, struct err *e)
{
	const struct cost_report r = {
		.turn_id = p->turnId,
		.provider = p->provider,
		.model = p->model,
		.model_request_id = p->modelRequestId,
		.tokens = { .input = p->inputTokens.value,
			    .output = p->outputTokens.value,
			    .cached = p->cachedTokens.value,
			    .cache_write = p->cacheWriteTokens.value,
			    .cache_write_1h = p->cacheWrite1hTokens.value },
		.usd = p->costUsd.given ? p->costUsd.value : -1,
		.estimate = p->estimate.value,
	};

	/* `!(usd >= 0)` also rejects NaN. */
	if (p->costUsd.given && (!(r.usd >= 0) || r.usd > 1e6))
		return err_field(e, "costUsd", "must be 0 to 1000000 US dollars");
	if (r.tokens.input > TOKENS_MAX || r.tokens.output > TOKENS_MAX)
		return err_field(e, r.tokens.input > TOKENS_MAX ? "inputTokens" : "outputTokens",
				 "is larger than any request can be");
	if (r.tokens.cached > r.tokens.input)
		return err_field(e, "cachedTokens", "cannot be more than inputTokens");
	if (r.tokens.cache_write > r.tokens.input - r.tokens.cached)
		return err_field(e, "cacheWriteTokens", "and cachedTokens cannot be more than inputTokens");
	if (r.tokens.cache_write_1h > r.tokens.cache_write)
		return err_field(e, "cacheWrite1hTokens", "cannot be more than cacheWriteTokens");
	if (param_length("provider", r.provider, 1, WORD_MAX, e) < 0 ||
	    param_length("model", r.model, 1, WORD_MAX, e) < 0)
		return -1;
	engine_record_cost(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_record_limit(struct call *c, const struct record_limit_params *p, struct buf *out, struct err *e)
{
	const struct limit_report r = {
		.turn_id = p->turnId,
		.provider = p->provider,
		.model = p->model,
		.kind = p->kind,
		.state = p->state,
		.reset_at = p->resetAt,
		.has_remaining = p->remaining.given,
		.remaining = p->remaining.value,
	};
	uint64_t at;

	if (r.reset_at && clock_parse(r.reset_at, &at) < 0)
		return err_field(e, "resetAt", "expected a time as in 2026-11-15T02:00:00Z");
	if (param_length("provider", r.provider, 1, WORD_MAX, e) < 0 ||
	    param_length("model", r.model, 1, WORD_MAX, e) < 0)
		return -1;
	engine_record_limit(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* ---- the history of a thread ---- */

int method_compact_context(struct call *c, const struct compact_context_params *p, struct buf *out, struct err *e)
{
	const struct compaction_request r = {
		.session_id = p->sessionId,
		.thread_id = p->threadId,
		.trigger = p->trigger,
		.summary = p->summary,
		.failure = p->failure,
		.affected_turns = p->affectedTurns,
		.continuation = p->continuation,
		.tokens_before = opt_int_if(p->tokensBefore.given, p->tokensBefore.value),
		.tokens_after = opt_int_if(p->tokensAfter.given, p->tokensAfter.value),
	};

	engine_compact_context(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_rollback_thread(struct call *c, const struct rollback_thread_params *p, struct buf *out, struct err *e)
{
	const struct rollback_request r = {
		.session_id = p->sessionId, .thread_id = p->threadId, .to_turn_id = p->toTurnId, .reason = p->reason
	};

	engine_rollback_thread(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}
