/* The git directories that a workspace's .git file refers to. Real repositories are in
 * tests/blackbox/test_git_links.py. */

#include "sandbox/git_link.h"

#include "tests/unit/suite.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char tree[64], workspace[128];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at) { return remove(path); }

static void tear_down(void) { ck_assert_int_eq(nftw(tree, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0); }

/* Creates a file with its directories. */
__attribute__((format(printf, 2, 3))) static void put(const char *name, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;
	snprintf(path, sizeof path, "%s/%s", tree, name);
	for (char *p = path + strlen(tree) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(path, 0755);
		*p = '/';
	}
	FILE *f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
}

static void put_repository(const char *at)
{
	static const char *const names[] = { "HEAD", "objects/x", "refs/x", "config" };
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		char name[256];
		snprintf(name, sizeof name, "%s/%s", at, names[i]);
		put(name, "x\n");
	}
}

/* A repository in main/.git with the linked worktree w, and the submodule main/sub. */
static void set_up(void)
{
	snprintf(tree, sizeof tree, "/tmp/bl-git-link-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(tree));
	snprintf(workspace, sizeof workspace, "%s/w", tree);
	put_repository("main/.git");
	put("w/.git", "gitdir: %s/main/.git/worktrees/w\n", tree);
	put("main/.git/worktrees/w/HEAD", "x\n");
	put("main/.git/worktrees/w/commondir", "../..\n");
	put("main/.git/worktrees/w/gitdir", "%s/w/.git\n", tree);
	put_repository("main/.git/modules/libs/sub");
	put("main/.git/modules/libs/sub/config", "[core]\n\tworktree = ../../../../sub\n");
	put("main/sub/.git", "gitdir: ../.git/modules/libs/sub\n");
}

static enum git_link_result find_in(const char *name, struct git_link *ret)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", tree, name);
	return git_link_find(path, ret);
}

static enum git_link_result find(void)
{
	struct git_link l;
	return find_in("w", &l);
}

START_TEST(a_linked_worktree_is_proven)
{
	struct git_link l;
	char path[PATH_MAX];
	ck_assert_int_eq(find_in("w", &l), GIT_LINK_PROVEN);
	snprintf(path, sizeof path, "%s/main/.git", tree);
	ck_assert_str_eq(l.common, path);
	ck_assert_int_eq(strncmp(l.dir, path, strlen(path)), 0);
	ck_assert_str_eq(l.dir + strlen(path), "/worktrees/w");
	/* With worktree.useRelativePaths. */
	put("w/.git", "gitdir: ../main/.git/worktrees/w\n");
	put("main/.git/worktrees/w/gitdir", "../../../../w/.git\n");
	ck_assert_int_eq(find(), GIT_LINK_PROVEN);
}
END_TEST

START_TEST(a_submodule_is_proven)
{
	struct git_link l;
	ck_assert_int_eq(find_in("main/sub", &l), GIT_LINK_PROVEN);
	ck_assert_str_eq(l.common, "");
	ck_assert_str_eq(l.dir + strlen(tree), "/main/.git/modules/libs/sub");
	put_repository("main/.git/modules/worktrees/sub");
	put("main/.git/modules/worktrees/sub/config", "[core]\n\tworktree = ../../../../sub\n");
	put("main/sub/.git", "gitdir: ../.git/modules/worktrees/sub\n");
	ck_assert_int_eq(find_in("main/sub", &l), GIT_LINK_PROVEN);
	ck_assert_str_eq(l.common, "");
}
END_TEST

START_TEST(repositories_without_an_outside_git_directory_have_no_link)
{
	struct git_link l;
	ck_assert_int_eq(find_in("main", &l), GIT_LINK_NONE);
	ck_assert_int_eq(find_in("main/.git", &l), GIT_LINK_NONE);
	ck_assert_int_eq(find_in("missing", &l), GIT_LINK_NONE);
	put("w/.git", "gitdir: store\n");
	ck_assert_int_eq(find(), GIT_LINK_NONE);
	put("w/.git", "gitdir: ..\n");
	ck_assert_int_eq(find(), GIT_LINK_NONE);
	put("w/.git", "something else\n");
	ck_assert_int_eq(find(), GIT_LINK_NONE);
}
END_TEST

START_TEST(each_part_of_the_proof_is_required)
{
	static const char *const parts[] = {
		"HEAD", "objects/x", "refs/x", "worktrees/w/HEAD", "worktrees/w/gitdir", "worktrees/w/commondir"
	};
	char from[PATH_MAX], to[PATH_MAX + 8];
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		snprintf(from, sizeof from, "%s/main/.git/%s", tree, parts[i]);
		char *slash = strrchr(from, '/');
		if (strcmp(slash, "/x") == 0)
			*slash = 0; /* the directory */
		snprintf(to, sizeof to, "%s.away", from);
		ck_assert_int_eq(rename(from, to), 0);
		ck_assert_msg(find() == GIT_LINK_UNPROVEN, "%s", from);
		ck_assert_int_eq(symlink(to, from), 0);
		ck_assert_msg(find() == GIT_LINK_UNPROVEN, "a link in place of %s", from);
		ck_assert_int_eq(unlink(from), 0);
		ck_assert_int_eq(rename(to, from), 0);
		ck_assert_int_eq(find(), GIT_LINK_PROVEN);
	}
	put("main/.git/commondir", "../elsewhere\n");
	ck_assert_int_eq(find(), GIT_LINK_UNPROVEN);
}
END_TEST

START_TEST(other_targets_are_unproven)
{
	put("main/.git/worktrees/w/commondir", "/etc\n");
	ck_assert_int_eq(find(), GIT_LINK_UNPROVEN);
	put("main/.git/worktrees/w/commondir", "../..\n");
	put("main/.git/worktrees/w/gitdir", "%s/other/.git\n", tree);
	ck_assert_int_eq(find(), GIT_LINK_UNPROVEN);
	put("w/.git", "gitdir: /etc\n");
	ck_assert_int_eq(find(), GIT_LINK_UNPROVEN);
	put("w/.git", "gitdir: %s/main/.git\n", tree);
	ck_assert_int_eq(find(), GIT_LINK_UNPROVEN);
}
END_TEST

START_TEST(a_common_directory_that_contains_the_workspace_is_unproven)
{
	struct git_link l;
	put_repository("bare");
	put("bare/w/.git", "gitdir: %s/bare/worktrees/w\n", tree);
	put("bare/worktrees/w/HEAD", "x\n");
	put("bare/worktrees/w/commondir", "../..\n");
	put("bare/worktrees/w/gitdir", "%s/bare/w/.git\n", tree);
	ck_assert_int_eq(find_in("bare/w", &l), GIT_LINK_UNPROVEN);
}
END_TEST

START_TEST(a_submodule_without_its_superproject_is_unproven)
{
	struct git_link l;
	put("main/.git/modules/libs/sub/config", "[core]\n\tworktree = ../../../../../w\n");
	put("w/.git", "gitdir: ../main/.git/modules/libs/sub\n");
	ck_assert_int_eq(find(), GIT_LINK_UNPROVEN); /* not in the working tree of main */
	put_repository("alone/modules/x");
	put("alone/modules/x/config", "[core]\n\tworktree = %s/w\n", tree);
	put("w/.git", "gitdir: ../alone/modules/x\n");
	ck_assert_int_eq(find(), GIT_LINK_UNPROVEN); /* the directory around `modules` is not a repository */
	ck_assert_int_eq(find_in("main/sub", &l), GIT_LINK_UNPROVEN);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "links", set_up, tear_down, 30,
		  SUITE_TESTS(a_linked_worktree_is_proven, a_submodule_is_proven,
			      repositories_without_an_outside_git_directory_have_no_link,
			      each_part_of_the_proof_is_required, other_targets_are_unproven,
			      a_common_directory_that_contains_the_workspace_is_unproven,
			      a_submodule_without_its_superproject_is_unproven) },
	};
	return suite_run_cases("git_link", cases, sizeof cases / sizeof cases[0]);
}
