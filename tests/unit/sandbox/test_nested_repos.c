#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "sandbox/nested_repos.h"
#include "sandbox/profile.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char tree[64];

static void set_up(void)
{
	snprintf(tree, sizeof tree, "/tmp/bl-nested-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(tree));
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at) { return remove(path); }

static void tear_down(void) { ck_assert_int_eq(nftw(tree, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0); }

/* Creates all parent directories; a name that ends in / is a directory, others are files. */
static void make(const char *name)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", tree, name);
	for (char *p = path + strlen(tree) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(path, 0755);
		*p = '/';
	}
	if (path[strlen(path) - 1] == '/')
		return;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	ck_assert_int_ge(fd, 0);
	close(fd);
}

static void link_to(const char *target, const char *name)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", tree, name);
	ck_assert_int_eq(symlink(target, path), 0);
}

struct found_paths {
	char text[NESTED_REPOS_FOUND_MAX + 1][PATH_MAX];
	size_t count;
};

static void on_found(void *ctx, const char *path)
{
	struct found_paths *t = ctx;
	ck_assert_uint_lt(t->count, NESTED_REPOS_FOUND_MAX);
	ck_assert_int_eq(strncmp(path, tree, strlen(tree)), 0);
	snprintf(t->text[t->count++], PATH_MAX, "%s", path + strlen(tree) + 1);
}

static bool has(const struct found_paths *t, const char *path)
{
	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->text[i], path) == 0)
			return true;
	return false;
}

START_TEST(nested_repositories_are_found)
{
	static const char *const made[] = {
		".git/config",
		".bailiff/policy.json",
		".claude/hooks/", /* those of the workspace itself are not reported */
		"a/.git/config",
		"a/b/.git",
		"a/b/c/.bailiff/policy.json",
		"a/b/c/d/.git/config",
		"w/.claude/hooks/x",
		"v/.claude/settings.json",
		"node_modules/x/.git/config",
		".git/modules/one/config",
		".git/modules/libs/two/config",
		".git/modules/one/modules/three/config",
		".git/modules/nothing/x",
		"linked/.git/config",
		"policy/.bailiff",
	};
	static const char *const wanted[] = {
		"a/.git",    "a/b/.git",         "linked/.git",           "a/b/c/.bailiff",
		"w/.claude", ".git/modules/one", ".git/modules/libs/two", ".git/modules/one/modules/three"
	};
	struct found_paths *t = mem_zalloc(1, sizeof *t);
	for (size_t i = 0; i < countof(made); i++)
		make(made[i]);
	link_to("/etc", "linked/.git/hooks");
	link_to("a", "also");
	make("far/");
	link_to("../a/.git", "far/.git");
	ck_assert_int_eq(nested_repos_find(tree, on_found, t), 0);
	for (size_t i = 0; i < countof(wanted); i++)
		ck_assert_msg(has(t, wanted[i]), "%s", wanted[i]);
	ck_assert_uint_eq(t->count, countof(wanted));
	ck_assert_int_lt(nested_repos_find("/nowhere/at/all", on_found, t), 0);
	free(t);
}
END_TEST

START_TEST(bare_repositories_are_found)
{
	static const char *const made[] = {
		"store/HEAD",   "store/objects/pack/", "store/refs/heads/", "store/hooks/x",
		"store/config", "none/HEAD",           "none/refs/x",       "file/HEAD",
		"file/objects", "file/refs/x",         "odd/HEAD",          "odd/objects/x/.git/config",
		"odd/refs/x",   "link/HEAD",           "link/objects/x",    "link/refs/x"
	};
	struct found_paths *t = mem_zalloc(1, sizeof *t);
	char path[PATH_MAX];
	for (size_t i = 0; i < countof(made); i++)
		make(made[i]);
	link_to("/etc", "link/hooks");
	ck_assert_int_eq(nested_repos_find(tree, on_found, t), 0);
	/* A repository inside something that only resembles one is found as well. */
	ck_assert(has(t, "store") && has(t, "odd") && has(t, "odd/objects/x/.git") && has(t, "link"));
	ck_assert_uint_eq(t->count, 4);
	snprintf(path, sizeof path, "%s/store", tree);
	memset(t, 0, sizeof *t);
	ck_assert_int_eq(nested_repos_find(path, on_found, t), 0);
	ck_assert_uint_eq(t->count, 1);
	ck_assert_str_eq(t->text[0], "store");
	ck_assert(nested_repos_path(t->text[0], ".git/config", path));
	ck_assert_str_eq(path + strlen(t->text[0]), "/config");
	free(t);
}
END_TEST

START_TEST(submodules_of_an_outside_git_directory_are_found)
{
	struct found_paths *t = mem_zalloc(1, sizeof *t);
	char path[PATH_MAX];
	make("store/HEAD");
	ck_assert_int_eq(nested_repos_find_modules(tree, on_found, t), 0);
	make("modules/libs/one/config");
	make("modules/libs/one/modules/two/config");
	ck_assert_int_eq(nested_repos_find_modules(tree, on_found, t), 0);
	ck_assert_uint_eq(t->count, 2);
	ck_assert(has(t, "modules/libs/one") && has(t, "modules/libs/one/modules/two"));
	ck_assert(nested_repos_path(t->text[0], ".git/hooks", path));
	ck_assert_str_eq(path + strlen(t->text[0]), "/hooks");
	ck_assert(!nested_repos_path(t->text[0], ".bailiff", path));
	free(t);
}
END_TEST

START_TEST(the_search_finds_the_nearest_first_and_is_bounded)
{
	struct found_paths *t = mem_zalloc(1, sizeof *t);
	for (unsigned i = 0; i < 2 * NESTED_REPOS_FOLDERS; i++) {
		char name[64];
		snprintf(name, sizeof name, "f%u/deep/.git/config", i);
		make(name);
	}
	make("near/.bailiff/policy.json");
	ck_assert_int_eq(nested_repos_find(tree, on_found, t), 1);
	ck_assert_uint_le(t->count, NESTED_REPOS_FOUND_MAX);
	free(t);
	t = mem_zalloc(1, sizeof *t);
	/* In each of them: which directories are searched depends on the order in which the file system lists names. */
	for (unsigned i = 0; i < 2 * NESTED_REPOS_FOLDERS; i++) {
		char name[64];
		snprintf(name, sizeof name, "f%u/.git/config", i);
		make(name);
	}
	ck_assert_int_eq(nested_repos_find(tree, on_found, t), 1);
	ck_assert_uint_eq(t->count, NESTED_REPOS_FOUND_MAX);
	for (size_t i = 0; i < t->count; i++)
		ck_assert_msg(!strstr(t->text[i], "/deep/"), "%s", t->text[i]);
	free(t);
}
END_TEST

START_TEST(protected_paths_of_nested_repositories)
{
	static const struct {
		const char *nested, *relative, *place;
	} table[] = {
		{ "/w/a/.git", ".git/hooks", "/w/a/.git/hooks" },
		{ "/w/.git/modules/a", ".git/config", "/w/.git/modules/a/config" },
		{ "/w/a/.bailiff", ".bailiff", "/w/a/.bailiff" },
		{ "/w/a/.claude", ".claude/hooks", "/w/a/.claude/hooks" },
		{ "/w/a/.git", ".bailiff", NULL },
		{ "/w/a/.git", ".github", NULL },
		{ "/w/a/.git", "file", NULL },
	};
	char path[PATH_MAX];
	for (size_t i = 0; i < countof(table); i++) {
		bool any = nested_repos_path(table[i].nested, table[i].relative, path);
		ck_assert_int_eq(any, table[i].place != NULL);
		if (any)
			ck_assert_str_eq(path, table[i].place);
	}
}
END_TEST

static size_t protected_below(const struct profile *p, const char *folder)
{
	size_t n = 0;
	for (size_t i = 0; i < p->count; i++)
		n += p->entry[i].kind == PLAN_MOUNT_PROTECT && strncmp(p->entry[i].path, folder, strlen(folder)) == 0;
	return n;
}

static void compile(const char *name, const struct profile_change *c, const struct buf *nested, struct profile *ret)
{
	const struct profile_paths place = { .cwd = "/srv/w",
					     .home = "/home/ann",
					     .workspace = "/srv/w",
					     .nested = nested->data,
					     .nested_len = nested->len };
	struct err e = ERR_INIT;
	ck_assert_int_eq(profile_shipped(name, ret), 0);
	ck_assert_msg(profile_expand(ret, &place, &e) == 0 && profile_adjust(ret, c, &place, true, &e) == 0 &&
			      profile_compile(ret, &place, &e) == 0,
		      "%s", e.message);
}

START_TEST(profiles_protect_nested_repositories)
{
	static const char *const hidden[] = { "/srv/w/a" };
	const struct profile_change nothing = { 0 }, hide = { .hide = hidden, .nhide = 1 },
				    show = { .read = hidden, .nread = 1 };
	buf_auto struct buf nested = BUF_INIT;
	struct profile p;
	buf_append(&nested, "/srv/w/a/.git", sizeof "/srv/w/a/.git");
	buf_append(&nested, "/srv/other/.git", sizeof "/srv/other/.git");
	compile("workspace", &nothing, &nested, &p);
	ck_assert_uint_eq(protected_below(&p, "/srv/w/a/"), 3);
	ck_assert_uint_eq(protected_below(&p, "/srv/other"), 0);
	profile_done(&p);
	compile("readonly", &nothing, &nested, &p);
	ck_assert_uint_eq(protected_below(&p, "/srv"), 0);
	profile_done(&p);
	compile("workspace", &hide, &nested, &p);
	ck_assert_uint_eq(protected_below(&p, "/srv/w/a"), 0);
	profile_done(&p);
	compile("workspace", &show, &nested, &p);
	ck_assert_uint_eq(protected_below(&p, "/srv/w/a"), 0);
	profile_done(&p);
	/* More than fit into a plan. */
	for (unsigned i = 0; i < 500; i++) {
		char path[64];
		int n = snprintf(path, sizeof path, "/srv/w/folder%u/.git", i);
		buf_append(&nested, path, (size_t)n + 1);
	}
	compile("workspace", &nothing, &nested, &p);
	ck_assert_uint_gt(protected_below(&p, "/srv/w/folder"), 3 * NESTED_REPOS_MAX);
	profile_done(&p);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "disk", set_up, tear_down, 30,
		  SUITE_TESTS(nested_repositories_are_found, bare_repositories_are_found,
			      submodules_of_an_outside_git_directory_are_found,
			      the_search_finds_the_nearest_first_and_is_bounded) },
		{ "texts", NULL, NULL, 10,
		  SUITE_TESTS(protected_paths_of_nested_repositories, profiles_protect_nested_repositories) },
	};
	return suite_run_cases("nested_repos", cases, countof(cases));
}
