/* Hooks on a scripted host: restarts of the runtime while a hook runs, and the turn that a hook must not end. */

#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include "policy/hooks.h"
#include "policy/rules.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"

#include <check.h>

static struct fake_host w;
static struct fake_reply reply;
static struct policy_rules rules;
static struct policy_hooks hooks;

static void use_hooks(void)
{
	engine_set_rules(w.engine, &rules);
	engine_set_hooks(w.engine, &hooks);
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

static void load_hook(const char *point)
{
	mem_auto char *text = mem_printf(
		"{\"hooks\":{\"%s\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"x\"}]}]}}", point);
	struct err e = ERR_INIT;

	ck_assert_msg(policy_hooks_parse(&hooks, RULE_OF_HOST, "policy.json", text, strlen(text), &e) == 0, "%s",
		      e.message);
	use_hooks();
}

/* Runs the hook's process, which was launched last. */
static struct fake_process *run_hook(void) { return fake_begin(&w, fake_last(&w)); }

START_TEST(a_start_that_waits_for_hooks_is_denied_once_despite_repeated_restarts)
{
	struct start_request r = fake_request(&w, "true");

	load_hook("PreToolUse");
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	struct fake_process *hook = run_hook();
	ck_assert_uint_eq(fake_count(&w, "hook.started"), 1);
	for (int i = 0; i < 3; i++) { /* the hook's process is still there each time */
		const struct port_held held = { .id = hook->id, .attempt = 1, .started = true };

		fake_crash(&w);
		fake_reopen(&w, &held, 1);
		use_hooks();
		ck_assert_uint_eq(fake_count(&w, "process.failed"), 1);
	}
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(a_hook_does_not_end_the_turn_that_holds_its_sessions_facts)
{
	static const char stop[] = "{\"continue\":false,\"stopReason\":\"enough\"}";
	struct start_request r = fake_request(&w, "false");

	load_hook("PostToolUseFailure");
	struct fake_process *p = fake_run(&w, &r, &reply);
	fake_exit(&w, p, 1 << 8, 0); /* its own turn ends with it, so the hook belongs to no other */
	fake_settle(&w);
	ck_assert_ptr_ne(fake_last(&w), p);
	const unsigned ended = fake_count(&w, "turn.failed") + fake_count(&w, "turn.completed");
	struct fake_process *hook = run_hook();
	fake_print(&w, hook, STREAM_STDOUT, stop, strlen(stop));
	fake_exit(&w, hook, 0, 0);
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "hook.completed"), 1);
	ck_assert_uint_eq(fake_count(&w, "turn.failed") + fake_count(&w, "turn.completed"), ended);
	ck_assert(fake_verified(&w));
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "hook_recovery", set_up, tear_down, 60,
		  SUITE_TESTS(a_start_that_waits_for_hooks_is_denied_once_despite_repeated_restarts,
			      a_hook_does_not_end_the_turn_that_holds_its_sessions_facts) }
	};

	return suite_run_cases("hook_recovery", cases, 1);
}
