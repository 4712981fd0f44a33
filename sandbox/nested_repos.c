#include "sandbox/nested_repos.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES_MAX 65536u

struct stop {
	char *path;     /* relative to the workspace; "" = the workspace itself */
	unsigned depth; /* for submodule directories: below .git/modules */
	bool modules;
};

struct repo_search {
	const char *workspace;
	int root;
	struct stop queue[NESTED_REPOS_FOLDERS];
	size_t count;
	size_t entries; /* read so far */
	size_t reported;
	bool partial; /* the list may be incomplete */
	void (*found)(void *ctx, const char *path);
	void *ctx;
};

static int open_below(int at, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
					   RESOLVE_NO_XDEV };
	return (int)syscall(SYS_openat2, at, path, &how, sizeof how);
}

/* Returns S_IFMT of the entry itself, or 0 if there is none. */
static mode_t type_at(struct repo_search *s, int at, const char *name)
{
	struct stat st;
	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0)
		return st.st_mode & S_IFMT;
	s->partial |= errno != ENOENT && errno != ENOTDIR;
	return 0;
}

static void enqueue_folder(struct repo_search *s, const struct stop *from, const char *name, unsigned depth,
			   bool modules)
{
	if (s->count == NESTED_REPOS_FOLDERS || strlen(from->path) + strlen(name) + 2 >= PATH_MAX) {
		s->partial = true;
		return;
	}
	s->queue[s->count++] = (struct stop){ mem_printf("%s%s%s", from->path, from->path[0] ? "/" : "", name), depth,
					      modules };
}

static void report_path(struct repo_search *s, const struct stop *at, const char *name)
{
	char path[2 * PATH_MAX];
	int n = snprintf(path, sizeof path, "%s%s%s%s%s", s->workspace, at->path[0] ? "/" : "", at->path,
			 name[0] ? "/" : "", name);
	if (s->reported == NESTED_REPOS_FOUND_MAX || n < 0 || n >= PATH_MAX - NAME_MAX) {
		s->partial = true;
		return;
	}
	s->reported++;
	s->found(s->ctx, path);
}

static void check_git(struct repo_search *s, const struct stop *at, int fd)
{
	mode_t type = type_at(s, fd, ".git");
	if (at->depth > 0 && (type == S_IFREG || type == S_IFDIR))
		report_path(s, at, ".git");
	if (type == S_IFDIR && type_at(s, fd, ".git/modules") == S_IFDIR)
		enqueue_folder(s, at, ".git/modules", 0, true);
}

static void check_entry(struct repo_search *s, const struct stop *at, int fd, const struct dirent *d)
{
	if (strcmp(d->d_name, ".git") == 0) {
		check_git(s, at, fd);
		return;
	}
	if ((d->d_type == DT_UNKNOWN ? type_at(s, fd, d->d_name) != S_IFDIR : d->d_type != DT_DIR) ||
	    strcmp(d->d_name, "node_modules") == 0)
		return;
	if (strcmp(d->d_name, ".bailiff") == 0) {
		if (at->depth > 0)
			report_path(s, at, d->d_name);
		return;
	}
	if (at->depth > 0 && strcmp(d->d_name, ".claude") == 0 && type_at(s, fd, ".claude/hooks") == S_IFDIR)
		report_path(s, at, d->d_name);
	if (at->depth < NESTED_REPOS_DEPTH)
		enqueue_folder(s, at, d->d_name, at->depth + 1, false);
}

/* Submodule names can contain slashes. A submodule is recognised by its config file and can have submodules itself. */
static bool check_module(struct repo_search *s, const struct stop *at, int fd)
{
	if (at->depth == 0 || type_at(s, fd, "config") != S_IFREG)
		return false;
	report_path(s, at, "");
	if (type_at(s, fd, "modules") == S_IFDIR)
		enqueue_folder(s, at, "modules", 0, true);
	return true;
}

/* Names that make a directory a repository for git, also without .git: a bare one, or one that a .git file names. */
static unsigned mark_of(const char *name)
{
	static const char *const names[] = { "HEAD", "objects", "refs" };
	for (unsigned i = 0; i < countof(names); i++) {
		if (strcmp(name, names[i]) == 0)
			return 1u << i;
	}
	return 0;
}

/*
 * What is in it is searched like everything else: a command could create these names around a nested repository, which
 * must still be found.
 */
static void check_bare(struct repo_search *s, const struct stop *at, int fd, unsigned marks)
{
	if (marks == 7 && type_at(s, fd, "objects") == S_IFDIR && type_at(s, fd, "refs") == S_IFDIR)
		report_path(s, at, "");
}

static void visit_folder(struct repo_search *s, const struct stop *at)
{
	fd_auto int fd = open_below(s->root, at->path[0] ? at->path : ".");
	s->partial |= fd < 0 && errno != EXDEV;
	if (fd < 0 || (at->modules && check_module(s, at, fd)))
		return;
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	const struct dirent *d = NULL;
	unsigned marks = 0;
	while (dir && s->entries < ENTRIES_MAX && (errno = 0, d = readdir(dir))) {
		s->entries++;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		marks |= mark_of(d->d_name);
		if (!at->modules)
			check_entry(s, at, fd, d);
		else if (at->depth < NESTED_REPOS_DEPTH && (d->d_type == DT_DIR || d->d_type == DT_UNKNOWN))
			enqueue_folder(s, at, d->d_name, at->depth + 1, true);
	}
	s->partial |= d || !dir || errno || s->entries == ENTRIES_MAX;
	if (!at->modules)
		check_bare(s, at, fd, marks);
	if (dir)
		closedir(dir);
	else
		fd_close(&own);
}

static int search_from(const char *root_path, const char *first, bool modules,
		       void (*found)(void *ctx, const char *path), void *ctx)
{
	fd_auto int root = open(root_path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	if (root < 0)
		return -1;
	struct repo_search *s = mem_zalloc(1, sizeof *s);
	*s = (struct repo_search){ .workspace = root_path, .root = root, .found = found, .ctx = ctx };
	if (!modules || type_at(s, root, first) == S_IFDIR)
		s->queue[s->count++] = (struct stop){ .path = mem_strdup(first), .modules = modules };
	for (size_t i = 0; i < s->count; i++)
		visit_folder(s, &s->queue[i]);
	for (size_t i = 0; i < s->count; i++)
		free(s->queue[i].path);
	bool partial = s->partial;
	free(s);
	return partial;
}

int nested_repos_find(const char *workspace, void (*found)(void *ctx, const char *path), void *ctx)
{
	return search_from(workspace, "", false, found, ctx);
}

int nested_repos_find_modules(const char *git_dir, void (*found)(void *ctx, const char *path), void *ctx)
{
	return search_from(git_dir, "modules", true, found, ctx);
}

/* ---- path strings ---- */

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool nested_repos_is_policy(const char *path) { return strcmp(last_name(path), ".bailiff") == 0; }

bool nested_repos_path(const char *nested, const char *relative, char ret[PATH_MAX])
{
	const char *name = last_name(nested);
	bool plain = strcmp(name, ".git") == 0 || strcmp(name, ".bailiff") == 0 || strcmp(name, ".claude") == 0;
	if (!plain || strstr(nested, NESTED_REPOS_MODULES "/"))
		name = ".git"; /* a submodule's directory, with a name of its own */
	size_t n = strlen(name);
	if (strncmp(relative, name, n) != 0 || (relative[n] && relative[n] != '/') ||
	    strlen(nested) + strlen(relative) >= PATH_MAX)
		return false;
	snprintf(ret, PATH_MAX, "%s%s", nested, relative + n);
	return true;
}
