#include "sandbox/autorun.h"
#include "tests/unit/suite.h"

/* The directory that many levels above the file's. */
static bool is_levels(void *ctx, size_t levels) { return levels == *(size_t *)ctx; }

START_TEST(files_of_bare_repositories_are_recognized_by_their_directory)
{
	size_t levels = 0;
	ck_assert(autorun_name_matches("/srv/bare/config", is_levels, &levels));
	ck_assert(autorun_name_matches("/config", is_levels, &levels));
	ck_assert(!autorun_name_matches("/srv/bare/description", is_levels, &levels));
	ck_assert(!autorun_name_matches("/srv/bare/hooks/lib", is_levels, &levels));
	levels = 1;
	ck_assert(autorun_name_matches("/srv/bare/hooks/lib", is_levels, &levels));
	ck_assert(!autorun_name_matches("/srv/bare/hooks/a/lib", is_levels, &levels));
	levels = 2;
	ck_assert(autorun_name_matches("/srv/bare//hooks/a/lib", is_levels, &levels));
}
END_TEST

START_TEST(names_of_hooks_are_recognized_in_every_directory)
{
	size_t never = 100;
	ck_assert(autorun_name_matches("/tools/pre-commit", is_levels, &never));
	ck_assert(autorun_name_matches("/Post-Checkout", is_levels, &never));
	ck_assert(!autorun_name_matches("/tools/pre-commit/x", is_levels, &never));
	ck_assert(!autorun_name_matches("/tools/pre-commit.py", is_levels, &never));
}
END_TEST

START_TEST(autorun_names_are_recognized)
{
	size_t never = 100;
	static const char *const matching[] = { "/.envrc",
						"/a/b/.ENVRC",
						"/.vscode/tasks.json",
						"/a/.husky/pre-commit",
						"/a/.husky/_/husky.sh",
						"/x.code-workspace",
						"/.git/config",
						"/a/.git/hooks/pre-commit",
						"/a/.Git/modules/b/hooks/x",
						"/a/.git",
						"/.bailiff/policy.json" };
	static const char *const others[] = { "/",           "/envrc",         "/.envrc/x",     "/.vscode/other.json",
					      "/config",     "/hooks/x",       "/a.git/config", "/.git/HEAD",
					      "/.huskyrc/x", "/code-workspace" };
	for (size_t i = 0; i < sizeof matching / sizeof *matching; i++)
		ck_assert_msg(autorun_name_matches(matching[i], is_levels, &never), "%s", matching[i]);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		ck_assert_msg(!autorun_name_matches(others[i], is_levels, &never), "%s", others[i]);
}
END_TEST

int main(void)
{
	return SUITE("autorun_name", autorun_names_are_recognized,
		     files_of_bare_repositories_are_recognized_by_their_directory,
		     names_of_hooks_are_recognized_in_every_directory);
}
