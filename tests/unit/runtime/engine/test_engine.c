/* The engine on a scripted host: which facts it writes, in which order, and its replies. */

#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"

#include <check.h>
#include <signal.h>

static struct fake_host w;
static struct fake_reply reply, second;

static void set_up(void)
{
	fake_open(&w);
	reply = second = (struct fake_reply){ 0 };
}

static void tear_down(void)
{
	fake_close(&w);
	buf_done(&reply.json);
	buf_done(&second.json);
}

START_TEST(a_start_is_recorded_before_its_gate_opens)
{
	uint64_t before = store_last_sequence(w.store);
	struct start_request r = fake_request(&w, "true");

	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	struct fake_process *p = fake_last(&w);
	const struct port_started s = { .pid = 4242, .attempt = 1 };
	engine_on_started(w.engine, p->id, &s);
	engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES);
	ck_assert(!p->gate_open);
	fake_settle(&w);
	ck_assert(p->gate_open);
	ck_assert_uint_eq(reply.count, 0); /* the answer waits for exec */
	mem_auto char *types = fake_types(&w, before);
	ck_assert_str_eq(
		types, "session.created thread.started turn.submitted turn.started thread.updated permission.evaluated "
		       "sandbox.applied process.started");
	engine_on_execed(w.engine, p->id);
	ck_assert_uint_eq(reply.count, 1);
	ck_assert_int_eq(reply.code, 0);
	ck_assert(jval_is_str(fake_answer(&reply, "status"), "running"));
	ck_assert(fake_event_has(&w, "sandbox.applied", "payload.layers.namespaces", "enforced"));
	ck_assert(fake_event_has(&w, "sandbox.applied", "payload.layers.mounts", "unavailable"));
	ck_assert(fake_event_has(&w, "sandbox.applied", "payload.layers.seccomp", "unavailable"));
}
END_TEST

START_TEST(an_end_without_a_report_of_exec_answers_the_start)
{
	struct start_request r = fake_request(&w, "true");
	const struct port_started s = { .pid = 4242, .attempt = 1 };

	r.end_awaited = true;
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	struct fake_process *p = fake_last(&w);
	engine_on_started(w.engine, p->id, &s);
	engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES);
	fake_settle(&w);
	ck_assert(p->gate_open);
	fake_exit(&w, p, 0, 0);
	fake_settle(&w);
	ck_assert_uint_eq(reply.count, 1);
	ck_assert_int_eq(reply.code, 0);
	ck_assert_uint_eq(fake_count(&w, "process.completed"), 1);
	/* A subscription that begins there has the end. */
	ck_assert_int_eq((int64_t)jval_uint(fake_answer(&reply, "sequence"), 0),
			 fake_event_number(&w, "process.started", "sequence"));
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(the_second_start_commits_while_its_sandbox_is_built)
{
	struct start_request r = fake_request(&w, "true");
	const struct port_started s = { .pid = 4243, .attempt = 1 };

	fake_run(&w, &r, &reply);
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	struct fake_process *p = fake_last(&w);
	engine_on_started(w.engine, p->id, &s);
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "process.started"), 2);
	ck_assert(!p->gate_open);
	engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS);
	ck_assert(p->gate_open);
}
END_TEST

START_TEST(a_sandbox_with_fewer_layers_than_recorded_does_not_run)
{
	struct start_request r = fake_request(&w, "true");
	const struct port_started s = { .pid = 4243, .attempt = 1 };

	fake_run(&w, &r, &reply);
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	struct fake_process *p = fake_last(&w);
	engine_on_started(w.engine, p->id, &s);
	fake_settle(&w);
	engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES); /* no mounts this time */
	ck_assert(!p->gate_open);
	ck_assert(p->killed);
	engine_on_gone(w.engine, p->id, NULL);
	engine_on_output_end(w.engine, p->id, STREAM_STDOUT);
	engine_on_output_end(w.engine, p->id, STREAM_STDERR);
	fake_settle(&w);
	ck_assert_int_eq(second.code, ERR_SANDBOX);
	ck_assert(fake_event_has(&w, "process.failed", "payload.category", "sandbox"));
	/* The next start does not expect the layer: it waits for its sandbox and records its layers. */
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	p = fake_last(&w);
	engine_on_started(w.engine, p->id, &s);
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "process.started"), 2);
	engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES);
	fake_settle(&w);
	ck_assert(p->gate_open);
	ck_assert_uint_eq(fake_count(&w, "process.started"), 3);
}
END_TEST

START_TEST(exit_zero_completes_process_and_turn)
{
	struct start_request r = fake_request(&w, "true");
	struct fake_process *p = fake_run(&w, &r, &reply);
	uint64_t before = store_last_sequence(w.store);

	engine_wait_process(w.engine, p->id, LIMIT_NONE, &fake_caller, fake_reply_fn, &second);
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	mem_auto char *types = fake_types(&w, before);
	ck_assert_str_eq(types, "process.completed turn.completed thread.updated");
	ck_assert(p->released);
	ck_assert_uint_eq(second.count, 1);
	ck_assert(jval_is_str(fake_answer(&second, "status"), "completed"));
	ck_assert_int_eq(jval_int(fake_answer(&second, "exitCode"), -1), 0);
	ck_assert(!jval_bool(fake_answer(&second, "timedOut"), true));
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(a_nonzero_exit_code_fails_only_the_turn)
{
	struct start_request r = fake_request(&w, "exit 3");

	fake_exit(&w, fake_run(&w, &r, &reply), FAKE_EXITED(3), 0);
	ck_assert_int_eq(fake_event_number(&w, "process.completed", "payload.exitCode"), 3);
	ck_assert(fake_event_has(&w, "turn.failed", "payload.category", "exit"));
	ck_assert(fake_event_has(&w, "thread.updated", "payload.status", "failed"));
}
END_TEST

START_TEST(a_command_that_cannot_be_executed_fails_with_its_stage)
{
	struct start_request r = fake_request(&w, "x");
	const struct port_started s = { .pid = 4242, .attempt = 1 };
	struct status_msg failed = { .kind = STATUS_FAILED, .step = STEP_EXEC, .error = 2, .path = "x" };

	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	struct fake_process *p = fake_last(&w);
	engine_on_started(w.engine, p->id, &s);
	engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES);
	fake_settle(&w);
	engine_on_gone(w.engine, p->id, &failed);
	engine_on_output_end(w.engine, p->id, STREAM_STDOUT);
	engine_on_output_end(w.engine, p->id, STREAM_STDERR);
	fake_settle(&w);
	ck_assert_int_eq(reply.code, ERR_SANDBOX);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&reply.json), "\"errnoName\":\"ENOENT\""));
	ck_assert(fake_event_has(&w, "process.failed", "payload.category", "spawn"));
	ck_assert_int_eq(fake_event_number(&w, "process.failed", "payload.errno"), 2);
	ck_assert_uint_eq(fake_count(&w, "process.completed"), 0);
}
END_TEST

START_TEST(an_init_that_dies_between_commit_and_ready_is_a_failed_start)
{
	struct start_request r = fake_request(&w, "true");
	const struct port_started s = { .pid = 4243, .attempt = 1 };
	struct status_msg failed = { .kind = STATUS_FAILED, .step = STEP_IDS, .error = 1 };

	fake_run(&w, &r, &reply);
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	struct fake_process *p = fake_last(&w);
	engine_on_started(w.engine, p->id, &s);
	fake_settle(&w); /* committed, and no READY yet */
	engine_on_gone(w.engine, p->id, &failed);
	engine_on_output_end(w.engine, p->id, STREAM_STDOUT);
	engine_on_output_end(w.engine, p->id, STREAM_STDERR);
	fake_settle(&w);
	ck_assert_int_eq(second.code, ERR_SANDBOX);
	ck_assert(fake_event_has(&w, "process.failed", "payload.stage", "ids"));
}
END_TEST

START_TEST(a_failed_launch_is_recorded)
{
	struct start_request r = fake_request(&w, "x");

	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	engine_on_launch_failed(w.engine, fake_last(&w)->id, STEP_CLONE, 11, REASON_NONE, "");
	fake_settle(&w);
	ck_assert_int_eq(reply.code, ERR_SANDBOX);
	ck_assert_uint_eq(fake_count(&w, "process.started"), 0);
	ck_assert_uint_eq(fake_count(&w, "process.failed"), 1);
	ck_assert_uint_eq(fake_count(&w, "turn.failed"), 1);
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(a_wall_limit_terminates_first_and_then_kills)
{
	struct start_request r = fake_request(&w, "sleep 100");
	r.limits.wall_ms = 1000;
	struct fake_process *p = fake_run(&w, &r, &reply);

	fake_advance(&w, 999);
	ck_assert_uint_eq(p->signals, 0);
	fake_advance(&w, 2);
	ck_assert(p->signals & (1u << (SIGTERM - 1)));
	ck_assert(!p->kill_tree);
	fake_advance(&w, 5001);
	ck_assert(p->kill_tree);
	ck_assert(!p->killed);
	fake_advance(&w, 2001);
	ck_assert(p->killed); /* the init did not react */
	fake_exit(&w, p, SIGKILL, STATUS_CAUSE_KILLED);
	ck_assert(fake_event_has(&w, "process.failed", "payload.category", "timeout"));
	ck_assert(fake_event_has(&w, "process.failed", "payload.limit", "wall"));
	ck_assert(fake_event_has(&w, "process.failed", "status", "timed_out"));
	ck_assert(fake_event_has(&w, "turn.failed", "status", "timed_out"));
}
END_TEST

START_TEST(output_resets_the_idle_limit)
{
	struct start_request r = fake_request(&w, "x");
	r.limits.idle_ms = 1000;
	struct fake_process *p = fake_run(&w, &r, &reply);

	fake_advance(&w, 900);
	fake_print(&w, p, STREAM_STDERR, "still here\n", 11);
	fake_advance(&w, 900);
	ck_assert_uint_eq(p->signals, 0);
	fake_advance(&w, 200);
	ck_assert_uint_ne(p->signals, 0);
	fake_exit(&w, p, SIGTERM, 0);
	ck_assert(fake_event_has(&w, "process.failed", "payload.limit", "idle"));
}
END_TEST

START_TEST(the_init_reports_the_cpu_limit)
{
	struct start_request r = fake_request(&w, "x");
	r.limits.cpu_ms = 1000;

	fake_exit(&w, fake_run(&w, &r, &reply), SIGKILL, STATUS_CAUSE_CPU);
	ck_assert(fake_event_has(&w, "process.failed", "payload.limit", "cpu"));
}
END_TEST

START_TEST(terminate_replies_when_the_end_is_recorded)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);

	engine_terminate_process(w.engine, p->id, "enough", 0, LIMIT_NONE, &fake_caller, fake_reply_fn, &second);
	ck_assert(p->signals & (1u << (SIGTERM - 1)));
	ck_assert_uint_eq(second.count, 0);
	fake_exit(&w, p, SIGTERM, 0);
	ck_assert_uint_eq(second.count, 1);
	ck_assert(jval_is_str(fake_answer(&second, "status"), "terminated"));
	ck_assert(jval_bool(fake_answer(&second, "treeEmpty"), false));
	ck_assert(fake_event_has(&w, "process.terminated", "payload.reason", "enough"));
	ck_assert(fake_event_has(&w, "process.terminated", "payload.cause", "user"));
	ck_assert_int_eq(fake_event_number(&w, "process.terminated", "payload.requestedBy.uid"), 1000);
}
END_TEST

START_TEST(an_end_by_a_clients_signal_is_not_a_completion)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);

	engine_signal_process(w.engine, p->id, SIGINT, &fake_caller, fake_reply_fn, &second);
	fake_settle(&w);
	ck_assert_uint_eq(second.count, 1);
	ck_assert(fake_event_has(&w, "process.input", "payload.signal", "INT"));
	fake_exit(&w, p, SIGINT, 0);
	ck_assert_uint_eq(fake_count(&w, "process.terminated"), 1);
	ck_assert_uint_eq(fake_count(&w, "process.completed"), 0);
}
END_TEST

START_TEST(an_end_by_another_signal_is_a_completion)
{
	struct start_request r = fake_request(&w, "x");

	fake_exit(&w, fake_run(&w, &r, &reply), SIGSEGV, 0);
	ck_assert(fake_event_has(&w, "process.completed", "payload.signal", "SEGV"));
}
END_TEST

START_TEST(other_users_cannot_see_or_control_a_process)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);
	struct caller other = fake_caller;

	other.uid = 1001;
	engine_terminate_process(w.engine, p->id, "", 0, LIMIT_NONE, &other, fake_reply_fn, &second);
	ck_assert_int_eq(second.code, ERR_NOT_FOUND);
	engine_signal_process(w.engine, p->id, SIGINT, &other, fake_reply_fn, &second);
	ck_assert_int_eq(second.code, ERR_NOT_FOUND);
	ck_assert_uint_eq(p->signals, 0);
}
END_TEST

START_TEST(a_process_bound_to_its_client_ends_with_it)
{
	struct start_request r = fake_request(&w, "x");
	r.end_with_client = true;
	struct fake_process *p = fake_run(&w, &r, &reply);

	engine_client_disconnected(w.engine, 99);
	ck_assert_uint_eq(p->signals, 0);
	engine_client_disconnected(w.engine, fake_caller.connection);
	ck_assert_uint_ne(p->signals, 0);
	fake_exit(&w, p, SIGTERM, 0);
	ck_assert(fake_event_has(&w, "process.terminated", "payload.reason", "client_gone"));
}
END_TEST

START_TEST(a_wait_can_time_out_while_the_process_continues)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);

	engine_wait_process(w.engine, p->id, 100, &fake_caller, fake_reply_fn, &second);
	fake_advance(&w, 101);
	ck_assert_uint_eq(second.count, 1);
	ck_assert(jval_bool(fake_answer(&second, "timedOut"), false));
	ck_assert(jval_is_str(fake_answer(&second, "status"), "running"));
}
END_TEST

/* ---- recovery ---- */

START_TEST(a_process_that_the_guard_holds_survives_a_crash)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);
	char id[PLAN_KEY_MAX];

	memcpy(id, p->id, sizeof id);
	fake_print(&w, p, STREAM_STDOUT, "before ", 7);
	fake_advance(&w, 60);
	fake_print(&w, p, STREAM_STDOUT, "uncited ", 8);
	fake_crash(&w);
	const struct port_held held = { .id = id, .attempt = 1, .started = true };
	fake_reopen(&w, &held, 1);
	ck_assert(p->gate_open);
	ck_assert_int_eq(fake_event_number(&w, "history.reconstructed", "payload.aliveCount"), 1);
	fake_print(&w, p, STREAM_STDOUT, "after", 5);
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_int_eq(fake_event_number(&w, "process.completed", "payload.outputs.stdout.bytes"), 20);
	ck_assert_uint_eq(fake_count(&w, "turn.completed"), 1);
	struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	ck_assert_int_eq(store_output_read(w.store, p->streams.ref[0], 0, 100, &out, &e), 0);
	ck_assert_str_eq(buf_cstr(&out), "before uncited after");
	buf_done(&out);
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(a_process_that_the_guard_does_not_hold_is_lost_and_keeps_its_output)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);

	fake_print(&w, p, STREAM_STDOUT, "last words", 10);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	ck_assert(fake_event_has(&w, "process.failed", "status", "lost"));
	ck_assert(fake_event_has(&w, "process.failed", "payload.category", "transport"));
	ck_assert(fake_event_has(&w, "turn.failed", "status", "lost"));
	ck_assert(fake_event_has(&w, "thread.updated", "payload.status", "unknown"));
	ck_assert_int_eq(fake_event_number(&w, "process.failed", "payload.outputs.stdout.bytes"), 10);
	ck_assert_uint_eq(fake_count(&w, "process.failed"), 1);
	ck_assert(fake_verified(&w));
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	ck_assert_uint_eq(fake_count(&w, "process.failed"), 1); /* once */
}
END_TEST

START_TEST(a_start_that_was_not_committed_is_abandoned)
{
	struct start_request r = fake_request(&w, "x");
	char id[PLAN_KEY_MAX];

	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	memcpy(id, fake_last(&w)->id, sizeof id);
	fake_crash(&w);
	const struct port_held held = { .id = id, .attempt = 1, .started = true };
	fake_reopen(&w, &held, 1);
	ck_assert_uint_eq(w.nabandoned, 1);
	ck_assert_str_eq(w.abandoned[0], id);
	ck_assert_uint_eq(fake_count(&w, "process.started"), 0);
	ck_assert_int_eq(fake_event_number(&w, "history.reconstructed", "payload.aborted"), 1);
}
END_TEST

START_TEST(only_the_committed_attempt_is_adopted)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);
	char id[PLAN_KEY_MAX];

	memcpy(id, p->id, sizeof id);
	fake_crash(&w);
	const struct port_held held[] = { { .id = id, .attempt = 2, .started = true },
					  { .id = id, .attempt = 1, .started = true } };
	fake_reopen(&w, held, 2);
	ck_assert_uint_eq(w.nabandoned, 1);
	ck_assert_int_eq(fake_event_number(&w, "history.reconstructed", "payload.aliveCount"), 1);
}
END_TEST

START_TEST(a_client_that_does_not_reconnect_after_a_restart_counts_as_disconnected)
{
	struct start_request r = fake_request(&w, "x");
	r.end_with_client = true;
	struct fake_process *p = fake_run(&w, &r, &reply);
	char id[PLAN_KEY_MAX];

	memcpy(id, p->id, sizeof id);
	fake_crash(&w);
	const struct port_held held = { .id = id, .attempt = 1, .started = true };
	fake_reopen(&w, &held, 1);
	fake_advance(&w, 29000);
	ck_assert_uint_eq(p->signals, 0);
	engine_client_follows(w.engine, id, &fake_caller);
	fake_advance(&w, 60000);
	ck_assert_uint_eq(p->signals, 0);
	engine_client_disconnected(w.engine, fake_caller.connection);
	ck_assert_uint_ne(p->signals, 0);
}
END_TEST

static void on_stopped(void *ctx) { *(bool *)ctx = true; }

START_TEST(stopping_ends_processes_and_rejects_requests)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);
	bool stopped = false;

	engine_stop(w.engine, on_stopped, &stopped);
	ck_assert(!stopped);
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	ck_assert_int_eq(second.code, ERR_UNAVAILABLE);
	fake_exit(&w, p, SIGTERM, 0);
	ck_assert(stopped);
	ck_assert(fake_event_has(&w, "process.terminated", "payload.reason", "shutdown"));
}
END_TEST

START_TEST(an_unknown_profile_is_rejected)
{
	struct start_request r = fake_request(&w, "x");

	r.sandbox.profile = "castle";
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	ck_assert_int_eq(reply.code, ERR_NOT_FOUND);
	ck_assert_ptr_nonnull(strstr(reply.message, "workspace, readonly, isolated"));
	ck_assert_uint_eq(w.nprocesses, 0);
}
END_TEST

START_TEST(a_process_in_a_given_turn_does_not_end_it)
{
	struct session_request s = { .title = "work" };
	struct start_request r = fake_request(&w, "x");

	engine_create_session(w.engine, &s, &fake_caller, fake_reply_fn, &second);
	fake_settle(&w);
	ck_assert_int_eq(second.code, 0);
	char session[72], thread[72];
	jval_str(fake_answer(&second, "sessionId"), session, sizeof session);
	jval_str(fake_answer(&second, "threadId"), thread, sizeof thread);
	r.session_id = session;
	r.thread_id = thread;
	struct fake_process *p = fake_run(&w, &r, &reply);
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second); /* the thread is busy */
	ck_assert_int_eq(second.code, ERR_CONFLICT);
	char turn[72];
	jval_str(fake_answer(&reply, "turnId"), turn, sizeof turn);
	r.turn_id = turn;
	struct fake_process *other = fake_run(&w, &r, &second);
	fake_exit(&w, other, FAKE_EXITED(0), 0);
	ck_assert_uint_eq(fake_count(&w, "turn.completed"), 0);
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_uint_eq(fake_count(&w, "turn.completed"), 1);
	r.session_id = "sess_unknown";
	r.thread_id = r.turn_id = NULL;
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	ck_assert_int_eq(second.code, ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_reload_that_times_out_fails_and_is_not_named_in_a_later_change)
{
	engine_reload_policy(w.engine, &fake_caller, fake_reply_fn, &reply);
	fake_advance(&w, 9000);
	ck_assert_uint_eq(reply.count, 0);
	fake_advance(&w, 2000);
	ck_assert_uint_eq(reply.count, 1);
	ck_assert_int_eq(reply.code, ERR_UNAVAILABLE);
	engine_policy_is(w.engine, "host", "changed", "one rule");
	fake_settle(&w);
	mem_auto char *json = fake_event(&w, "policy.changed");
	ck_assert_ptr_nonnull(json);
	ck_assert_int_eq(jval_path(jval_of(json, strlen(json)), "payload.by").type, JT_NONE);
}
END_TEST

/* The policy has changed, and the event names the client that requested the reload. */
static void check_second_reload(void)
{
	engine_policy_is(w.engine, "host", "changed", "one rule");
	engine_policy_loaded(w.engine, w.reload_token, NULL);
	fake_settle(&w);
	ck_assert_uint_eq(second.count, 1);
	mem_auto char *json = fake_event(&w, "policy.changed");
	ck_assert_ptr_nonnull(json);
	ck_assert_int_eq(jval_path(jval_of(json, strlen(json)), "payload.by").type, JT_OBJECT);
}

START_TEST(a_reload_that_times_out_does_not_affect_the_next_one)
{
	engine_reload_policy(w.engine, &fake_caller, fake_reply_fn, &reply);
	fake_advance(&w, 5000);
	engine_reload_policy(w.engine, &fake_caller, fake_reply_fn, &second);
	fake_advance(&w, 6000);
	ck_assert_int_eq(reply.code, ERR_UNAVAILABLE);
	ck_assert_uint_eq(second.count, 0);
	check_second_reload();
}
END_TEST

/* Files that were opened before the request may lack the client's changes. */
START_TEST(a_load_that_began_before_a_reload_does_not_answer_it)
{
	engine_reload_policy(w.engine, &fake_caller, fake_reply_fn, &reply);
	engine_policy_loaded(w.engine, w.reload_token - 1, NULL);
	fake_settle(&w);
	ck_assert_uint_eq(reply.count, 0);
	engine_reload_policy(w.engine, &fake_caller, fake_reply_fn, &second);
	engine_policy_loaded(w.engine, w.reload_token - 1, NULL);
	fake_settle(&w);
	ck_assert_uint_eq(reply.count, 1);
	ck_assert_int_eq(reply.code, 0);
	ck_assert_uint_eq(second.count, 0);
	check_second_reload();
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "process", set_up, tear_down, 60,
		  SUITE_TESTS(a_start_is_recorded_before_its_gate_opens,
			      an_end_without_a_report_of_exec_answers_the_start,
			      the_second_start_commits_while_its_sandbox_is_built,
			      a_sandbox_with_fewer_layers_than_recorded_does_not_run,
			      exit_zero_completes_process_and_turn, a_nonzero_exit_code_fails_only_the_turn,
			      a_command_that_cannot_be_executed_fails_with_its_stage,
			      an_init_that_dies_between_commit_and_ready_is_a_failed_start, a_failed_launch_is_recorded,
			      a_wall_limit_terminates_first_and_then_kills, output_resets_the_idle_limit,
			      the_init_reports_the_cpu_limit, terminate_replies_when_the_end_is_recorded,
			      an_end_by_a_clients_signal_is_not_a_completion, an_end_by_another_signal_is_a_completion,
			      other_users_cannot_see_or_control_a_process, a_process_bound_to_its_client_ends_with_it,
			      a_wait_can_time_out_while_the_process_continues,
			      a_process_that_the_guard_holds_survives_a_crash,
			      a_process_that_the_guard_does_not_hold_is_lost_and_keeps_its_output,
			      a_start_that_was_not_committed_is_abandoned, only_the_committed_attempt_is_adopted,
			      a_client_that_does_not_reconnect_after_a_restart_counts_as_disconnected,
			      stopping_ends_processes_and_rejects_requests, an_unknown_profile_is_rejected,
			      a_process_in_a_given_turn_does_not_end_it,
			      a_reload_that_times_out_fails_and_is_not_named_in_a_later_change,
			      a_reload_that_times_out_does_not_affect_the_next_one,
			      a_load_that_began_before_a_reload_does_not_answer_it) },
	};

	return suite_run_cases("engine", cases, 1);
}
