/* The cache of analyses returns the same facts as an analysis, and no entry for a command that differs in any input. */

#include "policy/analysis_cache.h"
#include "policy/command_text.h"

#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

static const struct analysis_options usual = { .cwd = "/work/a", .workspace = "/work", .home = "/home/u" };

static void check_same(const struct command_facts *a, const struct command_facts *b, const char *const *argv,
		       size_t argc)
{
	buf_auto struct buf x = BUF_INIT, y = BUF_INIT;

	command_json(argv, argc, a, &x);
	command_json(argv, argc, b, &y);
	ck_assert_str_eq(buf_cstr(&x), buf_cstr(&y));
	ck_assert_uint_eq(a->unknown, b->unknown);
	ck_assert_uint_eq(a->flags, b->flags);
	ck_assert_uint_eq(a->npaths, b->npaths);
	for (size_t i = 0; i < a->npaths; i++)
		ck_assert_str_eq(a->path[i].path, b->path[i].path);
}

START_TEST(cached_facts_equal_those_of_an_analysis)
{
	struct analysis_cache cache = { 0 };
	/* On the stack and changed afterwards: an entry must not point to what the caller passed. */
	char first[16] = "rm", second[16] = "-rf", third[16] = "../b";
	const char *argv[] = { first, second, third };
	command_facts_auto struct command_facts plain = { 0 };
	const struct command_facts *kept = analysis_cache_get(&cache, NULL, argv, 3, &usual);

	const char *same[] = { "rm", "-rf", "../b" };
	memset(first, 'x', sizeof first - 1);
	memset(third, 'y', sizeof third - 1);
	command_analyse_argv(same, 3, &usual, &plain);
	check_same(kept, &plain, same, 3);
	ck_assert_ptr_eq(analysis_cache_get(&cache, NULL, same, 3, &usual), kept);
	analysis_cache_done(&cache);
}
END_TEST

START_TEST(entries_differ_in_every_input)
{
	struct analysis_cache cache = { 0 };
	const char *argv[] = { "cat", "x", "y" }, *joined[] = { "cat", "x y" }, *env[] = { "LD_PRELOAD=/tmp/x" };
	const struct analysis_options options[] = {
		usual,
		{ .cwd = "/work/b", .workspace = "/work", .home = "/home/u" },
		{ .cwd = "/work/a", .workspace = NULL, .home = "/home/u" },
		{ .cwd = "/work/a", .workspace = "/work", .home = NULL },
		{ .cwd = "/work/a", .workspace = "/work", .home = "/home/u", .env = env, .nenv = 1 },
		{ .cwd = "/work/a", .workspace = "/work", .home = "/home/u", .terminal = true },
		{ .cwd = "/work/a", .workspace = "/work", .home = "/home/u", .writable = argv, .nwritable = 1 },
	};
	const struct command_facts *seen[ANALYSIS_CACHE_SIZE] = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < countof(options); i++)
		seen[n++] = analysis_cache_get(&cache, NULL, argv, 3, &options[i]);
	seen[n++] = analysis_cache_get(&cache, NULL, joined, 2, &usual);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			ck_assert_ptr_ne(seen[i], seen[k]);
	ck_assert_uint_ne(seen[4]->flags & COMMAND_EXECUTES, 0);
	ck_assert_uint_eq(seen[0]->flags & COMMAND_EXECUTES, 0);
	analysis_cache_done(&cache);
	seen[0] = analysis_cache_get(&cache, NULL, argv, 3, &usual);
	ck_assert_ptr_ne(analysis_cache_get(&cache, "cat x y", argv, 3, &usual), seen[0]);
	analysis_cache_done(&cache);
}
END_TEST

START_TEST(the_oldest_entry_is_evicted)
{
	struct analysis_cache cache = { 0 };
	char line[32];

	for (int lap = 0; lap < 3; lap++)
		for (int i = 0; i < ANALYSIS_CACHE_SIZE * 2; i++) {
			snprintf(line, sizeof line, "cat file%d >out%d", i, lap);
			command_facts_auto struct command_facts plain = { 0 };
			const char *argv[] = { "/bin/sh", "-c", line };
			command_analyse_line(line, strlen(line), &usual, &plain);
			check_same(analysis_cache_get(&cache, line, argv, 3, &usual), &plain, argv, 3);
		}
	analysis_cache_done(&cache);
}
END_TEST

START_TEST(a_long_command_is_not_cached)
{
	struct analysis_cache cache = { 0 };
	char *line = mem_zalloc(ANALYSIS_CACHE_KEY_MAX + 2, 1);

	memset(line, 'a', ANALYSIS_CACHE_KEY_MAX + 1);
	ck_assert_ptr_null(analysis_cache_get(&cache, line, NULL, 0, &usual));
	analysis_cache_done(&cache);
	free(line);
}
END_TEST

int main(void)
{
	return SUITE("analysis_cache", cached_facts_equal_those_of_an_analysis, entries_differ_in_every_input,
		     the_oldest_entry_is_evicted, a_long_command_is_not_cached);
}
