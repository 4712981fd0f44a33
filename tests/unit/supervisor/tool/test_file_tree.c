/* Patterns of paths, as glob, grep and .gitignore files use them. */

#include "supervisor/tool/file_tree.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <string.h>

START_TEST(stars_stop_at_slashes_and_two_stars_do_not)
{
	static const struct {
		const char *pattern, *path;
		bool matches;
	} rows[] = {
		{ "*.c", "a.c", true },
		{ "*.c", "a/b.c", false },
		{ "a/*", "a/b", true },
		{ "a/*", "a/b/c", false },
		{ "a/**", "a/b/c", true },
		{ "**", "a/b", true },
		{ "**/c", "c", true },
		{ "**/c", "a/b/c", true },
		{ "**/c", "a/bc", false },
		{ "a/**/c", "a/c", true },
		{ "a/**/c", "a/b/b/c", true },
		{ "a/**/c", "b/a/c", false },
		{ "[a-c]?", "bx", true },
		{ "[a-c]?", "dx", false },
		{ "**/*.c", "x/y/z.c", true },
		{ "a/**/b/**/c", "a/b/c", true },
		{ "a/**/b/**/c", "a/c/b", false },
		{ "a", "a/b", false },
	};

	for (size_t i = 0; i < countof(rows); i++)
		ck_assert_msg(path_glob(rows[i].pattern, rows[i].path) == rows[i].matches, "%s %s", rows[i].pattern,
			      rows[i].path);
}
END_TEST

START_TEST(matching_many_double_stars_is_bounded)
{
	char path[512] = "";

	for (size_t i = 0; i < 200; i++)
		memcpy(path + 2 * i, "a/", 3);
	ck_assert(!path_glob("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/b", path));
}
END_TEST

START_TEST(braces_are_alternatives)
{
	struct path_pattern p;
	struct err e = ERR_INIT;

	ck_assert_int_eq(path_pattern_init(&p, "pattern", "./src/{a,b{1,2}}.{c,h}", &e), 0);
	ck_assert(path_pattern_matches(&p, "src/a.c"));
	ck_assert(path_pattern_matches(&p, "src/b2.h"));
	ck_assert(!path_pattern_matches(&p, "src/b.c"));
	path_pattern_done(&p);
	ck_assert_int_eq(path_pattern_init(&p, "pattern", "*.c", &e), 0);
	ck_assert(path_pattern_matches(&p, "a/b/x.c")); /* without a slash: a name in any directory */
	path_pattern_done(&p);
	ck_assert_int_lt(path_pattern_init(&p, "pattern", "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", &e), 0);
	ck_assert_str_eq(e.field, "pattern");
	e = ERR_INIT;
	ck_assert_int_lt(path_pattern_init(&p, "pattern", "/abs", &e), 0);
	e = ERR_INIT;
	ck_assert_int_lt(path_pattern_init(&p, "pattern", "", &e), 0);
	ck_assert_int_eq(path_pattern_init(&p, "pattern", "}{", &(struct err){ 0 }), 0); /* unbalanced: literal */
	path_pattern_done(&p);
}
END_TEST

int main(void)
{
	return SUITE("file_tree", stars_stop_at_slashes_and_two_stars_do_not, matching_many_double_stars_is_bounded,
		     braces_are_alternatives);
}
