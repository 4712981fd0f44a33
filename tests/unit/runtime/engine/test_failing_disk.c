/*
 * The store's disk fails at the start of a process. The facts of the start and those of its end are in different
 * batches: the log must not have the second without the first.
 */

#include "tests/unit/runtime/engine/fake_host.h"

#include "policy/hooks.h"
#include "policy/rules.h"
#include "runtime/base/err.h"
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

/* The disk works again; what waits is written. */
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

START_TEST(a_process_that_cannot_be_created)
{
	struct start_request r = fake_request(&w, "x");

	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	atomic_store(&disk_fails, true);
	engine_on_launch_failed(w.engine, fake_last(&w)->id, STEP_CLONE, EAGAIN, "");
	fake_settle(&w);
	heal_disk();
	check_turn();
}
END_TEST

START_TEST(a_process_that_hooks_evaluate)
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

int main(void)
{
	Suite *suite = suite_create("failing_disk");
	TCase *t = tcase_create("failing_disk");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_process_that_cannot_be_created);
	tcase_add_test(t, a_process_that_hooks_evaluate);
	suite_add_tcase(suite, t);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
