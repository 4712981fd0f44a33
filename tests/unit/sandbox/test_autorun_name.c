#include "sandbox/autorun.h"
#include "tests/unit/suite.h"

START_TEST(autorun_names_are_recognized)
{
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
		ck_assert_msg(autorun_name_matches(matching[i]), "%s", matching[i]);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		ck_assert_msg(!autorun_name_matches(others[i]), "%s", others[i]);
}
END_TEST

int main(void) { return SUITE("autorun_name", autorun_names_are_recognized); }
