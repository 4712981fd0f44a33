#include "sandbox/workspace.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/placeholder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SCRATCH "/workspace"
#define PRIVATE_TMP "/tmp"

/* These trees belong to the system: visible, but never writable. */
static const char *const system_trees[] = {
	"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/proc", "/sys", "/dev",
};
/* These directories themselves are shared by all users and not a workspace; their subdirectories can be. */
static const char *const system_folders[] = { "/run", "/var", "/var/lib", "/var/cache", "/var/log", "/var/spool" };
static const char *const private_folders[] = { PRIVATE_TMP, "/var/tmp", "/dev/shm" };

static bool is_system(const char *path)
{
	for (size_t i = 0; i < countof(system_trees); i++)
		if (path_within(system_trees[i], path))
			return true;
	for (size_t i = 0; i < countof(system_folders); i++)
		if (strcmp(system_folders[i], path) == 0)
			return true;
	return false;
}

static bool is_private(const char *path)
{
	for (size_t i = 0; i < countof(private_folders); i++)
		if (strcmp(private_folders[i], path) == 0)
			return true;
	return false;
}

static bool holds_home(const char *path, const char *home) { return home[0] && home[1] && path_within(path, home); }

bool workspace_is_usable(const char *path, const char *home)
{
	return path[1] && !holds_home(path, home) && !is_system(path) && !is_private(path);
}

/* Rejects directories that would expose or make writable too much. */
static int check_workspace(const char *path, const char *home, const char *field, struct err *e)
{
	static const char hint[] = "change to the folder of a project (--cwd DIR), or use the profile isolated";

	if (!path[1])
		return err_field(e, field, "'/' cannot be the workspace: %s", hint);
	if (strcmp(path, home) == 0)
		return err_field(e, field, "the home '%.200s' cannot be the workspace: %s", path, hint);
	if (holds_home(path, home))
		return err_field(e, field, "'%.200s' cannot be the workspace, it holds the home: %s", path, hint);
	return 0;
}

enum git_presence { GIT_ABSENT, GIT_PRESENT, GIT_UNKNOWN };

/* A command can give a repository the mode of a placeholder, but cannot empty it: its configuration is protected. */
static enum git_presence check_placeholder(const char *name, const struct stat *st)
{
	if (!S_ISDIR(st->st_mode))
		return GIT_ABSENT; /* an empty file */
	if (st->st_nlink > 2)
		return GIT_PRESENT; /* with directories in it */
	DIR *dir = opendir(name);
	if (!dir)
		return GIT_UNKNOWN;
	size_t n = 0;
	errno = 0;
	while (n < 3 && readdir(dir))
		n++;
	enum git_presence r = errno ? GIT_UNKNOWN : n > 2 ? GIT_PRESENT : GIT_ABSENT;
	closedir(dir);
	return r;
}

static enum git_presence check_git(const char *folder)
{
	char name[PATH_MAX + 8];
	struct stat st;

	snprintf(name, sizeof name, "%s/.git", folder);
	if (lstat(name, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? GIT_ABSENT : GIT_UNKNOWN;
	return placeholder_is(&st) ? check_placeholder(name, &st) : GIT_PRESENT;
}

/* Whether a folder with the mode of a placeholder is one can only be told by listing it. */
int workspace_git_cached(int at, const char *name)
{
	const struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				      .resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED };
	struct statx x;
	fd_auto int fd = (int)syscall(SYS_openat2, at, name, &how, sizeof how);

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &x) < 0)
		return -1;
	const struct stat st = { .st_mode = x.stx_mode, .st_size = (off_t)x.stx_size };
	if (!placeholder_is(&st) || (S_ISDIR(st.st_mode) && x.stx_nlink > 2))
		return 1;
	return S_ISDIR(st.st_mode) ? -1 : 0;
}

static enum git_presence check_git_cached(const char *folder)
{
	char name[PATH_MAX + 8];

	snprintf(name, sizeof name, "%s/.git", folder);
	int has = workspace_git_cached(AT_FDCWD, name);
	return has < 0 ? GIT_UNKNOWN : has ? GIT_PRESENT : GIT_ABSENT;
}

/*
 * Stops at a directory that cannot be a workspace: a home under git is no reason to expose it. Stops also where it
 * cannot be determined whether there is a .git: a command can remove permissions from its workspace, and the next one
 * must not get the repository around it instead.
 */
int workspace_search(const char *folder, const char *home, bool cached, char ret[PATH_MAX])
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s", folder);
	ret[0] = '\0';
	do {
		if (!workspace_is_usable(path, home))
			break;
		enum git_presence git = cached ? check_git_cached(path) : check_git(path);
		if (git == GIT_UNKNOWN)
			return cached;
		if (git == GIT_PRESENT) {
			memcpy(ret, path, sizeof path);
			break;
		}
	} while (path_up(path));
	return 0;
}

/* A directory of git's or bailiff's own, or of hooks, is not a workspace, but the tree that contains it is. */
static void leave_inner_folders(char path[PATH_MAX])
{
	static const char *const inner[] = { "/.git", "/.bailiff", "/.claude/hooks" };

	for (size_t i = 0; i < countof(inner); i++) {
		size_t n = strlen(inner[i]);
		for (char *p = strstr(path, inner[i]); p; p = strstr(p + 1, inner[i])) {
			if (p[n] && p[n] != '/')
				continue;
			p[p == path] = '\0';
			break;
		}
	}
}

static int clean_field(const char *path, const char *field, char ret[PATH_MAX], struct err *e)
{
	struct err inner = ERR_INIT;

	return path_clean(path, ret, &inner) < 0 ? err_field(e, field, "%s", inner.message) : 0;
}

int workspace_find(const char *cwd, const char *given, const char *home, const char *git, struct workspace *ret,
		   struct err *e)
{
	struct workspace w = { 0 };

	if (clean_field(cwd ? cwd : PRIVATE_TMP, "cwd", w.cwd, e) < 0)
		return -1;
	if (given) {
		if (clean_field(given, "sandbox.workspace", w.path, e) < 0)
			return -1;
		if (!path_within(w.path, w.cwd))
			return err_field(e, "sandbox.workspace",
					 "'%.150s' does not hold the working directory '%.150s'", w.path, w.cwd);
	} else {
		snprintf(w.path, sizeof w.path, "%s", git[0] ? git : w.cwd);
	}
	leave_inner_folders(w.path);
	if (is_private(w.path) || is_system(w.path))
		w.path[0] = '\0';
	else if (check_workspace(w.path, home, given ? "sandbox.workspace" : "cwd", e) < 0)
		return -1;
	w.has_git = w.path[0] && strcmp(w.path, git) == 0;
	*ret = w;
	return 0;
}

void workspace_above(const char *path, const char *home, struct buf *out)
{
	char at[PATH_MAX];

	snprintf(at, sizeof at, "%s", path);
	do {
		if (!workspace_is_usable(at, home))
			break;
		buf_append(out, at, strlen(at) + 1);
	} while (path_up(at));
}

int workspace_scratch(const char *cwd, struct workspace *ret, struct err *e)
{
	struct workspace w = { 0 };

	if (clean_field(cwd ? cwd : SCRATCH, "cwd", w.cwd, e) < 0)
		return -1;
	if (!w.cwd[1] || is_system(w.cwd))
		snprintf(w.cwd, sizeof w.cwd, "%s", SCRATCH);
	if (!is_private(w.cwd))
		memcpy(w.path, w.cwd, sizeof w.path);
	*ret = w;
	return 0;
}
