/* Turns, queues, tool calls and actions on a scripted host, with crashes at critical points. */

#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/view/view.h"

#include <check.h>
#include <jansson.h>

static struct fake_host w;
static struct fake_reply reply, other;

static void set_up(void)
{
	fake_open(&w);
	reply = other = (struct fake_reply){ 0 };
}

static void tear_down(void)
{
	ck_assert(fake_verified(&w));
	fake_close(&w);
	buf_done(&reply.json);
	buf_done(&other.json);
}

static void copy(const struct fake_reply *r, const char *path, char ret[72])
{
	jval_str(jval_path(jval_of(r->json.data, r->json.len), path), ret, 72);
}

static bool reply_has(const struct fake_reply *r, const char *path, const char *value)
{
	return r->code == 0 && jval_is_str(jval_path(jval_of(r->json.data, r->json.len), path), value);
}

/* Submits a turn with these parts and copies its id. */
static void submit(const char *thread, const char *input, struct fake_reply *r, char ret[72])
{
	json_t *parts = json_loads(input, 0, NULL);
	json_t *options = json_pack("{ss}", "sandboxId", "own"); /* one process for each part, and no holder */
	const struct turn_request q = { .thread_id = thread, .input = parts, .options = options };

	ck_assert_ptr_nonnull(parts);
	engine_submit_turn(w.engine, &q, &fake_caller, fake_reply_fn, r);
	fake_settle(&w);
	json_decref(parts);
	json_decref(options);
	if (r->code == 0)
		copy(r, "turnId", ret);
}

/* Runs the newest process. */
static struct fake_process *run_newest(void) { return fake_begin(&w, fake_last(&w)); }

static bool turn_is(const char *turn, const char *status)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(store_model_get(w.store, VIEW_TURN, turn, &doc, &e), 0);
	return jval_is_str(jval_get(jval_of(doc.data, doc.len), "status"), status);
}

#define TWO "[{\"type\":\"command\",\"commandLine\":\"one\"},{\"type\":\"command\",\"commandLine\":\"two\"}]"
#define ONE "[{\"type\":\"command\",\"commandLine\":\"one\"}]"
#define TEXT "[{\"type\":\"text\",\"text\":\"hello\"}]"

START_TEST(parts_run_one_after_the_other)
{
	char turn[72];

	submit(NULL, TWO, &reply, turn);
	ck_assert(reply_has(&reply, "status", "accepted"));
	ck_assert_uint_eq(w.nprocesses, 1);
	struct fake_process *p = run_newest();
	ck_assert_uint_eq(w.nprocesses, 1);
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_uint_eq(w.nprocesses, 2);
	ck_assert(turn_is(turn, "running"));
	fake_exit(&w, run_newest(), FAKE_EXITED(0), 0);
	ck_assert(turn_is(turn, "completed"));
	ck_assert_uint_eq(fake_count(&w, "tool.result"), 2);
	ck_assert_uint_eq(fake_count(&w, "tool.catalog.resolved"), 1);
	ck_assert_uint_eq(fake_count(&w, "turn.completed"), 1);
}
END_TEST

START_TEST(a_failure_skips_the_remaining_parts)
{
	char turn[72];

	submit(NULL, TWO, &reply, turn);
	fake_exit(&w, run_newest(), FAKE_EXITED(1), 0);
	ck_assert_uint_eq(w.nprocesses, 1);
	ck_assert(turn_is(turn, "failed"));
	ck_assert(fake_event_has(&w, "turn.failed", "payload.category", "exit"));
	ck_assert(fake_event_has(&w, "tool.failed", "payload.category", "exit"));
}
END_TEST

START_TEST(of_two_concurrent_submissions_only_one_starts)
{
	json_t *parts = json_loads(ONE, 0, NULL);
	struct turn_request q = { .input = parts };
	char thread[72], turn[72];

	submit(NULL, TEXT, &reply, turn);
	copy(&reply, "threadId", thread);
	const struct turn_verdict done = { .turn_id = turn };
	engine_complete_turn(w.engine, &done, &fake_caller, fake_reply_fn, &reply);
	q.thread_id = thread;
	/* Neither of them is committed when the other is decided. */
	engine_submit_turn(w.engine, &q, &fake_caller, fake_reply_fn, &reply);
	engine_submit_turn(w.engine, &q, &fake_caller, fake_reply_fn, &other);
	fake_settle(&w);
	ck_assert(reply_has(&reply, "status", "accepted"));
	ck_assert(reply_has(&other, "status", "queued"));
	ck_assert_uint_eq(w.nprocesses, 1);
	json_decref(parts);
}
END_TEST

START_TEST(a_call_without_a_process_is_started_again_after_a_crash)
{
	char turn[72];

	submit(NULL, ONE, &reply, turn);
	ck_assert_uint_eq(fake_count(&w, "tool.started"), 1);
	ck_assert_uint_eq(fake_count(&w, "process.started"), 0);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert_uint_eq(w.nprocesses, 2); /* the first one never passed the gate */
	fake_exit(&w, run_newest(), FAKE_EXITED(0), 0);
	ck_assert(turn_is(turn, "completed"));
	ck_assert_uint_eq(fake_count(&w, "tool.started"), 1);
}
END_TEST

START_TEST(after_a_crash_a_running_call_continues_or_is_lost)
{
	char turn[72];

	submit(NULL, TWO, &reply, turn);
	struct fake_process *p = run_newest();
	const struct port_held held = { .id = p->id, .attempt = 1, .started = true };
	fake_crash(&w);
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	ck_assert(turn_is(turn, "running"));
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	run_newest();
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert(turn_is(turn, "lost"));
	ck_assert(fake_event_has(&w, "tool.failed", "status", "lost"));
}
END_TEST

START_TEST(a_queue_is_held_after_a_crash)
{
	char first[72], second[72], thread[72];

	submit(NULL, TEXT, &reply, first);
	copy(&reply, "threadId", thread);
	submit(thread, ONE, &reply, second);
	ck_assert(reply_has(&reply, "status", "queued"));
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert(fake_event_has(&w, "queue.changed", "payload.resumeState", "held"));
	const struct turn_verdict done = { .turn_id = first };
	engine_complete_turn(w.engine, &done, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	ck_assert(turn_is(second, "queued"));
	engine_resume_thread(w.engine, NULL, thread, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	ck_assert(turn_is(second, "running"));
	fake_exit(&w, run_newest(), FAKE_EXITED(0), 0);
	ck_assert(turn_is(second, "completed"));
}
END_TEST

START_TEST(an_interrupt_is_completed_after_a_crash)
{
	char turn[72];

	submit(NULL, TWO, &reply, turn);
	struct fake_process *p = run_newest();
	const struct port_held held = { .id = p->id, .attempt = 1, .started = true };
	const struct turn_interrupt r = { .turn_id = turn, .reason = "enough" };

	reply.count = 0;
	engine_interrupt_turn(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	ck_assert_uint_eq(reply.count, 0); /* it waits for the process */
	ck_assert_uint_ne(p->signals, 0);
	p->signals = 0;
	fake_crash(&w);
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	ck_assert_uint_ne(p->signals, 0); /* it is signalled again */
	fake_exit(&w, p, 15, 0);
	ck_assert(turn_is(turn, "cancelled"));
	ck_assert(fake_event_has(&w, "turn.failed", "payload.message", "enough"));
	ck_assert_uint_eq(fake_count(&w, "tool.started"), 1);
}
END_TEST

static void request_action(const char *turn, uint64_t timeout_ms, char ret[72])
{
	const struct action_request r = { .turn_id = turn, .action_type = "approval", .timeout_ms = timeout_ms };

	engine_request_action(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	copy(&reply, "actionId", ret);
}

START_TEST(an_action_waits_for_its_answer)
{
	char turn[72], action[72];
	struct action_answer yes = { .decision = "allow" };
	const struct turn_verdict done = { .turn_id = turn };

	submit(NULL, TEXT, &reply, turn);
	request_action(turn, 0, action);
	ck_assert(turn_is(turn, "waiting_permission"));
	engine_complete_turn(w.engine, &done, &fake_caller, fake_reply_fn, &reply);
	ck_assert_int_eq(reply.code, ERR_STATE);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_advance(&w, 1000000000);
	ck_assert(turn_is(turn, "waiting_permission"));
	yes.action_id = action;
	engine_respond_action(w.engine, &yes, &fake_caller, fake_reply_fn, &reply);
	engine_respond_action(w.engine, &yes, &fake_caller, fake_reply_fn, &other);
	fake_settle(&w);
	ck_assert_int_eq(reply.code, 0);
	ck_assert_int_eq(other.code, ERR_CONFLICT);
	ck_assert(turn_is(turn, "running"));
}
END_TEST

START_TEST(an_action_that_times_out_is_denied)
{
	char turn[72], first[72], second[72];

	submit(NULL, TEXT, &reply, turn);
	request_action(turn, 5000, first);
	request_action(turn, 60000, second);
	fake_advance(&w, 4000);
	ck_assert_uint_eq(fake_count(&w, "action.resolved"), 0);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_advance(&w, 2000);
	ck_assert_uint_eq(fake_count(&w, "action.resolved"), 1);
	ck_assert(fake_event_has(&w, "action.resolved", "payload.decision", "deny"));
	ck_assert(fake_event_has(&w, "action.resolved", "status", "timed_out"));
	ck_assert(turn_is(turn, "waiting_permission"));
	fake_advance(&w, 60000);
	ck_assert_uint_eq(fake_count(&w, "action.resolved"), 2);
	ck_assert(turn_is(turn, "running"));
}
END_TEST

START_TEST(an_answer_after_the_time_is_too_late_when_the_clock_was_set)
{
	char turn[72], action[72];
	struct action_answer yes = { .decision = "allow", .action_id = action };

	submit(NULL, TEXT, &reply, turn);
	request_action(turn, 60000, action);
	fake_advance(&w, 1000);
	w.real_jump_us = 60000000;
	engine_respond_action(w.engine, &yes, &fake_caller, fake_reply_fn, &reply);
	fake_advance(&w, 1);
	w.real_jump_us = 0;
	ck_assert_int_eq(reply.code, ERR_CONFLICT);
	ck_assert_uint_eq(fake_count(&w, "action.resolved"), 1);
	ck_assert(fake_event_has(&w, "action.resolved", "payload.decision", "deny"));
	ck_assert(turn_is(turn, "running"));
}
END_TEST

/* An unreadable policy file, or a uid without a connected peer, does not lead to fewer rules. */
START_TEST(a_call_without_a_known_policy_is_not_allowed)
{
	static const char *const problems[] = { "no client has come", NULL };
	char turn[72];

	for (size_t i = 0; i < countof(problems); i++) {
		submit(NULL, TEXT, &reply, turn);
		const struct tool_report q = { .turn_id = turn, .tool = "mcp__a__b", .status = "started" };
		const unsigned before = w.policies, began = fake_count(&w, "tool.started");

		w.nobody = true;
		w.policy_problem = problems[i];
		engine_report_tool_call(w.engine, &q, &fake_caller, fake_reply_fn, &other);
		fake_settle(&w);
		ck_assert_uint_gt(w.policies, before);
		ck_assert_uint_eq(fake_count(&w, "tool.started") - began, problems[i] ? 0 : 1);
		if (problems[i])
			ck_assert_msg(strstr(other.message, problems[i]), "%s", other.message);
		w.nobody = false;
		w.policy_problem = NULL;
	}
}
END_TEST

START_TEST(other_users_see_neither_turns_nor_actions)
{
	struct caller stranger = fake_caller;
	char turn[72], action[72];
	const struct turn_verdict done = { .turn_id = turn };
	struct action_answer yes = { .decision = "allow" };

	stranger.uid = fake_caller.uid + 1;
	submit(NULL, TEXT, &reply, turn);
	request_action(turn, 0, action);
	yes.action_id = action;
	engine_complete_turn(w.engine, &done, &stranger, fake_reply_fn, &other);
	ck_assert_int_eq(other.code, ERR_NOT_FOUND);
	engine_respond_action(w.engine, &yes, &stranger, fake_reply_fn, &other);
	ck_assert_int_eq(other.code, ERR_NOT_FOUND);
	fake_settle(&w);
	ck_assert(turn_is(turn, "waiting_permission"));
}
END_TEST

/* However short the timeout and slow the disk, a call that is reported as running is in the log. */
START_TEST(a_call_is_reported_only_when_it_is_durable)
{
	char turn[72];
	json_t *arguments = json_pack("{s:s}", "commandLine", "one");
	const struct tool_request r = { .turn_id = turn, .tool = "shell", .arguments = arguments, .timeout_ms = 50 };

	submit(NULL, TEXT, &reply, turn);
	engine_invoke_tool(w.engine, &r, &fake_caller, fake_reply_fn, &other);
	w.boot_ns += 60 * 1000000ull;
	engine_tick(w.engine);
	ck_assert_uint_eq(other.count, 0);
	fake_settle(&w);
	fake_advance(&w, 0);
	ck_assert_uint_eq(other.count, 1);
	ck_assert(reply_has(&other, "status", "running"));
	ck_assert_uint_eq(fake_count(&w, "tool.started"), 1);
	/* A repeated request for an existing call waits only for its timeout. */
	char call[72];
	copy(&other, "toolCallId", call);
	struct tool_request again = r;
	again.call_id = call;
	engine_invoke_tool(w.engine, &again, &fake_caller, fake_reply_fn, &other);
	ck_assert_uint_eq(other.count, 1);
	w.boot_ns += 60 * 1000000ull;
	engine_tick(w.engine);
	ck_assert_uint_eq(other.count, 2);
	fake_settle(&w);
	json_decref(arguments);
}
END_TEST

/* A call that begins just before the calls of an earlier runtime are resumed is found with them. */
START_TEST(a_call_is_started_once)
{
	char turn[72];
	json_t *arguments = json_pack("{s:s}", "commandLine", "one");
	const struct tool_request r = { .turn_id = turn, .tool = "shell", .arguments = arguments, .timeout_ms = 50 };

	submit(NULL, TEXT, &reply, turn);
	engine_invoke_tool(w.engine, &r, &fake_caller, fake_reply_fn, &other);
	engine_resume(w.engine);
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "tool.started"), 1);
	ck_assert_uint_eq(fake_count(&w, "sandbox.created"), 0);
	size_t n = w.nprocesses;
	fake_exit(&w, run_newest(), FAKE_EXITED(0), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(fake_count(&w, "tool.result"), 1);
	json_decref(arguments);
}
END_TEST

START_TEST(a_call_waits_for_a_client_of_its_user)
{
	char turn[72];

	submit(NULL, ONE, &reply, turn);
	fake_crash(&w);
	w.nobody = true;
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert_uint_eq(w.nprocesses, 1);
	ck_assert_uint_eq(fake_count(&w, "tool.failed"), 0);
	ck_assert(turn_is(turn, "running"));
	w.nobody = false;
	engine_client_connected(w.engine, &fake_caller);
	fake_settle(&w);
	ck_assert_uint_eq(w.nprocesses, 2);
	fake_exit(&w, run_newest(), FAKE_EXITED(0), 0);
	ck_assert(turn_is(turn, "completed"));
}
END_TEST

/* Runs a turn of the loop whose reader of the instruction files prints this. Without a registered model it ends then.
 */
static void run_loop_turn(const char *printed, int wait_status)
{
	json_t *parts = json_loads(TEXT, 0, NULL);
	const struct turn_request q = { .input = parts, .loop = true };

	engine_submit_turn(w.engine, &q, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	struct fake_process *p = run_newest();
	if (*printed)
		fake_print(&w, p, STREAM_STDOUT, printed, strlen(printed));
	fake_exit(&w, p, wait_status, 0);
	json_decref(parts);
}

START_TEST(a_prompt_from_a_file_is_not_replaced_when_its_reader_fails)
{
	run_loop_turn("", FAKE_EXITED(1));
	ck_assert(fake_event_has(&w, "context.resolved", "payload.refs.systemPrompt.source", "built-in"));
	mem_auto char *json = fake_event(&w, "context.resolved");
	ck_assert_ptr_nonnull(strstr(json, "system_prompt_file"));
	run_loop_turn(
		"{\"files\":[],\"omitted\":[],\"text\":\"\",\"systemPrompt\":{\"path\":\"/p\",\"text\":\"Mine.\"}}",
		FAKE_EXITED(0));
	ck_assert(fake_event_has(&w, "context.resolved", "payload.refs.systemPrompt.source", "file"));
	run_loop_turn("", FAKE_EXITED(1));
	ck_assert(fake_event_has(&w, "turn.failed", "payload.category", "store"));
	ck_assert_uint_eq(fake_count(&w, "model.requested"), 0);
	run_loop_turn("{\"files\":[],\"omitted\":[],\"text\":\"\"}", FAKE_EXITED(0));
	run_loop_turn("", FAKE_EXITED(1));
	ck_assert(fake_event_has(&w, "context.resolved", "payload.refs.systemPrompt.source", "built-in"));
	ck_assert(!fake_event_has(&w, "turn.failed", "payload.category", "store"));
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "turn", set_up, tear_down, 60,
		  SUITE_TESTS(parts_run_one_after_the_other, a_failure_skips_the_remaining_parts,
			      of_two_concurrent_submissions_only_one_starts,
			      a_call_without_a_process_is_started_again_after_a_crash,
			      after_a_crash_a_running_call_continues_or_is_lost, a_call_is_started_once,
			      a_prompt_from_a_file_is_not_replaced_when_its_reader_fails,
			      a_call_waits_for_a_client_of_its_user, a_queue_is_held_after_a_crash,
			      an_interrupt_is_completed_after_a_crash, an_action_waits_for_its_answer,
			      an_action_that_times_out_is_denied,
			      an_answer_after_the_time_is_too_late_when_the_clock_was_set,
			      a_call_without_a_known_policy_is_not_allowed, other_users_see_neither_turns_nor_actions,
			      a_call_is_reported_only_when_it_is_durable) },
	};

	return suite_run_cases("turn", cases, 1);
}
