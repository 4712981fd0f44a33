/*
 * The store's disk fails at the start of a process. The facts of the start and those of its end are in different
 * batches: the log must not have the second without the first. It also fails when a person answers.
 */

#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include "policy/hooks.h"
#include "policy/rules.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"

#include <check.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct fake_host w;
static struct fake_reply reply;
static struct policy_rules rules;
static struct policy_hooks hooks;
static atomic_bool disk_fails;

/* Instead of libc's, for the store and LMDB. */
int fdatasync(int fd)
{
	if (!atomic_load(&disk_fails))
		return (int)syscall(SYS_fdatasync, fd);
	errno = EIO;
	return -1;
}

static void set_up(void)
{
	fake_open(&w);
	reply = (struct fake_reply){ 0 };
	rules = RULES_INIT;
	hooks = (struct policy_hooks){ 0 };
	rules.hooks = &hooks;
}

static void tear_down(void)
{
	fake_close(&w);
	buf_done(&reply.json);
	policy_rules_done(&rules);
	policy_hooks_done(&hooks);
}

/* The disk works again, and pending writes are retried. */
static void heal_disk(void)
{
	atomic_store(&disk_fails, false);
	do
		fake_settle(&w);
	while (store_queued(w.store));
}

static void check_turn(void)
{
	ck_assert_uint_eq(fake_count(&w, "turn.started"), 1);
	ck_assert_uint_eq(fake_count(&w, "turn.failed"), 1);
	ck_assert_uint_eq(fake_count(&w, "process.failed"), 1);
	ck_assert_int_ne(reply.code, 0);
	ck_assert(fake_verified(&w));
}

START_TEST(a_failed_launch_is_recorded_after_its_start)
{
	struct start_request r = fake_request(&w, "x");

	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	atomic_store(&disk_fails, true);
	engine_on_launch_failed(w.engine, fake_last(&w)->id, STEP_CLONE, EAGAIN, REASON_NONE, "");
	fake_settle(&w);
	heal_disk();
	check_turn();
}
END_TEST

START_TEST(a_denial_by_a_hook_is_recorded_after_its_start)
{
	static const char text[] =
		"{\"hooks\":{\"PreToolUse\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"x\"}]}]}}";
	struct start_request r = fake_request(&w, "true");
	const struct port_started s = { .pid = 4242, .attempt = 1 };
	struct err e = ERR_INIT;

	ck_assert(policy_hooks_parse(&hooks, RULE_OF_HOST, "policy.json", text, sizeof text - 1, &e) == 0);
	engine_set_rules(w.engine, &rules);
	engine_set_hooks(w.engine, &hooks);
	atomic_store(&disk_fails, true);
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	/* The start of the hook is rejected, so it denies. */
	engine_on_started(w.engine, fake_last(&w)->id, &s);
	engine_on_ready(w.engine, fake_last(&w)->id, UINT32_MAX);
	fake_settle(&w);
	heal_disk();
	check_turn();
}
END_TEST

/* The first answer is rejected, and repeated when the disk works again. */
static void answer(const char *action_id, const char *decision)
{
	const struct action_answer a = { .action_id = action_id, .decision = decision, .source = "user" };

	engine_respond_action(w.engine, &a, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
}

static void ask_for_start(char action_id[80])
{
	static const char text[] = "{\"permissions\":{\"ask\":[\"Bash\"]}}";
	struct start_request r = fake_request(&w, "true");
	struct err e = ERR_INIT;

	ck_assert(policy_rules_parse(&rules, RULE_OF_HOST, "policy.json", text, sizeof text - 1, &e) == 0);
	engine_set_rules(w.engine, &rules);
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	ck_assert_int_eq(reply.code, 0);
	jval_str(jval_get(jval_of(reply.json.data, reply.json.len), "actionId"), action_id, 80);
	atomic_store(&disk_fails, true);
	answer(action_id, "deny");
	ck_assert_int_ne(reply.code, 0);
	ck_assert_uint_eq(fake_count(&w, "process.failed"), 0);
	heal_disk();
}

START_TEST(a_denial_that_was_not_stored_can_be_repeated)
{
	char id[80];

	ask_for_start(id);
	answer(id, "deny");
	ck_assert_int_eq(reply.code, 0);
	ck_assert_uint_eq(fake_count(&w, "process.failed"), 1);
	ck_assert_uint_eq(fake_count(&w, "turn.failed"), 1);
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(a_denial_that_was_not_stored_can_be_followed_by_an_approval)
{
	char id[80];

	ask_for_start(id);
	ck_assert_uint_eq(w.nprocesses, 0);
	answer(id, "allow");
	ck_assert_uint_eq(w.nprocesses, 1); /* it is launched */
	ck_assert_uint_eq(fake_count(&w, "process.failed"), 0);
	ck_assert(fake_verified(&w));
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = { { "failing_disk", set_up, tear_down, 60,
					      SUITE_TESTS(
						      a_failed_launch_is_recorded_after_its_start,
						      a_denial_by_a_hook_is_recorded_after_its_start,
						      a_denial_that_was_not_stored_can_be_repeated,
						      a_denial_that_was_not_stored_can_be_followed_by_an_approval) } };

	return suite_run_cases("failing_disk", cases, 1);
}
