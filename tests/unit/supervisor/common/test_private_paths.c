#include "supervisor/common/private_paths.h"

#include "tests/unit/suite.h"

#include <stdbool.h>
#include <string.h>

static bool has(const char *const *list, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], path) == 0)
			return true;
	return false;
}

START_TEST(equal_directories_are_listed_once)
{
	struct private_paths s;

	private_paths_init(&s, "/srv/./b/", "/srv/b", "/srv//b");
	ck_assert_uint_eq(s.nfolder, 1);
	ck_assert_str_eq(s.folder[0], "/srv/b");
	ck_assert(has(s.path, s.npath, "/srv/b/control.sock"));
	ck_assert(has(s.path, s.npath, "/srv/b/store"));
	ck_assert(has(s.path, s.npath, "/srv/b/spool"));
	ck_assert(has(s.path, s.npath, "/srv/b/policy.json"));
	ck_assert(has(s.path, s.npath, "/srv/b/config.json"));
	ck_assert(has(s.path, s.npath, "/srv/b/http-token")); /* with it a command could approve its own requests */
	ck_assert(has(s.path, s.npath, "/srv/b/console.html"));
	private_paths_done(&s);
}
END_TEST

START_TEST(each_directory_has_its_files)
{
	struct private_paths s;

	private_paths_init(&s, "/run/b", "/var/lib/b", NULL);
	ck_assert_uint_eq(s.nfolder, 2);
	ck_assert(has(s.path, s.npath, "/run/b/control.sock"));
	ck_assert(has(s.path, s.npath, "/var/lib/b/store"));
	for (size_t i = 0; i < s.npath; i++)
		ck_assert_ptr_null(strstr(s.path[i], "json"));
	private_paths_done(&s);
}
END_TEST

START_TEST(paths_of_the_configuration_are_added)
{
	struct private_paths s;

	private_paths_init(&s, "/run/b", "/var/lib/b", "/etc/b");
	size_t own = s.npath, more = 0;
	while (private_paths_add(&s, "/srv/token") == 0)
		more++;
	ck_assert_uint_ge(more, 8);
	ck_assert_uint_eq(s.npath, own + more);
	ck_assert(has(s.path, s.npath, "/srv/token"));
	ck_assert_uint_eq(s.nfolder, 3); /* its directory may belong to another user */
	private_paths_done(&s);
}
END_TEST

int main(void)
{
	return SUITE("private_paths", equal_directories_are_listed_once, each_directory_has_its_files,
		     paths_of_the_configuration_are_added);
}
