/* terminate_process that is repeated with its idempotency key after a crash of the runtime. */

#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"

#include <check.h>
#include <signal.h>

static struct fake_host w;
static struct fake_reply reply, first, second;
static struct caller caller;

static void set_up(void)
{
	fake_open(&w);
	reply = first = second = (struct fake_reply){ 0 };
	caller = fake_caller;
	caller.idem_key = "k";
	caller.idem_method = "terminate_process";
}

static void tear_down(void)
{
	fake_close(&w);
	buf_done(&reply.json);
	buf_done(&first.json);
	buf_done(&second.json);
}

static bool is_begun(void)
{
	buf_auto struct buf stored = BUF_INIT;
	struct err e = ERR_INIT;
	char method[64];
	uint8_t hash[32];

	return store_idempotency_get(w.store, caller.uid, "k", method, hash, &stored, &e) == 0 &&
	       strcmp(buf_cstr(&stored), "{\"begun\":true}") == 0;
}

static void request_end(const char *id, struct fake_reply *to)
{
	engine_terminate_process(w.engine, id, "enough", 0, 60000, &caller, fake_reply_fn, to);
}

static struct fake_process *run(void)
{
	struct start_request r = fake_request(&w, "x");

	return fake_run(&w, &r, &reply);
}

static bool has_signal(const struct fake_process *p) { return p->signals & (1u << (SIGTERM - 1)); }

START_TEST(the_intent_is_durable_before_the_signal)
{
	struct fake_process *p = run();

	request_end(p->id, &first);
	ck_assert(!has_signal(p));
	fake_settle(&w);
	ck_assert(is_begun());
	ck_assert(has_signal(p));
	fake_exit(&w, p, SIGTERM, 0);
	fake_settle(&w);
	ck_assert_uint_eq(first.count, 1);
	ck_assert_int_eq(first.code, 0);
	ck_assert(!is_begun());
}
END_TEST

START_TEST(a_slow_disk_does_not_delay_the_signal)
{
	struct fake_process *p = run();

	request_end(p->id, &first);
	w.boot_ns += 30 * 1000000ull; /* the store has not reported the commit */
	engine_tick(w.engine);
	ck_assert(has_signal(p));
	fake_exit(&w, p, SIGTERM, 0);
	fake_settle(&w);
	ck_assert_uint_eq(first.count, 1);
	ck_assert_int_eq(first.code, 0);
}
END_TEST

/* Even when another request arrives before the intent of the first one is durable. */
START_TEST(the_reason_of_the_first_request_is_recorded)
{
	struct fake_process *p = run();
	struct caller other = fake_caller;

	request_end(p->id, &first);
	engine_terminate_process(w.engine, p->id, "too late", 0, 60000, &other, fake_reply_fn, &second);
	ck_assert(has_signal(p));
	fake_exit(&w, p, SIGTERM, 0);
	fake_settle(&w);
	ck_assert_uint_eq(first.count + second.count, 2);
	mem_auto char *event = fake_event(&w, "process.terminated");
	ck_assert_ptr_nonnull(strstr(event, "\"reason\":\"enough\""));
}
END_TEST

/* The process ends while no runtime is running; the next one records the end before the request is repeated. */
START_TEST(a_request_repeated_after_a_crash_returns_the_end)
{
	struct fake_process *p = run();
	const struct port_held held = { .id = p->id, .attempt = 1, .started = true };

	request_end(p->id, &first);
	fake_settle(&w);
	fake_crash(&w);
	fake_reopen(&w, &held, 1);
	ck_assert(is_begun());
	fake_exit(&w, p, SIGTERM, 0);
	fake_settle(&w);
	caller.repeated = true; /* as the control socket does for a record with status "begun" */
	request_end(p->id, &second);
	ck_assert_uint_eq(second.count, 1);
	ck_assert_msg(second.code == 0, "%s", second.message);
	struct jval r = jval_of(second.json.data, second.json.len);
	ck_assert(jval_is_str(jval_get(r, "processId"), p->id));
	ck_assert(jval_is_str(jval_get(r, "status"), "completed")); /* by a signal that the new runtime did not send */
	ck_assert(jval_bool(jval_get(r, "treeEmpty"), false));
	/* Without the record it is a request about a process that has ended. */
	caller.repeated = false;
	request_end(p->id, &second);
	ck_assert_int_eq(second.code, ERR_STATE);
}
END_TEST

START_TEST(a_request_repeated_after_a_crash_ends_a_process_that_still_runs)
{
	struct fake_process *p = run();
	const struct port_held held = { .id = p->id, .attempt = 1, .started = true };

	request_end(p->id, &first);
	fake_settle(&w);
	fake_crash(&w);
	p->signals = 0; /* it ignored the first one */
	fake_reopen(&w, &held, 1);
	engine_on_execed(w.engine, p->id);
	fake_settle(&w);
	caller.repeated = true;
	request_end(p->id, &second);
	ck_assert(has_signal(p));
	fake_exit(&w, p, SIGTERM, 0);
	fake_settle(&w);
	ck_assert_uint_eq(second.count, 1);
	ck_assert_int_eq(second.code, 0);
	ck_assert_uint_eq(fake_count(&w, "process.terminated"), 1);
	ck_assert(fake_verified(&w));
}
END_TEST

/* Its process can be stopped, or wait for a disk. No other deadline makes the engine act then. */
START_TEST(a_start_that_hangs_before_exec_is_killed)
{
	struct start_request r = fake_request(&w, "x");
	struct caller plain = fake_caller;

	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	struct fake_process *p = fake_last(&w);
	engine_on_started(w.engine, p->id, &(struct port_started){ .pid = 4242, .start_time = 99, .attempt = 1 });
	engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS);
	fake_settle(&w);
	ck_assert(p->gate_open);
	fake_advance(&w, 1000);
	engine_terminate_process(w.engine, p->id, "enough", SIGKILL, 0, &plain, fake_reply_fn, &first);
	fake_advance(&w, 500);
	ck_assert(p->kill_tree);
	fake_advance(&w, 2500);
	ck_assert(p->killed);
	engine_on_gone(w.engine, p->id, NULL);
	fake_advance(&w, 10000);
	ck_assert_uint_eq(first.count, 1);
	ck_assert_int_eq(first.code, 0);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "terminate", set_up, tear_down, 60,
		  SUITE_TESTS(the_intent_is_durable_before_the_signal, a_slow_disk_does_not_delay_the_signal,
			      the_reason_of_the_first_request_is_recorded,
			      a_request_repeated_after_a_crash_returns_the_end,
			      a_request_repeated_after_a_crash_ends_a_process_that_still_runs,
			      a_start_that_hangs_before_exec_is_killed) }
	};

	return suite_run_cases("terminate", cases, 1);
}
