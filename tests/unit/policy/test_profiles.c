#include "policy/profiles.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
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
	bad("{\"sandbox\":{\"filesystem\":{\"denyRead\":[\"\"]}}}", "must not be empty");
	bad("{\"sandbox\":{\"filesystem\":{\"denyRead\":[\"~root/x\"]}}}", "another user's home");
	bad("{\"sandbox\":{\"filesystem\":{\"denyRead\":[\"/dev/x\"]}}}", "the sandbox's own");
	bad("{\"sandbox\":{\"filesystem\":{\"denyRead\":[\"$WORKSPACEx\"]}}}", "not $WORKSPACE");
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

/* "kind path" of the entries whose path has "own" or ".cargo", after the section was applied. */
static void check_paths(const struct policy_profiles *s, const char *name, const char *wanted)
{
	const struct profile_paths place = { .home = "/home/u", .workspace = "/w/p", .cwd = "/w/p" };
	buf_auto struct buf found = BUF_INIT;
	struct profile p;
	struct err e = ERR_INIT;

	ck_assert_msg(policy_profiles_get(s, name, &p, &e) == 0 && profile_expand(&p, &place, &e) == 0 &&
			      profile_apply_lists(&p, &s->section.paths, &place, &e) == 0,
		      "%s", e.message);
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
		 "\"allowRead\":[\"~/own/data\",\"~/.cargo/bin\",\"own/source\"],\"allowWrite\":[\"./own/cache/\","
		 "\"/own/w\"],\"denyWrite\":[\"own.lock\",\"/own/r\"]}},\"profiles\":{\"mine\":{\"readRoots\":[\"/own/"
		 "x/y\","
		 "\"/own/z\"],\"writeRoots\":[\"/own/r/s\"]}}}");
	ck_assert(!s.section.partial);
	check_paths(&s, "readonly",
		    "hide /home/u/.cargo;hide /w/p/own.env;hide /own/x;read /home/u/own/data;read "
		    "/home/u/.cargo/bin;");
	check_paths(&s, "mine",
		    "read /own/z;read /own/r/s;hide /home/u/.cargo;hide /w/p/own.env;hide /own/x;read "
		    "/home/u/own/data;read /home/u/.cargo/bin;write /own/w;protect /w/p/own.lock;");
	policy_profiles_done(&s);
}
END_TEST

START_TEST(a_less_important_file_opens_nothing_that_another_denies)
{
	static const char *const files[][2] = {
		{ "\"denyRead\":[\"/home/u/own\"]", "\"allowRead\":[\"~/own/id\"]" },
		{ "\"denyRead\":[\"own\"]", "\"allowRead\":[\"/w/p/own/a\",\"././own/a\"]" },
		{ "\"denyRead\":[\"/srv/own\"]", "\"allowRead\":[\"/srv/./own/a\"],\"allowWrite\":[\"/srv//own/a\"]" },
	};
	static const char *const wanted[] = { "hide /home/u/own;", "hide /w/p/own;", "hide /srv/own;" };

	for (size_t i = 0; i < countof(files); i++) {
		struct policy_profiles s = { 0 };

		for (int k = 0; k < 2; k++) {
			mem_auto char *text = mem_printf("{\"sandbox\":{\"filesystem\":{%s}}}", files[i][k]);

			take(&s, text);
		}
		check_paths(&s, "isolated", wanted[i]);
		policy_profiles_done(&s);
	}
	struct policy_profiles s = { 0 };
	take(&s, "{\"sandbox\":{\"filesystem\":{\"denyWrite\":[\"/own/x\"],\"denyRead\":[\"secrets-own\"]}}}");
	take(&s, "{\"sandbox\":{\"filesystem\":{\"allowWrite\":[\"/own//x\",\"/own/x/y\",\"/own/"
		 "z\"]}},\"profiles\":{\"mine\":{"
		 "\"readRoots\":[\"/w/p/secrets-own/a\"],\"writeRoots\":[\"/own/x/b\"]}}}");
	check_paths(&s, "mine", "read /home/u/.cargo;read /own/x/b;hide /w/p/secrets-own;write /own/z;");
	policy_profiles_done(&s);
}
END_TEST

/* The caller's home is a private folder already: hiding the host's would leave programs without one. */
START_TEST(a_private_home_stays)
{
	const struct profile_paths place = { .home = "/home/u", .workspace = "/home/u/p", .cwd = "/home/u/p" };
	struct policy_profiles s = { 0 };
	struct profile p;
	struct err e = ERR_INIT;
	bool private = false, workspace = false;

	take(&s, "{\"sandbox\":{\"filesystem\":{\"denyRead\":[\"~\"]}}}");
	ck_assert_int_eq(policy_profiles_get(&s, "workspace", &p, &e), 0);
	ck_assert_int_eq(profile_expand(&p, &place, &e), 0);
	ck_assert_int_eq(profile_apply_lists(&p, &s.section.paths, &place, &e), 0);
	for (size_t i = 0; i < p.count; i++) {
		const struct profile_entry *en = &p.entry[i];

		private |= strcmp(en->path, "/home/u") == 0 && en->kind == PLAN_MOUNT_EMPTY;
		workspace |= strcmp(en->path, "/home/u/p") == 0 && en->kind == PLAN_MOUNT_WRITE;
		ck_assert(strncmp(en->path, "/home/u/", 8) != 0 || en->kind != PLAN_MOUNT_READ);
	}
	ck_assert(private && workspace);
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
