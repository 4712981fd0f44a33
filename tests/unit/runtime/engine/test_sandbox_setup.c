#include "policy/profiles.h"
#include "runtime/base/err.h"
#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include <string.h>

static struct fake_host w;
static struct fake_reply reply;

static struct caller agent(void)
{
	struct caller c = fake_caller;

	c.role = ROLE_AGENT;
	return c;
}

static void start(const struct start_request *r, const struct caller *c, int expected)
{
	engine_start_process(w.engine, r, c, fake_reply_fn, &reply);
	ck_assert_int_eq(reply.code, expected);
}

START_TEST(a_start_is_confined_by_default)
{
	fake_open(&w);
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);
	char *event = fake_event(&w, "sandbox.applied");

	ck_assert(p->plan_flags & PLAN_PRIVATE_ROOT);
	ck_assert_ptr_nonnull(strstr(event, "\"mode\":\"workspace\""));
	ck_assert_ptr_nonnull(strstr(event, "\"cwd\":\"/tmp\""));
	ck_assert_ptr_nonnull(strstr(event, "\"network\":\"none\""));
	free(event);
	fake_close(&w);
}
END_TEST

START_TEST(only_operators_may_widen_the_sandbox)
{
	const char *const roots[] = { "/srv/data" };
	const struct caller c = agent();

	fake_open(&w);
	struct start_request r = fake_request(&w, "x");
	r.sandbox.change.write = roots;
	r.sandbox.change.nwrite = 1;
	start(&r, &c, ERR_PERMISSION);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&reply.json), "\"decision\":\"deny\""));
	r.sandbox.change.nwrite = 0;
	r.sandbox.profile = "host";
	start(&r, &c, ERR_PERMISSION);
	r.sandbox.profile = NULL;
	r.sandbox.cwd = "/";
	start(&r, &c, ERR_INVALID);
	ck_assert_uint_eq(w.nprocesses, 0);
	fake_close(&w);
}
END_TEST

START_TEST(a_sandbox_can_be_shown_without_a_start)
{
	static const char text[] = "{\"profiles\":{\"mine\":{\"hidden\":[\"/srv/x\"],\"pids\":7}}}";
	struct policy_profiles profiles = { 0 };
	struct err e = ERR_INIT;
	buf_auto struct buf out = BUF_INIT;
	const struct sandbox_request r = { .profile = "mine", .cwd = "/srv/proj/src", .workspace = "/srv/proj" };

	fake_open(&w);
	ck_assert_int_eq(policy_profiles_parse(&profiles, "policy.json", text, sizeof text - 1, &e), 0);
	engine_set_profiles(w.engine, &profiles);
	ck_assert_int_eq(engine_show_sandbox(w.engine, &r, &fake_caller, &out, &e), 0);
	ck_assert_ptr_nonnull(strstr(out.data, "{\"kind\":\"write\",\"path\":\"/srv/proj\",\"owned\":true}"));
	ck_assert_ptr_nonnull(strstr(out.data, "{\"kind\":\"hide\",\"path\":\"/srv/x\"}"));
	ck_assert_ptr_nonnull(strstr(out.data, "\"pids\":7"));
	ck_assert_ptr_nonnull(strstr(out.data, "{\"name\":\"mine\",\"from\":\"policy\"}"));
	ck_assert_uint_eq(w.nprocesses, 0);
	fake_close(&w);
	policy_profiles_done(&profiles);
}
END_TEST

/* Compiled profiles are cached for the same request until the policy changes. */
START_TEST(a_changed_profile_takes_effect_immediately)
{
	static const char *const texts[] = { "{\"profiles\":{\"mine\":{\"hidden\":[\"/srv/x\"]}}}",
					     "{\"profiles\":{\"mine\":{\"hidden\":[\"/srv/y\"]}}}" };
	const char *const more[] = { "/srv/z" };
	struct sandbox_request r = { .profile = "mine", .cwd = "/srv/proj/src", .workspace = "/srv/proj" };
	struct policy_profiles profiles = { 0 };
	struct err e = ERR_INIT;

	fake_open(&w);
	for (int i = 0; i < 4; i++) {
		buf_auto struct buf out = BUF_INIT;

		if (i % 2 == 0) {
			policy_profiles_done(&profiles);
			profiles = (struct policy_profiles){ 0 };
			ck_assert_int_eq(
				policy_profiles_parse(&profiles, "policy.json", texts[i / 2], strlen(texts[i / 2]), &e),
				0);
			engine_set_profiles(w.engine, &profiles);
		}
		r.change.hide = more;
		r.change.nhide = (size_t)i % 2;
		ck_assert_int_eq(engine_show_sandbox(w.engine, &r, &fake_caller, &out, &e), 0);
		ck_assert_int_eq(strstr(out.data, "\"/srv/x\"") != NULL, i < 2);
		ck_assert_int_eq(strstr(out.data, "\"/srv/y\"") != NULL, i >= 2);
		ck_assert_int_eq(strstr(out.data, "\"/srv/z\"") != NULL, i % 2);
	}
	fake_close(&w);
	policy_profiles_done(&profiles);
}
END_TEST

START_TEST(nothing_starts_while_the_policy_is_unknown)
{
	fake_open(&w);
	struct start_request r = fake_request(&w, "x");
	engine_set_policy_problem(w.engine, "line 3");
	start(&r, &fake_caller, ERR_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(reply.message, "line 3"));
	engine_set_policy_problem(w.engine, NULL);
	fake_run(&w, &r, &reply);
	fake_close(&w);
}
END_TEST

START_TEST(a_start_waits_until_its_folder_was_searched)
{
	fake_open(&w);
	struct start_request r = fake_request(&w, "x");

	r.sandbox.cwd = "/srv/x";
	w.searching = true;
	reply.code = -1;
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	engine_on_policy(w.engine, fake_caller.uid, "/srv/y");
	engine_on_policy(w.engine, fake_caller.uid + 1, "/srv/x");
	engine_on_policy(w.engine, fake_caller.uid, "/srv/x"); /* another search is needed */
	ck_assert_uint_eq(w.nprocesses, 0);
	ck_assert_int_eq(reply.code, -1);
	w.searching = false;
	engine_on_policy(w.engine, fake_caller.uid, "/srv/x");
	ck_assert_uint_eq(w.nprocesses, 1);
	w.search_problem = "its file system does not answer";
	start(&r, &fake_caller, ERR_UNAVAILABLE);
	ck_assert_str_eq(reply.message, w.search_problem);
	/* A workspace that is named needs no search. */
	const unsigned before = w.searches;
	r.sandbox.workspace = "/srv/x";
	engine_start_process(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	ck_assert_uint_eq(w.nprocesses, 2);
	ck_assert_uint_eq(w.searches, before);
	w.search_problem = NULL;
	fake_close(&w);
}
END_TEST

START_TEST(a_changed_policy_is_recorded_once)
{
	fake_open(&w);
	engine_policy_is(w.engine, "user", "", "none");
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "policy.changed"), 0);
	engine_policy_is(w.engine, "user", "abc", "first");
	fake_settle(&w);
	engine_policy_is(w.engine, "user", "abc", "again");
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "policy.changed"), 1);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	engine_policy_is(w.engine, "user", "abc", "after a restart");
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "policy.changed"), 1);
	engine_policy_is(w.engine, "user", "", "gone");
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "policy.changed"), 2);
	fake_close(&w);
}
END_TEST

int main(void)
{
	return SUITE("sandbox_setup", a_start_is_confined_by_default, only_operators_may_widen_the_sandbox,
		     a_sandbox_can_be_shown_without_a_start, a_changed_profile_takes_effect_immediately,
		     nothing_starts_while_the_policy_is_unknown, a_start_waits_until_its_folder_was_searched,
		     a_changed_policy_is_recorded_once);
}
