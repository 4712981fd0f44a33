#include "sandbox/workspace.h"

#include "runtime/base/err.h"
#include "runtime/base/path.h"
#include "sandbox/placeholder.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder need not be clean. */
static void search(const char *folder, const char *home, char ret[PATH_MAX])
{
	char clean[PATH_MAX];

	ret[0] = '\0';
	if (folder && path_clean(folder, clean, NULL) == 0)
		ck_assert_int_eq(workspace_search(clean, home, false, ret), 0);
}

static const char *found(const char *cwd, const char *given, const char *home)
{
	static struct workspace w;
	struct err e = ERR_INIT;
	char git[PATH_MAX];

	search(given ? given : cwd, home, git);
	ck_assert_msg(workspace_find(cwd, given, home, git, &w, &e) == 0, "%s", e.message);
	ck_assert(w.has_git == (git[0] && strcmp(git, w.path) == 0));
	return w.path;
}

static void check_rejected(const char *cwd, const char *given, const char *home, const char *field)
{
	struct workspace w;
	struct err e = ERR_INIT;
	char git[PATH_MAX];

	search(given ? given : cwd, home, git);
	ck_assert_int_eq(workspace_find(cwd, given, home, git, &w, &e), -1);
	ck_assert_int_eq(e.code, ERR_INVALID);
	ck_assert_str_eq(e.field, field);
}

START_TEST(the_workspace_is_the_nearest_directory_with_git)
{
	char dir[] = "/tmp/bailiff-ws-XXXXXX", path[128], deep[128];

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/a", dir);
	mkdir(path, 0700);
	ck_assert_str_eq(found(path, NULL, "/home/ann"), path);
	snprintf(deep, sizeof deep, "%s/a/b", dir);
	mkdir(deep, 0700);
	ck_assert_str_eq(found(deep, NULL, "/home/ann"), deep);
	snprintf(path, sizeof path, "%s/.git", dir);
	mkdir(path, 0700);
	ck_assert_str_eq(found(deep, NULL, "/home/ann"), dir);
	/* A home directory in git is not a workspace because of that. */
	ck_assert_str_eq(found(deep, NULL, dir), deep);
	/* An explicit workspace overrides the search. */
	ck_assert_str_eq(found(deep, deep, "/home/ann"), deep);
	ck_assert_str_eq(found("/no/such/folder/", NULL, "/home/ann"), "/no/such/folder");
	rmdir(path);
	rmdir(deep);
	snprintf(path, sizeof path, "%s/a", dir);
	rmdir(path);
	rmdir(dir);
}
END_TEST

/* What was just looked up is cached, except what does not exist on a tmpfs of an older kernel. */
START_TEST(a_cached_search_finds_the_same_or_says_that_it_cannot)
{
	char dir[] = "/tmp/bailiff-ws-XXXXXX", git[128], deep[128], full[PATH_MAX], cached[PATH_MAX];
	static const mode_t modes[] = { 0, 0700, PLACEHOLDER_FOLDER_MODE, 0 };

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(git, sizeof git, "%s/.git", dir);
	snprintf(deep, sizeof deep, "%s/a", dir);
	mkdir(deep, 0700);
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		rmdir(git);
		if (modes[i])
			ck_assert_int_eq(mkdir(git, 0700) < 0 || chmod(git, modes[i]) < 0, 0);
		ck_assert_int_eq(workspace_search(deep, "", false, full), 0);
		ck_assert_str_eq(full, modes[i] == 0700 ? dir : "");
		bool unknown = workspace_search(deep, "", true, cached) != 0;
		ck_assert(unknown || modes[i] != PLACEHOLDER_FOLDER_MODE); /* it may have files */
		if (!unknown)
			ck_assert_str_eq(cached, full);
	}
	rmdir(git);
	rmdir(deep);
	rmdir(dir);
}
END_TEST

START_TEST(protected_directories_belong_to_their_tree)
{
	ck_assert_str_eq(found("/srv/x/.git/hooks", NULL, "/home/ann"), "/srv/x");
	ck_assert_str_eq(found("/srv/x/.git/hooks", "/srv/x/.git/hooks", "/home/ann"), "/srv/x");
	ck_assert_str_eq(found("/srv/x/.git", "/srv/x/.git", ""), "/srv/x");
	ck_assert_str_eq(found("/srv/x/y/.bailiff", NULL, ""), "/srv/x/y");
	ck_assert_str_eq(found("/srv/x/y/.claude/hooks/z", NULL, ""), "/srv/x/y");
	ck_assert_str_eq(found("/srv/x/y/.claude/worktrees/z", NULL, ""), "/srv/x/y/.claude/worktrees/z");
	ck_assert_str_eq(found("/srv/x/.github/.gitx", NULL, ""), "/srv/x/.github/.gitx");
	check_rejected("/.git", NULL, "", "cwd");
}
END_TEST

START_TEST(workspaces_that_are_too_wide_are_rejected)
{
	check_rejected("/", NULL, "/home/ann", "cwd");
	check_rejected("/home/ann/x/..", NULL, "/home/ann", "cwd");
	check_rejected("/home", NULL, "/home/ann", "cwd");
	check_rejected("/home/ann/x", "/home/ann", "/home/ann", "sandbox.workspace");
	check_rejected("/srv/x", "/srv/y", "/home/ann", "sandbox.workspace");
	check_rejected("relative", NULL, "/home/ann", "cwd");
}
END_TEST

START_TEST(system_directories_are_not_workspaces)
{
	ck_assert_str_eq(found(NULL, NULL, "/home/ann"), "");
	ck_assert_str_eq(found("/tmp", NULL, "/home/ann"), "");
	ck_assert_str_eq(found("/tmp/", NULL, ""), "");
	ck_assert_str_eq(found("/etc", NULL, "/home/ann"), "");
	ck_assert_str_eq(found("/usr/share/doc", NULL, "/home/ann"), "");
	ck_assert_str_eq(found("/var", NULL, "/home/ann"), "");
	ck_assert_str_eq(found("/usr-local", NULL, "/home/ann"), "/usr-local");
}
END_TEST

START_TEST(a_scratch_workspace_replaces_system_directories)
{
	struct workspace w;
	struct err e = ERR_INIT;

	ck_assert_int_eq(workspace_scratch(NULL, &w, &e), 0);
	ck_assert_str_eq(w.path, "/workspace");
	ck_assert_str_eq(w.cwd, "/workspace");
	ck_assert_int_eq(workspace_scratch("/usr/bin", &w, &e), 0);
	ck_assert_str_eq(w.cwd, "/workspace");
	ck_assert_int_eq(workspace_scratch("/home/ann", &w, &e), 0);
	ck_assert_str_eq(w.path, "/home/ann");
	ck_assert_int_eq(workspace_scratch("/tmp", &w, &e), 0);
	ck_assert_str_eq(w.path, "");
	ck_assert_str_eq(w.cwd, "/tmp");
}
END_TEST

int main(void)
{
	return SUITE("workspace", the_workspace_is_the_nearest_directory_with_git,
		     a_cached_search_finds_the_same_or_says_that_it_cannot, protected_directories_belong_to_their_tree,
		     workspaces_that_are_too_wide_are_rejected, system_directories_are_not_workspaces,
		     a_scratch_workspace_replaces_system_directories);
}
