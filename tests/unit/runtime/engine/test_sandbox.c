/* Session sandboxes live as long as their holder, and commands end before the holder. */

#include "tests/unit/runtime/engine/fake_host.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/engine/sandbox/sandbox.h"
#include "runtime/view/view_sandbox.h"

#include <check.h>
#include <errno.h>
#include <signal.h>

static struct fake_host w;
static struct fake_reply reply, second;
static char sandbox[ID_SIZE], holder_id[ID_SIZE];

static void tear_down(void)
{
	fake_close(&w);
	buf_done(&reply.json);
	buf_done(&second.json);
}

static void take(const struct fake_reply *r, const char *member, char ret[ID_SIZE])
{
	jval_str(jval_get(jval_of(r->json.data, r->json.len), member), ret, ID_SIZE);
}

static struct fake_process *create(const char *name, uint64_t idle_ms)
{
	const struct sandbox_creation r = { .name = name, .idle_ms = idle_ms };

	engine_create_sandbox(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	return fake_last(&w);
}

static void set_up(void)
{
	fake_open(&w);
	reply = second = (struct fake_reply){ 0 };
	fake_begin(&w, create("dev", 60000));
	take(&reply, "sandboxId", sandbox);
	take(&reply, "processId", holder_id);
}

static struct fake_process *holder(void) { return fake_find(&w, holder_id); }

static struct fake_process *member(const char *command_line)
{
	struct start_request r = fake_request(&w, command_line);

	r.sandbox_id = "dev";
	return fake_run(&w, &r, &second);
}

static void close_sandbox(void)
{
	engine_close_sandbox(w.engine, "dev", &fake_caller, fake_reply_fn, &second);
	fake_settle(&w);
}

static void ck_closed(const char *reason)
{
	mem_auto char *json = fake_event(&w, "sandbox.closed");

	ck_assert_ptr_nonnull(json);
	ck_assert(jval_is_str(jval_path(jval_of(json, strlen(json)), "payload.reason"), reason));
	ck_assert_uint_eq(fake_count(&w, "sandbox.closed"), 1);
	ck_assert(fake_verified(&w));
}

static bool is_open(void)
{
	const struct view_sandbox_query q = { .limit = 10 };
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(view_sandboxes(w.store, 0, &q, &out, &e), 0);
	return strstr(buf_cstr(&out), sandbox) != NULL;
}

START_TEST(a_sandbox_is_created_with_its_holder)
{
	mem_auto char *types = fake_types(&w, 0);

	ck_assert_int_eq(reply.code, 0);
	ck_assert_uint_eq(reply.count, 1);
	ck_assert_ptr_nonnull(strstr(types, "process.started sandbox.created"));
	ck_assert_uint_eq(holder()->plan_flags & (PLAN_HOLDER | PLAN_MEMBER), PLAN_HOLDER);
	ck_assert(is_open());
}
END_TEST

START_TEST(a_failed_holder_leaves_no_sandbox)
{
	struct fake_process *p = create("other", 0);
	char id[PLAN_KEY_MAX];

	memcpy(id, p->id, sizeof id);
	engine_on_launch_failed(w.engine, id, 0, 1, REASON_NONE, "");
	fake_settle(&w);
	ck_assert_int_ne(reply.code, 0);
	ck_assert_uint_eq(reply.count, 2);
	ck_assert_uint_eq(fake_count(&w, "sandbox.created"), 1);
	ck_assert_uint_eq(fake_count(&w, "sandbox.closed"), 0);
	fake_begin(&w, create("other", 0));
	ck_assert_int_eq(reply.code, 0); /* the name is free */
}
END_TEST

START_TEST(the_name_of_an_open_sandbox_is_in_use)
{
	create("dev", 0);
	ck_assert_int_eq(reply.code, ERR_CONFLICT);
	close_sandbox();
	fake_exit(&w, holder(), SIGKILL, 0);
	fake_begin(&w, create("dev", 0));
	ck_assert_int_eq(reply.code, 0);
}
END_TEST

START_TEST(a_command_is_launched_through_the_holder)
{
	struct fake_process *p = member("true");

	ck_assert_int_eq(second.code, 0);
	ck_assert_uint_eq(p->plan_flags & (PLAN_HOLDER | PLAN_MEMBER), PLAN_MEMBER);
	ck_assert_str_eq(p->streams.within, holder_id);
	fake_exit(&w, p, 0, 0);
	ck_assert(is_open());
}
END_TEST

START_TEST(a_start_in_a_sandbox_that_ends_says_so)
{
	struct start_request r = fake_request(&w, "true");

	r.sandbox_id = "dev";
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	engine_on_launch_failed(w.engine, fake_last(&w)->id, STEP_CLONE, ECONNRESET, REASON_NONE, "");
	fake_settle(&w);
	ck_assert_int_eq(second.code, ERR_SANDBOX);
	ck_assert_ptr_nonnull(strstr(second.message, "its session sandbox ended"));
	ck_assert(fake_event_has(&w, "process.failed", "payload.category", "sandbox"));
}
END_TEST

START_TEST(sandbox_options_are_rejected_for_a_command_in_it)
{
	struct start_request r = fake_request(&w, "true");

	r.sandbox_id = sandbox;
	r.sandbox.profile = "readonly";
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	ck_assert_int_eq(second.code, ERR_INVALID);
	r.sandbox.profile = "workspace";
	r.sandbox.change.cow = true;
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	ck_assert_int_eq(second.code, ERR_INVALID);
	ck_assert_uint_eq(w.nprocesses, 1);
}
END_TEST

START_TEST(limits_apply_to_the_command)
{
	struct start_request r = fake_request(&w, "true");

	r.sandbox_id = sandbox;
	r.sandbox.change.limits.value[PLAN_LIMIT_MEMORY] = 1 << 20;
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	const struct plan_limits *l = &w.processes[1].streams.limits;
	ck_assert_uint_eq(l->value[PLAN_LIMIT_MEMORY], 1 << 20);
	ck_assert_uint_eq(l->required, 1u << PLAN_LIMIT_MEMORY);
	ck_assert_uint_eq(l->value[PLAN_LIMIT_PIDS], 0);
}
END_TEST

START_TEST(closing_a_sandbox_ends_its_commands_first)
{
	struct fake_process *p = member("sleep 9");

	second.count = 0;
	close_sandbox();
	ck_assert_uint_eq(p->signals, 1ull << (SIGTERM - 1) | 1ull << (SIGCONT - 1));
	ck_assert_uint_eq(holder()->signals, 0);
	fake_exit(&w, p, SIGTERM, 0);
	fake_advance(&w, 1);
	ck_assert(holder()->signals || holder()->kill_tree || holder()->killed);
	ck_assert_uint_eq(second.count, 0);
	fake_exit(&w, holder(), SIGKILL, 0);
	ck_assert_uint_eq(second.count, 1);
	ck_assert_int_eq(second.code, 0);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&second.json), "sleep 9"));
	ck_closed("closed");
	ck_assert(!is_open());
}
END_TEST

/* The death of the holder kills the commands that are left. */
START_TEST(a_command_that_does_not_end_does_not_keep_the_sandbox_open)
{
	member("sleep 9");
	close_sandbox();
	fake_advance(&w, 6000);
	ck_assert(!holder()->signals && !holder()->kill_tree);
	fake_advance(&w, 2000);
	ck_assert(holder()->signals || holder()->kill_tree || holder()->killed);
}
END_TEST

START_TEST(the_idle_period_begins_when_the_last_command_ends)
{
	struct fake_process *p = member("sleep 9");

	fake_advance(&w, 200000);
	ck_assert_uint_eq(holder()->signals, 0);
	fake_exit(&w, p, 0, 0);
	fake_advance(&w, 59000);
	ck_assert_uint_eq(holder()->signals, 0);
	fake_advance(&w, 2000);
	fake_exit(&w, holder(), SIGKILL, 0);
	ck_closed("idle");
}
END_TEST

START_TEST(a_dead_holder_closes_its_sandbox)
{
	fake_exit(&w, holder(), SIGKILL, 0);
	ck_closed("failed");
	ck_assert(!is_open());
}
END_TEST

START_TEST(a_sandbox_survives_a_crash_of_the_runtime)
{
	const struct port_held held = { .id = holder_id, .attempt = 1, .started = true };

	fake_crash(&w);
	fake_reopen(&w, &held, 1);
	ck_assert(is_open());
	member("true");
	ck_assert_int_eq(second.code, 0);
	create("dev", 0);
	ck_assert_int_eq(reply.code, ERR_CONFLICT);
}
END_TEST

START_TEST(a_sandbox_is_lost_with_its_guard)
{
	member("true");
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	ck_closed("lost");
	ck_assert(!is_open());
	fake_begin(&w, create("dev", 0));
	ck_assert_int_eq(reply.code, 0);
}
END_TEST

static void on_stopped(void *ctx) { *(bool *)ctx = true; }

START_TEST(a_shutdown_ends_commands_first)
{
	struct fake_process *p = member("sleep 9");
	bool stopped = false;

	engine_stop(w.engine, on_stopped, &stopped);
	fake_advance(&w, 1);
	ck_assert_uint_eq(p->signals, 1ull << (SIGTERM - 1) | 1ull << (SIGCONT - 1));
	ck_assert_uint_eq(holder()->signals, 0);
	fake_exit(&w, p, SIGTERM, 0);
	fake_advance(&w, 200);
	ck_assert(!stopped);
	fake_exit(&w, holder(), SIGKILL, 0);
	ck_assert(stopped);
	ck_closed("shutdown");
}
END_TEST

START_TEST(archiving_a_session_ends_its_sandboxes)
{
	const struct session_request s = { .session_id = "sess_x" };
	const struct session_change archive = { .session_id = "sess_x", .archived = 1 };

	engine_create_session(w.engine, &s, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	const struct sandbox_creation r = { .session_id = "sess_x" };
	engine_create_sandbox(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	struct fake_process *bound = fake_last(&w);
	fake_begin(&w, bound);
	engine_update_session(w.engine, &archive, &fake_caller, fake_reply_fn, &second);
	fake_settle(&w);
	ck_assert(bound->signals || bound->kill_tree || bound->killed);
	ck_assert_uint_eq(holder()->signals, 0);
	fake_exit(&w, bound, SIGKILL, 0);
	ck_closed("session_ended");
}
END_TEST

/* With the leak check (tests/prove/sanitizers.py leaks): waiting starts are freed, too. */
START_TEST(the_engine_can_be_freed_while_starts_wait_for_a_sandbox)
{
	const struct session_request s = { .session_id = "sess_x" };
	struct start_request r = fake_request(&w, "true");

	engine_create_session(w.engine, &s, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	r.session_id = "sess_x";
	r.sandbox_id = "session";
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &second);
	ck_assert_uint_eq(fake_last(&w)->plan_flags & (PLAN_HOLDER | PLAN_MEMBER), PLAN_HOLDER);
	fake_crash(&w);
	ck_assert_uint_eq(second.count, 0); /* the clients are gone */
	fake_reopen(&w, NULL, 0);
	ck_assert_uint_eq(fake_count(&w, "sandbox.created"), 1);
	ck_assert(fake_verified(&w));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sandbox");
	TCase *t = tcase_create("sandbox");
	const TTest *const tests[] = {
		a_sandbox_is_created_with_its_holder,
		a_failed_holder_leaves_no_sandbox,
		the_name_of_an_open_sandbox_is_in_use,
		a_command_is_launched_through_the_holder,
		a_start_in_a_sandbox_that_ends_says_so,
		sandbox_options_are_rejected_for_a_command_in_it,
		limits_apply_to_the_command,
		closing_a_sandbox_ends_its_commands_first,
		a_command_that_does_not_end_does_not_keep_the_sandbox_open,
		the_idle_period_begins_when_the_last_command_ends,
		a_dead_holder_closes_its_sandbox,
		a_sandbox_survives_a_crash_of_the_runtime,
		a_sandbox_is_lost_with_its_guard,
		a_shutdown_ends_commands_first,
		archiving_a_session_ends_its_sandboxes,
		the_engine_can_be_freed_while_starts_wait_for_a_sandbox,
	};

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_set_timeout(t, 60);
	for (size_t i = 0; i < countof(tests); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	SRunner *runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
