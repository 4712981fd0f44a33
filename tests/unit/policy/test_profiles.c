#include "policy/profiles.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "sandbox/profile.h"
#include "tests/unit/suite.h"

#include <string.h>

static void take(struct policy_profiles *s, const char *text)
{
	struct err e = ERR_INIT;

	ck_assert_msg(policy_profiles_parse(s, "policy.json", text, strlen(text), &e) == 0, "%s", e.message);
}

static void get(const struct policy_profiles *s, const char *name, struct profile *p)
{
	struct err e = ERR_INIT;

	ck_assert_msg(policy_profiles_get(s, name, p, &e) == 0, "%s", e.message);
	ck_assert_str_eq(p->name, name);
}

static bool has(const struct profile *p, const char *path, uint32_t kind)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->entry[i].kind == kind && strcmp(p->entry[i].path, path) == 0)
			return true;
	return false;
}

START_TEST(a_profile_extends_another)
{
	struct policy_profiles s = { 0 };
	struct profile p;

	take(&s, "{\"profiles\":{\"net\":{\"extends\":\"build\",\"network\":\"host\"},"
		 "\"build\":{\"readRoots\":[\"/srv/cache?\"],\"writeRoots\":[\"~/.cache/build\"],\"hidden\":[\"/mnt\"],"
		 "\"protect\":[\"Makefile\"],\"memoryBytes\":\"1G\",\"pids\":100,\"tmpBytes\":65536,\"require\":["
		 "\"landlock\"],\"cow\":true}}}");
	get(&s, "net", &p);
	ck_assert(p.confined && p.cow);
	ck_assert_uint_eq(p.network, PLAN_NET_HOST);
	ck_assert_uint_eq(p.limits.value[PLAN_LIMIT_MEMORY], 1ull << 30);
	ck_assert_uint_eq(p.limits.value[PLAN_LIMIT_PIDS], 100);
	ck_assert_uint_eq(p.tmp_bytes, 65536);
	ck_assert(p.require & PLAN_LAYER_LANDLOCK);
	ck_assert(has(&p, "$WORKSPACE", PLAN_MOUNT_WRITE));
	ck_assert(has(&p, "/srv/cache", PLAN_MOUNT_READ));
	ck_assert(has(&p, "~/.cache/build", PLAN_MOUNT_WRITE));
	ck_assert(has(&p, "/mnt", PLAN_MOUNT_HIDE));
	ck_assert(has(&p, "Makefile", PLAN_MOUNT_PROTECT));
	profile_done(&p);
	policy_profiles_done(&s);
}
END_TEST

START_TEST(the_first_file_wins)
{
	struct policy_profiles s = { 0 };
	struct profile p;

	take(&s, "{\"profiles\":{\"workspace\":{\"extends\":\"workspace\",\"pids\":7}}}");
	take(&s, "{\"profiles\":{\"workspace\":{\"pids\":9},\"mine\":{\"extends\":\"workspace\"}}}");
	get(&s, "workspace", &p);
	ck_assert_uint_eq(p.limits.value[PLAN_LIMIT_PIDS], 7);
	profile_done(&p);
	get(&s, "mine", &p);
	ck_assert_uint_eq(p.limits.value[PLAN_LIMIT_PIDS], 7);
	profile_done(&p);
	policy_profiles_done(&s);
}
END_TEST

START_TEST(an_unknown_profile_error_lists_the_known_ones)
{
	struct policy_profiles s = { 0 };
	struct profile p;
	struct err e = ERR_INIT;

	take(&s, "{\"profiles\":{\"mine\":{}}}");
	ck_assert_int_eq(policy_profiles_get(&s, "yours", &p, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	ck_assert_str_eq(e.field, "profile");
	ck_assert_ptr_nonnull(strstr(e.message, "mine, workspace, readonly, isolated, ci, hook, instructions, host"));
	policy_profiles_done(&s);
}
END_TEST

static void bad(const char *text, const char *words)
{
	struct policy_profiles s = { 0 };
	struct err e = ERR_INIT;

	ck_assert_int_eq(policy_profiles_parse(&s, "policy.json", text, strlen(text), &e), -1);
	ck_assert_int_eq(e.code, ERR_INVALID);
	ck_assert_msg(strstr(e.message, words) != NULL, "'%s' in '%s'", words, e.message);
	ck_assert_msg(strncmp(e.message, "policy.json: line ", 18) == 0, "%s", e.message);
	ck_assert_uint_eq(s.count, 0);
	policy_profiles_done(&s);
}

START_TEST(errors_name_line_and_key)
{
	bad("{\n\"profiles\": {\n\"a\": {}, \n\"b\": {\"pids\": \"many\"}}}", "line 4: profiles.b.pids: ");
	bad("{\n \"profiles\": [", "line 2");
	bad("[]", "must be an object");
	bad("{\"profiles\":[]}", "profiles: must be an object");
	bad("{\"profiles\":{\"A b\":{}}}", "a-z 0-9");
	bad("{\"profiles\":{\"host\":{}}}", "no sandbox");
	bad("{\"profiles\":{\"a\":{\"extends\":\"host\"}}}", "no sandbox to change");
	bad("{\"profiles\":{\"a\":{\"extends\":\"b\"},\"b\":{\"extends\":\"a\"}}}", "circular");
	bad("{\"profiles\":{\"a\":{\"extends\":\"zz\"}}}", "no profile 'zz'");
	bad("{\"profiles\":{\"a\":{\"writeRoots\":[\"/\"]}}}", "not possible here");
	bad("{\"profiles\":{\"a\":{\"readRoots\":[\"x\"]}}}", "begin with /");
	bad("{\"profiles\":{\"a\":{\"readRoots\":\"/x\"}}}", "array of paths");
	bad("{\"profiles\":{\"a\":{\"hidden\":[\"$HOME\"]}}}", "$WORKSPACE");
	bad("{\"profiles\":{\"a\":{\"protect\":[\"../x\"]}}}", "leads out");
	bad("{\"profiles\":{\"a\":{\"require\":[\"walls\"]}}}", "walls");
	bad("{\"profiles\":{\"a\":{\"network\":\"lan\"}}}", "none, host, or an object");
	bad("{\"profiles\":{\"a\":{\"network\":{\"allow\":[\"http://x\"]}}}}", "is a URL");
	bad("{\"profiles\":{\"a\":{\"network\":{\"hosts\":[]}}}}", "expected allow, deny or credentials");
	bad("{\"sandbox\":{\"network\":{\"allowedDomains\":[\"a b\"]}}}", "sandbox.network.allowedDomains[0]");
	bad("{\"sandbox\":{\n\"filesystem\":{\n\"denyRead\":[\"/x\",\"*.pem\"]}}}",
	    "line 3: sandbox.filesystem.denyRead[1]: has a wildcard");
	bad("{\"sandbox\":{\"filesystem\":{\"denyRead\":[\".\"]}}}", "the workspace itself cannot be hidden");
	bad("{\"sandbox\":{\"filesystem\":{\"allowWrite\":[\"/\"]}}}", "not possible here");
	bad("{\"sandbox\":{\"filesystem\":{\"allowWrite\":[\"../x\"]}}}", "without '..'");
	bad("{\"sandbox\":{\"filesystem\":{\"denyWrite\":\"x\"}}}", "must be an array of at most");
	bad("{\"sandbox\":{\"filesystem\":{\"denyWrite\":[1]}}}", "denyWrite[0]: must be a path");
	bad("{\"sandbox\":{\"filesystem\":{\"denyRead\":[\"$HOME/x\"]}}}", "not $WORKSPACE");
	bad("{\"profiles\":{\"a\":{\"cow\":1}}}", "true or false");
	bad("{\"profiles\":{\"a\":{\"memoryBytes\":0}}}", "above 0");
	bad("{\"profiles\":{\"a\":{\"memoryBytes\":\"1000K\"}}}", "memoryBytes: must be at least 1048576");
	bad("{\"profiles\":{\"a\":{\"tmpBytes\":4096}}}", "tmpBytes: must be at least 65536");
	bad("{\"profiles\":{\"a\":{\"pids\":\"many\"}}}", "pids: must be a number above 0");
	bad("{\"profiles\":{\"a\":{\"colour\":1}}}", "unknown key");
}
END_TEST

/* Denied domains in sandbox.network apply to all profiles, allowed ones to the default profile and to those with a
 * list. */
START_TEST(domains_of_the_file_apply_to_its_profiles)
{
	static const char text[] =
		"{\"sandbox\":{\"network\":{\"allowedDomains\":[\"*.example.com\"],\"deniedDomains\":[\"x.example."
		"com\"]}},"
		"\"profiles\":{\"web\":{\"network\":{\"allow\":[\"a.test:443\"],\"deny\":[\"10.0.0.0/8\"]}}}}";
	struct policy_profiles s = { 0 };
	struct profile p;
	struct err e = ERR_INIT;

	ck_assert_msg(policy_profiles_parse(&s, "policy.json", text, strlen(text), &e) == 0, "%s", e.message);
	ck_assert(!s.section.partial);
	ck_assert_int_eq(policy_profiles_get(&s, "workspace", &p, &e), 0);
	ck_assert_uint_eq(p.network, PLAN_NET_ALLOW);
	ck_assert_int_eq(host_rules_name(&p.hosts, "www.example.com", 80), HOST_ALLOWED);
	ck_assert_int_eq(host_rules_name(&p.hosts, "x.example.com", 80), HOST_DENIED);
	profile_done(&p);
	ck_assert_int_eq(policy_profiles_get(&s, "web", &p, &e), 0);
	ck_assert_int_eq(host_rules_name(&p.hosts, "a.test", 443), HOST_ALLOWED);
	ck_assert_int_eq(host_rules_name(&p.hosts, "www.example.com", 80), HOST_ALLOWED);
	profile_done(&p);
	ck_assert_int_eq(policy_profiles_get(&s, "isolated", &p, &e), 0);
	ck_assert_uint_eq(p.network, PLAN_NET_NONE);
	ck_assert_int_eq(host_rules_name(&p.hosts, "x.example.com", 80), HOST_DENIED);
	profile_done(&p);
	policy_profiles_done(&s);
}
END_TEST

/* "kind path" of the entries that the section can have changed. */
static void check_paths(const struct policy_profiles *s, const char *name, const char *wanted)
{
	buf_auto struct buf found = BUF_INIT;
	struct profile p;
	struct err e = ERR_INIT;

	ck_assert_msg(policy_profiles_get(s, name, &p, &e) == 0, "%s", e.message);
	for (size_t i = 0; i < p.count; i++)
		if (strstr(p.entry[i].path, "own") ||
		    (strstr(p.entry[i].path, ".cargo") && !strstr(p.entry[i].path, "credentials")))
			buf_printf(&found, "%s %s;", profile_kind_name(p.entry[i].kind), p.entry[i].path);
	ck_assert_str_eq(buf_cstr(&found), wanted);
	profile_done(&p);
}

START_TEST(paths_of_the_file_apply_to_all_profiles)
{
	struct policy_profiles s = { 0 };

	take(&s, "{\"sandbox\":{\"filesystem\":{\"denyRead\":[\"~/.cargo\",\"own.env\",\"//own/x/**\"],"
		 "\"allowRead\":[\"~/own/data\",\"~/.cargo/bin\"],\"allowWrite\":[\"./own/cache/\"],"
		 "\"denyWrite\":[\"own.lock\"]}},\"profiles\":{\"mine\":{\"readRoots\":[\"/own/x/y\",\"/own/z\"]}}}");
	ck_assert(!s.section.partial);
	check_paths(&s, "readonly",
		    "read ~/own/data;read ~/.cargo/bin;protect $WORKSPACE/own.lock;hide ~/.cargo;hide "
		    "$WORKSPACE/own.env;hide /own/x;");
	check_paths(&s, "mine",
		    "read /own/z;read ~/own/data;read ~/.cargo/bin;write $WORKSPACE/own/cache;protect "
		    "$WORKSPACE/own.lock;hide ~/.cargo;hide $WORKSPACE/own.env;hide /own/x;");
	policy_profiles_done(&s);
}
END_TEST

START_TEST(a_less_important_file_opens_nothing_that_another_denies)
{
	struct policy_profiles s = { 0 };

	take(&s, "{\"sandbox\":{\"filesystem\":{\"denyRead\":[\"/own/a\"],\"denyWrite\":[\"/own/b\"]}}}");
	take(&s, "{\"sandbox\":{\"filesystem\":{\"allowRead\":[\"/own/a/x\",\"/own/b/x\"],\"allowWrite\":[\"/own/"
		 "a\",\"/own/b/"
		 "y\",\"/own/c\"]}}}");
	take(&s, "{\"profiles\":{\"bare\":{\"hidden\":[\"~/.cargo\"]}}}");
	check_paths(&s, "isolated", "read /own/b/x;protect /own/b;hide /own/a;");
	policy_profiles_done(&s);
}
END_TEST

/* The caller's home is a private folder already: hiding the host's would leave programs without one. */
START_TEST(a_private_home_stays)
{
	struct policy_profiles s = { 0 };
	struct profile p;
	struct err e = ERR_INIT;
	bool private = false;

	take(&s, "{\"sandbox\":{\"filesystem\":{\"denyRead\":[\"~\"]}}}");
	ck_assert_int_eq(policy_profiles_get(&s, "workspace", &p, &e), 0);
	for (size_t i = 0; i < p.count; i++) {
		ck_assert(strncmp(p.entry[i].path, "~/", 2) != 0 || p.entry[i].kind == PLAN_MOUNT_HIDE);
		private |= strcmp(p.entry[i].path, "~") == 0 && p.entry[i].kind == PLAN_MOUNT_EMPTY;
	}
	ck_assert(private);
	profile_done(&p);
	policy_profiles_done(&s);
}
END_TEST

START_TEST(sections_without_effect_are_marked_partial)
{
	struct policy_profiles s = { 0 };

	take(&s, "{\"permissions\":{\"defaultMode\":\"default\",\"deny\":[]},\"hooks\":{}}");
	ck_assert(!s.section.partial);
	take(&s, "{\"permissions\":{\"deny\":[\"Bash(rm:*)\"]}}"); /* rules take effect */
	ck_assert(!s.section.partial);
	take(&s, "{\"hooks\":{\"PreToolUse\":[]}}"); /* and so are hooks */
	ck_assert(!s.section.partial);
	take(&s, "{\"sandbox\":{\"enabled\":true}}");
	ck_assert(s.section.partial);
	policy_profiles_done(&s);
	take(&s, "{\"sandbox\":{\"filesystem\":{\"denyRead\":[],\"other\":[]}}}");
	ck_assert(s.section.partial);
	policy_profiles_done(&s);
}
END_TEST

int main(void)
{
	return SUITE("profiles", a_profile_extends_another, the_first_file_wins,
		     an_unknown_profile_error_lists_the_known_ones, errors_name_line_and_key,
		     domains_of_the_file_apply_to_its_profiles, paths_of_the_file_apply_to_all_profiles,
		     a_less_important_file_opens_nothing_that_another_denies, a_private_home_stays,
		     sections_without_effect_are_marked_partial);
}
