#include "runtime/base/path.h"

#include "runtime/base/err.h"
#include "tests/unit/suite.h"

#include <string.h>

static const char *clean(const char *path)
{
	static char out[PATH_MAX];
	struct err e = ERR_INIT;

	ck_assert_int_eq(path_clean(path, out, &e), 0);
	return out;
}

START_TEST(paths_are_cleaned)
{
	ck_assert_str_eq(clean("/"), "/");
	ck_assert_str_eq(clean("//a///b/"), "/a/b");
	ck_assert_str_eq(clean("/a/./b/../c"), "/a/c");
	ck_assert_str_eq(clean("/../../a"), "/a");
	ck_assert_str_eq(clean("/a/.."), "/");
	ck_assert_str_eq(clean("/a/..b/...c"), "/a/..b/...c");
}
END_TEST

START_TEST(invalid_paths_are_rejected)
{
	char out[PATH_MAX] = "as it was", longer[2 * PATH_MAX];
	struct err e = ERR_INIT;

	ck_assert_int_eq(path_clean("a/b", out, &e), -1);
	ck_assert_int_eq(e.code, ERR_INVALID);
	ck_assert_int_eq(path_clean("", out, &e), -1);
	memset(longer, 'a', sizeof longer - 1);
	longer[0] = '/';
	longer[sizeof longer - 1] = '\0';
	ck_assert_int_eq(path_clean(longer, out, &e), -1);
	ck_assert_str_eq(out, "as it was");
}
END_TEST

START_TEST(containment_is_decided_by_component)
{
	ck_assert(path_within("/", "/a"));
	ck_assert(path_within("/a", "/a"));
	ck_assert(path_within("/a", "/a/b"));
	ck_assert(!path_within("/a", "/ab"));
	ck_assert(!path_within("/a/b", "/a"));
}
END_TEST

START_TEST(directories_sort_before_their_contents)
{
	ck_assert_int_lt(path_compare("/", "/a"), 0);
	ck_assert_int_lt(path_compare("/a", "/a/b"), 0);
	ck_assert_int_lt(path_compare("/a/b", "/a-b"), 0);
	ck_assert_int_eq(path_compare("/a", "/a"), 0);
	ck_assert_int_gt(path_compare("/b", "/a/z"), 0);
}
END_TEST

START_TEST(the_parent_of_the_root_does_not_exist)
{
	char path[PATH_MAX] = "/a/b";

	ck_assert(path_up(path));
	ck_assert_str_eq(path, "/a");
	ck_assert(path_up(path));
	ck_assert_str_eq(path, "/");
	ck_assert(!path_up(path));
}
END_TEST

int main(void)
{
	return SUITE("path", paths_are_cleaned, invalid_paths_are_rejected, containment_is_decided_by_component,
		     directories_sort_before_their_contents, the_parent_of_the_root_does_not_exist);
}
