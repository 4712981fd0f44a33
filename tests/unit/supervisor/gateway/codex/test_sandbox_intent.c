#include "supervisor/gateway/codex/sandbox_intent.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "supervisor/gateway/codex/codex_private.h"
#include "supervisor/gateway/common/file_uri.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(test_file_uris_become_paths)
{
	static const struct {
		const char *uri, *path; /* path NULL: rejected */
	} rows[] = {
		{ "file:///a/b", "/a/b" },
		{ "file:/a", "/a" },
		{ "FILE://localhost/a%20b", "/a b" },
		{ "file:///a/../b//c/", "/b/c" },
		{ "file:///", "/" },
		{ "file:///%C3%BC", "/\xc3\xbc" },
		{ "file:///a?q#f", "/a" },
		{ "file://other/a", NULL },
		{ "file:a", NULL },
		{ "/a", NULL },
		{ "http:///a", NULL },
		{ "file:///%00", NULL },
		{ "file:///%4", NULL },
		{ "file:///%zz", NULL },
		{ "", NULL },
	};
	char path[PATH_MAX];

	for (size_t i = 0; i < countof(rows); i++) {
		struct err e = ERR_INIT;
		int r = file_uri_path(rows[i].uri, path, &e);

		ck_assert_msg((r == 0) == (rows[i].path != NULL), "%s", rows[i].uri);
		if (r == 0)
			ck_assert_str_eq(path, rows[i].path);
	}
	buf_auto struct buf out = BUF_INIT;
	file_uri_write("/a b/%\xc3\xbc", &out);
	ck_assert_str_eq(buf_cstr(&out), "file:///a%20b/%25%C3%BC");
}
END_TEST

START_TEST(test_globs_match_paths)
{
	static const struct {
		const char *pattern, *path;
		bool match;
	} rows[] = {
		{ "/w/*.env", "/w/a.env", true },
		{ "/w/*.env", "/w/s/a.env", false },
		{ "/w/**/*.env", "/w/a.env", true },
		{ "/w/**/*.env", "/w/s/t/a.env", true },
		{ "/w/**", "/w/s/t", true },
		{ "/w/**", "/v/s", false },
		{ "/w/?", "/w/ab", false },
		{ "/w/**/s/**/x", "/w/a/s/b/c/x", true },
		{ "/w/**/s/**/x", "/w/a/b/x", false },
		{ "/w", "/w", true },
		{ "/w/a", "/w", false },
	};

	for (size_t i = 0; i < countof(rows); i++)
		ck_assert_msg(glob_scan_match(rows[i].pattern, rows[i].path) == rows[i].match, "%s %s", rows[i].pattern,
			      rows[i].path);
}
END_TEST

static json_t *profile(void)
{
	return json_pack("{s[s s] s[s] s[] s[] ss}", "writeRoots", "/w", "/cache", "readRoots", "/", "hidden",
			 "private", "network", "none");
}

static int make(const char *entries, struct sandbox_intent *ret, struct err *e)
{
	mem_auto char *text = mem_printf("{\"permissions\":{\"type\":\"managed\",\"file_system\":{\"type\":"
					 "\"restricted\",\"entries\":[%s]},\"network\":\"restricted\"},"
					 "\"cwd\":\"file:///w/sub\",\"workspaceRoots\":[\"file:///w\"]}",
					 entries);
	json_auto_t *sandbox = json_loads(text, 0, NULL);

	ck_assert_ptr_nonnull(sandbox);
	return sandbox_intent_of(sandbox, NULL, ret, e);
}

#define ROOT "{\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"root\"}},\"access\":\"read\"}"
#define AT(path, access) "{\"path\":{\"type\":\"path\",\"path\":\"file://" path "\"},\"access\":\"" access "\"}"

START_TEST(test_entries_narrow_the_profile)
{
	static const struct {
		const char *entries, *read, *hidden;
	} rows[] = {
		{ ROOT, "[\"/w\",\"/cache\"]", "[]" },
		{ ROOT "," AT("/w", "write"), "[\"/cache\"]",
		  "[\"/w/.git/nothing\",\"/w/.agents/nothing\",\"/w/.codex/nothing\"]" },
		{ ROOT "," AT("/w", "write") "," AT("/w/.git", "write"), "[\"/cache\"]",
		  "[\"/w/.git/.git/nothing\",\"/w/.git/.agents/nothing\",\"/w/.git/.codex/nothing\",\"/w/.agents/"
		  "nothing\",\"/w/.codex/nothing\"]" },
		{ ROOT "," AT("/w", "write") "," AT("/w", "deny"), "[\"/w\",\"/cache\"]", "[]" },
		{ ROOT "," AT("/w", "read") "," AT("/w", "write") "," AT("/cache", "write") "," AT("/w/x", "none"),
		  "[]",
		  "[\"/w/x\",\"/w/.git/nothing\",\"/w/.agents/nothing\",\"/w/.codex/nothing\",\"/cache/.git/"
		  "nothing\",\"/cache/.agents/nothing\",\"/cache/.codex/nothing\"]" },
		{ ROOT "," AT("/w/deeper", "write"), "[\"/w\",\"/cache\"]", "[]" },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		sandbox_intent_auto struct sandbox_intent t = { 0 };
		json_auto_t *p = profile(), *sandbox = json_object(), *read = json_loads(rows[i].read, 0, NULL),
			    *hidden = json_loads(rows[i].hidden, 0, NULL);
		struct err e = ERR_INIT;

		ck_assert_msg(make(rows[i].entries, &t, &e) == 0, "%zu: %s", i, e.message);
		ck_assert_msg(sandbox_intent_narrow(&t, p, sandbox, &e) == 0, "%zu: %s", i, e.message);
		mem_auto char *text = json_dumps(sandbox, 0);
		ck_assert_str_eq(json_string_value(json_object_get(sandbox, "network")), "none");
		ck_assert_msg(json_equal(json_object_get(sandbox, "readRoots"), read), "%zu: %s", i, text);
		for (size_t k = 0; k < json_array_size(hidden); k++) {
			bool found = false;

			for (size_t n = 0; n < json_array_size(json_object_get(sandbox, "hidden")); n++)
				found |= json_equal(json_array_get(hidden, k),
						    json_array_get(json_object_get(sandbox, "hidden"), n));
			ck_assert_msg(found, "%zu: %s is not hidden: %s", i,
				      json_string_value(json_array_get(hidden, k)), text);
		}
	}
}
END_TEST

static size_t depth(const json_t *list, const char *path)
{
	size_t most = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *one = json_string_value(json_array_get(list, i));

		if (path_within(one, path) && strlen(one) > most)
			most = strlen(one);
	}
	return most;
}

/* For random entries: everything that can be written is permitted by the intent, and where the paths exist, everything
 * that the intent permits can be written. */
START_TEST(test_exactly_what_the_intent_permits_can_be_written)
{
	static const char *const paths[] = { "/w",   "/w/a",   "/w/a/b",   "/w/a/b/c",    "/w/.git",    "/w/.git/hooks",
					     "/w/x", "/cache", "/cache/y", "/w/a/.codex", "/w/a/b/.git" };
	static const char *const accesses[] = { "read", "write", "deny", "none" };
	char base[] = "/tmp/bl-intent-XXXXXX";
	unsigned kept = 0;

	ck_assert_ptr_nonnull(mkdtemp(base));
	for (size_t i = 0; i < countof(paths); i++) {
		mem_auto char *path = mem_printf("%s%s", base, paths[i]);
		ck_assert_int_eq(mkdir(path, 0755), 0);
	}
	srandom(7);
	for (int round = 0; round < 3000; round++) {
		sandbox_intent_auto struct sandbox_intent t = { 0 };
		json_auto_t *p = json_pack("{s[o o] s[s] s[] s[] s[o] ss}", "writeRoots", json_sprintf("%s/w", base),
					   json_sprintf("%s/cache", base), "readRoots", "/", "hidden", "private",
					   "protected", json_sprintf("%s/w/.git/hooks", base), "network", "none"),
			    *sandbox = json_object();
		buf_auto struct buf entries = BUF_INIT;
		struct err e = ERR_INIT;

		buf_str(&entries, ROOT);
		for (long n = random() % 6; n > 0; n--)
			buf_printf(&entries,
				   ",{\"path\":{\"type\":\"path\",\"path\":\"file://%s%s\"},\"access\":\"%s\"}", base,
				   paths[random() % (long)countof(paths)], accesses[random() % 4]);
		ck_assert_msg(make(buf_cstr(&entries), &t, &e) == 0, "%s", e.message);
		if (sandbox_intent_narrow(&t, p, sandbox, &e) < 0)
			continue;
		for (size_t i = 0; i < countof(paths); i++) {
			mem_auto char *path = mem_printf("%s%s", base, paths[i]);
			const json_t *more = json_object_get(sandbox, "writeRoots");
			size_t was = depth(json_object_get(p, "writeRoots"), path), now = depth(more, path),
			       read = depth(json_object_get(sandbox, "readRoots"), path);
			bool hidden = depth(json_object_get(sandbox, "hidden"), path),
			     writable = (was > now ? was : now) > read && !hidden;
			bool meant = sandbox_intent_access(&t, path) == SANDBOX_INTENT_WRITE;

			ck_assert_msg(!writable || meant, "%s can be written under %s", path, buf_cstr(&entries));
			ck_assert_msg(!now || was, "%s is more than the profile gives under %s", path,
				      buf_cstr(&entries));
			ck_assert_msg(writable || !meant || hidden || strcmp(paths[i], "/w/.git/hooks") == 0,
				      "%s cannot be written under %s", path, buf_cstr(&entries));
			kept += now && writable;
		}
	}
	ck_assert_uint_gt(kept, 100);
	for (size_t i = countof(paths); i-- > 0;) {
		mem_auto char *path = mem_printf("%s%s", base, paths[i]);
		rmdir(path);
	}
	rmdir(base);
}
END_TEST

START_TEST(test_the_workspace_contains_the_working_directory)
{
	sandbox_intent_auto struct sandbox_intent t = { 0 };
	struct err e = ERR_INIT;

	ck_assert_int_eq(make(ROOT, &t, &e), 0);
	ck_assert_str_eq(sandbox_intent_workspace(&t, "/w/sub/deep"), "/w");
	ck_assert_ptr_null(sandbox_intent_workspace(&t, "/elsewhere"));
	ck_assert_ptr_null(sandbox_intent_workspace(&t, "/wider"));
	ck_assert_ptr_null(sandbox_intent_workspace(&t, NULL));
}
END_TEST

START_TEST(test_the_environment_follows_the_policy)
{
	char path[] = "PATH=/p", key[] = "Api_Key=k", a[] = "A=1", bad[] = "BAD", nameless[] = "=x",
	     bytes[] = "NOT_UTF8=\xff";
	char *own[] = { path, key, a, bad, nameless, bytes, NULL };
	json_auto_t *policy = json_loads("{\"inherit\":\"all\",\"ignoreDefaultExcludes\":false,\"exclude\":[\"a\"],"
					 "\"set\":{\"B\":\"2\"},\"includeOnly\":[]}",
					 0, NULL);
	json_auto_t *env = json_loads("{\"C\":\"3\",\"TERM\":\"dumb\"}", 0, NULL), *got = NULL;
	json_auto_t *want = json_loads("{\"PATH\":\"/p\",\"B\":\"2\",\"C\":\"3\",\"TERM\":\"dumb\",\"LANG\":null,"
				       "\"HOME\":null,\"SHELL\":null,\"USER\":null,\"LOGNAME\":null,\"PWD\":null}",
				       0, NULL);
	struct err e = ERR_INIT;

	ck_assert_int_eq(environment_of(policy, env, own, &got, &e), 0);
	mem_auto char *text = json_dumps(got, JSON_SORT_KEYS);
	ck_assert_msg(json_equal(got, want), "%s", text);
}
END_TEST

int main(void)
{
	return SUITE("sandbox_intent", test_file_uris_become_paths, test_globs_match_paths,
		     test_entries_narrow_the_profile, test_exactly_what_the_intent_permits_can_be_written,
		     test_the_workspace_contains_the_working_directory, test_the_environment_follows_the_policy);
}
