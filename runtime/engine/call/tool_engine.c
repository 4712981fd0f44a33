/*
 * Tools that the engine executes itself, without a process. They have no effect outside of bailiff. Like every call
 * they begin with durable facts, and their effect and tool.result are one commit: a restart in between finds the call
 * open and executes it again, or finds its question still open and waits for the answer.
 * A subagent is a turn of its own; its end is the result (work/subagent_turn.c). The tools for processes of the shell
 * are in process_tools.c.
 */

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/call/process_tools.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/call/tool_result.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/view/view.h"

#define READ_MAX 262144u /* bytes of an output in one answer */

/* ---- update_plan ---- */

static void update_plan(struct engine *engine, const struct tool_call_doc *d, const struct turn_doc *t,
			const json_t *args)
{
	struct transaction *tx = transaction_new_internal(engine);
	mem_auto char *steps = json_dumps(json_object_get(args, "steps"), JSON_COMPACT),
		      *answer = mem_printf("{\"steps\":%s}", steps);

	EMIT(plan_updated, tx, tool_call_scope(d), .steps = json_from_text(steps),
	     .explanation = json_string_value(json_object_get(args, "explanation")));
	tool_call_finish(d, answer, strlen(answer), tx);
	transaction_commit(tx);
}

/* ---- read_output ---- */

/* Any output of the same user: {ref, offset, totalBytes, text, eof}. Bytes that are not UTF-8 are replaced. */
static void read_output(struct engine *engine, const struct tool_call_doc *d, const struct turn_doc *t,
			const json_t *args)
{
	const char *ref = json_string_value(json_object_get(args, "ref"));
	const json_t *length = json_object_get(args, "length"), *tail = json_object_get(args, "tail");
	uint64_t from = (uint64_t)json_integer_value(json_object_get(args, "offset")),
		 want = length ? (uint64_t)json_integer_value(length) : TOOL_RESULT_BYTES;
	buf_auto struct buf text = BUF_INIT, bytes = BUF_INIT, answer = BUF_INIT;
	struct output_doc o;
	struct jw w = jw_on(&answer);
	struct err e = ERR_INIT;

	if (view_read_visible(engine->o.store, &output_schema, (uint32_t)d->uid, "ref", ref, &text, &o, &e) < 0)
		return tool_call_fail_as(engine, d->toolCallId, "not_found", e.message);
	if (tail) {
		want = (uint64_t)json_integer_value(tail);
		from = o.bytes > want ? o.bytes - want : 0;
	}
	want = want < READ_MAX ? want : READ_MAX;
	if (store_output_read(engine->o.store, ref, from, want, &bytes, &e) < 0)
		return tool_call_fail_as(engine, d->toolCallId, "store", e.message);
	size_t n = bytes.len && from + bytes.len < o.bytes ? text_utf8_cut(bytes.data, bytes.len) : bytes.len;
	jw_obj(&w);
	jw_kstr(&w, "ref", ref);
	jw_kuint(&w, "offset", from);
	jw_kuint(&w, "nextOffset", from + n);
	jw_kuint(&w, "totalBytes", o.bytes);
	jw_kstrn(&w, "text", buf_cstr(&bytes), n);
	jw_obj_end(&w);
	struct transaction *tx = transaction_new_internal(engine);
	tool_call_finish(d, answer.data, answer.len, tx);
	transaction_commit(tx);
}

/* ---- ask_user ---- */

/* {"answer": text}; with options the answer is one of them, or any other text. */
static char *answer_schema(const json_t *options)
{
	json_auto_t *schema = json_pack("{ss s[s] s{s{ss}}}", "type", "object", "required", "answer", "properties",
					"answer", "type", "string");

	if (options)
		json_object_set(json_object_get(json_object_get(schema, "properties"), "answer"), "examples",
				(json_t *)(uintptr_t)options);
	return json_dumps(schema, JSON_COMPACT);
}

static void ask_user(struct engine *engine, const struct tool_call_doc *d, const struct turn_doc *t, const json_t *args)
{
	const json_t *options = json_object_get(args, "options"), *timeout = json_object_get(args, "timeoutMs"), *v;
	mem_auto char *schema = answer_schema(options);
	buf_auto struct buf text = BUF_INIT, prompt = BUF_INIT;
	struct action_doc open;
	char action[ID_SIZE];
	size_t i;
	struct err e = ERR_INIT;

	/* After a restart: the question is still open. */
	if (action_of_call(engine, ACTION_KIND_QUESTION, d->turnId, d->toolCallId, &text, &open))
		return;
	buf_str(&prompt, json_string_value(json_object_get(args, "question")));
	json_array_foreach (options, i, v)
		buf_printf(&prompt, "\n  %zu. %s", i + 1, json_string_value(v));
	struct action_spec spec = { .kind = ACTION_KIND_QUESTION,
				    .uid = (uint32_t)d->uid,
				    .session_id = d->sessionId,
				    .thread_id = d->threadId,
				    .turn_id = d->turnId,
				    .task_id = none_if_empty(d->taskId),
				    .tool_call_id = d->toolCallId,
				    .trace_id = none_if_empty(d->traceId),
				    .action_type = "input",
				    .prompt = buf_cstr(&prompt),
				    .schema_json = schema,
				    .decisions_json = "[\"answer\",\"decline\",\"allow\",\"deny\"]",
				    .timeout_ms = timeout ? (uint64_t)json_integer_value(timeout) : 0,
				    .default_decision = "deny" };
	turn_requester(t, &spec.by);
	struct transaction *tx = transaction_new_internal(engine);
	if (action_open(engine, &spec, tx, action, &e) < 0) {
		transaction_free(tx);
		return tool_call_fail_as(engine, d->toolCallId, "tool", e.message);
	}
	transaction_commit(tx);
}

/* In the commit of the answer: the result of the call. */
static void question_resolved(struct engine *engine, const struct action_outcome *o, struct transaction *tx)
{
	const bool answered = !action_means_refuse(o->decision), late = strcmp(o->status, "timed_out") == 0,
		   cancelled = strcmp(o->status, "cancelled") == 0;
	const struct tool_failure why = { .status = cancelled ? "cancelled"
						    : late    ? "timed_out"
							      : "failed",
					  .category = cancelled ? "cancelled"
						      : late    ? "timeout"
								: "declined",
					  .message = cancelled ? "the question was withdrawn"
						     : late    ? "no answer in time"
							       : "the user does not want to answer",
					  .advice = "decide without the answer, or stop and say what is missing" };
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	if (tool_call_read(engine, o->action->toolCallId, &text, &d, &e) != 0 || d.endedAt)
		return;
	if (answered) {
		const char *response = o->response_json ? o->response_json : "{}";

		tool_call_finish(&d, response, strlen(response), tx);
		return;
	}
	tool_failed_fact(&d, &why, tx);
	tool_hooks_follow(tx, d.toolCallId);
}

const struct action_kind_ops question_ops = { .resolved = question_resolved };

/* ---- all of them ---- */

void tool_engine_run(struct engine *engine, const struct tool_call_doc *d, const struct turn_doc *t,
		     const struct tool *tool, const json_t *args)
{
	switch (tool->builtin) {
	case TOOL_UPDATE_PLAN: return update_plan(engine, d, t, args);
	case TOOL_READ_OUTPUT: return read_output(engine, d, t, args);
	case TOOL_ASK_USER: return ask_user(engine, d, t, args);
	case TOOL_WAIT: return process_tool_wait(engine, d, args);
	case TOOL_WRITE_STDIN: return process_tool_write_stdin(engine, d, args);
	case TOOL_SCREEN: return process_tool_screen(engine, d, args);
	case TOOL_KILL: return process_tool_kill(engine, d, args);
	case TOOL_PS: return process_tool_ps(engine, d);
	case TOOL_SUBAGENT: return modules_due(engine, DUE_SUBAGENT_CALL, d->toolCallId);
	default:
		return tool_call_fail_as(engine, d->toolCallId, "unavailable",
					 "this version does not execute the tool");
	}
}
