#include "sandbox/git_link.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/git_config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FILE_MAX (256u << 10) /* a submodule's config */
#define GITDIR "gitdir: "
#define WORKTREES "/worktrees/"
#define MODULES "/modules/"

struct link_search {
	const char *workspace;
	dev_t dev; /* of the workspace */
};

/* ---- files ---- */

/* Whether a name below can be looked up without asking another machine or a program. */
static bool is_local(const struct link_search *s, int fd)
{
	static const long remote[] = { AUTOFS_SUPER_MAGIC, FUSE_SUPER_MAGIC, NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,
				       CIFS_SUPER_MAGIC,   SMB2_SUPER_MAGIC, CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC,
				       AFS_FS_MAGIC,       CODA_SUPER_MAGIC, V9FS_MAGIC };
	struct stat st;
	struct statfs fs;
	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < countof(remote) && st.st_dev != s->dev; i++) {
		if ((unsigned)fs.f_type == (unsigned)remote[i])
			return false;
	}
	return true;
}

/* Opens a directory by its clean path; follows no link. */
static int open_folder(const struct link_search *s, const char *path)
{
	char name[NAME_MAX + 1];
	fd_auto int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (const char *p = path; at >= 0 && p[0] && p[1];) {
		if (!is_local(s, at) || path_step(&p, name) < 0)
			return -1;
		int next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		fd_close(&at);
		at = next;
	}
	return fd_take(&at);
}

/* Reads a regular file of the user's; without its last line end. */
static bool read_file(int at, const char *name, struct buf *out)
{
	struct stat st;
	fd_auto int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return false;
	buf_reset(out);
	ssize_t n = fd_read_all(fd, buf_reserve(out, FILE_MAX), FILE_MAX);
	if (n <= 0 || (size_t)n == FILE_MAX || memchr(out->data, 0, (size_t)n))
		return false;
	while (n > 0 && strchr("\r\n", out->data[n - 1]))
		n--;
	buf_extend(out, (size_t)n);
	return true;
}

static bool has_type(int at, const char *name, mode_t type)
{
	struct stat st;
	return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 && (st.st_mode & S_IFMT) == type;
}

static bool is_users(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_uid == geteuid();
}

/* A repository of its own, not a linked worktree's part of one. */
static bool is_repository(int fd)
{
	struct stat st;
	return is_users(fd) && has_type(fd, "HEAD", S_IFREG) && has_type(fd, "objects", S_IFDIR) &&
	       has_type(fd, "refs", S_IFDIR) && fstatat(fd, "commondir", &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	       errno == ENOENT;
}

/* Directories that git and common extensions create in a git directory. */
static bool is_git_folder(const char *name)
{
	static const char *const names[] = { ".",         "..",       "annex",    "branches",     "hooks",
					     "info",      "lfs",      "logs",     "modules",      "objects",
					     "refs",      "reftable", "rr-cache", "rebase-apply", "rebase-merge",
					     "sequencer", "svn",      "worktrees" };
	for (size_t i = 0; i < countof(names); i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return false;
}

/*
 * Whether a directory contains nothing but a repository. A command can create git's names in any directory of its
 * workspace; what else is in there, such as the .git of another repository, must not become writable without its
 * protection. Directories of other programs are accepted in one that is called .git: no working trees are in there.
 */
static bool has_only_git(int fd, const char *path)
{
	static const char *const others[] = { ".git", ".bailiff", ".claude" };
	const struct dirent *d = NULL;
	struct stat st;
	for (size_t i = 0; i < countof(others); i++) {
		if (fstatat(fd, others[i], &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 || errno != ENOENT)
			return false;
	}
	if (strcmp(strrchr(path, '/'), "/.git") == 0)
		return true;
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	if (!dir) {
		fd_close(&own);
		return false;
	}
	bool only = true;
	while (only && (errno = 0, d = readdir(dir))) {
		bool folder = d->d_type == DT_DIR || (d->d_type == DT_UNKNOWN && has_type(fd, d->d_name, S_IFDIR));
		only = !folder || is_git_folder(d->d_name);
	}
	only &= !errno;
	closedir(dir);
	return only;
}

/* ---- names in files ---- */

static bool resolve_path(const char *base, const char *text, char ret[PATH_MAX])
{
	char whole[2 * PATH_MAX];
	int n = snprintf(whole, sizeof whole, "%s/%s", text[0] == '/' ? "" : base, text);
	return text[0] && n > 0 && n < PATH_MAX && path_clean(whole, ret, NULL) == 0;
}

/* Reads a file that consists of a path, relative to the directory that contains it. */
static bool read_path(int at, const char *folder, const char *name, char ret[PATH_MAX])
{
	buf_auto struct buf text = BUF_INIT;
	return read_file(at, name, &text) && resolve_path(folder, buf_cstr(&text), ret);
}

/* core.worktree of a repository's own configuration. */
static bool read_core_worktree(int at, const char *folder, char ret[PATH_MAX])
{
	struct git_setting s = { .section = "" };
	buf_auto struct buf text = BUF_INIT;
	bool found = false;
	if (!read_file(at, "config", &text))
		return false;
	for (const char *p = buf_cstr(&text); git_config_next(&p, &s);) {
		if (strcasecmp(s.section, "core") == 0 && strcasecmp(s.key, "worktree") == 0)
			found = resolve_path(folder, s.value, ret);
	}
	return found;
}

/* ---- proofs ---- */

/* For DIR = COMMON/worktrees/NAME. */
static bool is_worktree_of(const struct link_search *s, const struct git_link *l)
{
	char back[PATH_MAX], common[PATH_MAX], expected[PATH_MAX + 8];
	fd_auto int dir = open_folder(s, l->dir);
	fd_auto int main_dir = dir < 0 ? -1 : open_folder(s, l->common);
	snprintf(expected, sizeof expected, "%s/.git", s->workspace);
	return main_dir >= 0 && is_users(dir) && has_type(dir, "HEAD", S_IFREG) && is_repository(main_dir) &&
	       read_path(dir, l->dir, "gitdir", back) && strcmp(back, expected) == 0 &&
	       read_path(dir, l->dir, "commondir", common) && strcmp(common, l->common) == 0 &&
	       !path_within(l->common, s->workspace) && has_only_git(dir, l->dir) && has_only_git(main_dir, l->common);
}

/* The working tree of a git directory of any kind. */
static bool working_tree_of(const struct link_search *s, const char *folder, char ret[PATH_MAX])
{
	const char *name = strrchr(folder, '/') + 1;
	fd_auto int fd = open_folder(s, folder);
	if (fd < 0 || !is_users(fd) || !has_type(fd, "HEAD", S_IFREG))
		return false;
	if (has_type(fd, "commondir", S_IFREG))
		return read_path(fd, folder, "gitdir", ret) && path_up(ret);
	if (!is_repository(fd))
		return false;
	if (read_core_worktree(fd, folder, ret))
		return true;
	snprintf(ret, PATH_MAX, "%s", folder);
	return strcmp(name, ".git") == 0 && path_up(ret);
}

/*
 * For DIR = PARENT/modules/NAME. The name may have several components, "modules" among them: the nearest directory that
 * is a git directory is the parent.
 */
static bool is_submodule(const struct link_search *s, const struct git_link *l)
{
	char tree[PATH_MAX], parent[PATH_MAX];
	fd_auto int dir = open_folder(s, l->dir);
	if (dir < 0 || !is_repository(dir) || !read_core_worktree(dir, l->dir, tree) ||
	    strcmp(tree, s->workspace) != 0 || !has_only_git(dir, l->dir))
		return false;
	snprintf(parent, sizeof parent, "%s", l->dir);
	while (path_up(parent)) {
		size_t n = strlen(parent);
		if (strncmp(l->dir + n, MODULES, sizeof MODULES - 1) == 0 && working_tree_of(s, parent, tree))
			return path_within(tree, s->workspace) && strcmp(tree, s->workspace) != 0;
	}
	return false;
}

enum git_link_result git_link_find(const char *workspace, struct git_link *ret)
{
	struct link_search s = { .workspace = workspace };
	buf_auto struct buf text = BUF_INIT;
	struct stat st;
	fd_auto int at = open(workspace, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	*ret = (struct git_link){ 0 };
	if (at < 0 || fstat(at, &st) < 0)
		return GIT_LINK_NONE;
	s.dev = st.st_dev;
	if (!read_file(at, ".git", &text) || strncmp(buf_cstr(&text), GITDIR, sizeof GITDIR - 1) != 0 ||
	    !resolve_path(workspace, text.data + sizeof GITDIR - 1, ret->dir) || path_within(workspace, ret->dir) ||
	    path_within(ret->dir, workspace))
		return GIT_LINK_NONE;
	const char *name = strrchr(ret->dir, '/');
	size_t n = (size_t)(name - ret->dir) + 1, tail = sizeof WORKTREES - 1;
	if (n > tail && memcmp(ret->dir + n - tail, WORKTREES, tail) == 0)
		snprintf(ret->common, sizeof ret->common, "%.*s", (int)(n - tail), ret->dir);
	if (ret->common[0] && is_worktree_of(&s, ret))
		return GIT_LINK_PROVEN;
	if (!is_submodule(&s, ret))
		return GIT_LINK_UNPROVEN;
	ret->common[0] = 0; /* a submodule can be called worktrees/NAME */
	return GIT_LINK_PROVEN;
}
