/*
 * Symbolic links, while rules about files are in effect. A rule is matched against the path as the call spells it,
 * before anything is opened, so a link would lead to a file that the rule was never asked about. The engine then starts
 * the tool with BAILIFF_FILE_LINKS=refuse (process_environment.c), and a path with a link in any component is an error
 * that names the link and where it leads: a call with that path is decided by the rules again.
 *
 * The path is made absolute as for the rules, and each component is opened in the one before, without following it. So
 * it does not matter if other processes replace a directory by a link meanwhile. (openat2 does this at once, but
 * commands in a sandbox cannot use it: docs/syscalls.md.)
 */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool tool_links_refused(void)
{
	const char *how = getenv("BAILIFF_FILE_LINKS");

	return how && strcmp(how, "refuse") == 0;
}

/* One component; ELOOP: it is a link. With O_NOFOLLOW and O_PATH it may be one. */
static int open_component(int at, const char *name, int flags, mode_t mode)
{
	fd_auto int fd = openat(at, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
	const bool own = flags & O_PATH && flags & O_NOFOLLOW;
	struct stat st;

	/* With O_DIRECTORY the kernel says ENOTDIR for a link. */
	if (fd < 0 && errno == ENOTDIR && fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		errno = S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
	if (fd < 0 || !(flags & O_PATH) || own)
		return fd_take(&fd);
	if (fstat(fd, &st) < 0)
		return -1;
	if (!S_ISLNK(st.st_mode))
		return fd_take(&fd);
	errno = ELOOP;
	return -1;
}

/* Makes a path absolute, and removes . and .. like the engine does before it asks the rules. */
static int absolute_path(const char *path, char ret[PATH_MAX])
{
	char cwd[PATH_MAX] = "", whole[2 * PATH_MAX];
	struct err e = ERR_INIT;

	if (*path != '/' && !getcwd(cwd, sizeof cwd))
		return -1;
	errno = *path ? ENAMETOOLONG : ENOENT;
	if (!*path || snprintf(whole, sizeof whole, "%s/%s", cwd, path) >= (int)sizeof whole)
		return -1;
	return path_clean(whole, ret, &e);
}

static int open_path(const char *path, int flags, mode_t mode)
{
	fd_auto int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char whole[PATH_MAX], *name = whole + 1, *slash;

	if (at < 0 || absolute_path(path, whole) < 0)
		return -1;
	for (; (slash = strchr(name, '/')); name = slash + 1) {
		*slash = '\0';
		const int next = open_component(at, name, O_PATH | O_DIRECTORY, 0);
		if (next < 0)
			return -1;
		fd_close(&at);
		at = next;
	}
	return open_component(at, *name ? name : ".", flags, mode);
}

int tool_links_open(int at, const char *path, int flags, mode_t mode)
{
	if (!tool_links_refused())
		return openat(at, path, flags | O_CLOEXEC, mode);
	return at == AT_FDCWD ? open_path(path, flags, mode) : open_component(at, path, flags, mode);
}

/* The shortest part of the path that is a link; false: there is none. */
static bool find_link(const char *path, char ret[PATH_MAX])
{
	struct stat st;

	if (snprintf(ret, PATH_MAX, "%s", path) >= PATH_MAX)
		return false;
	for (char *p = ret + 1;; *p++ = '/') {
		const size_t n = strcspn(p, "/");
		const bool last = !p[n];

		p += n;
		*p = '\0';
		if (lstat(ret, &st) == 0 && S_ISLNK(st.st_mode))
			return true;
		if (last)
			return false;
	}
}

int tool_links_explain(struct err *e, const char *path)
{
	char link[PATH_MAX], real[PATH_MAX];

	if (errno != ELOOP || !tool_links_refused() || !find_link(path, link))
		return 0;
	if (!realpath(path, real))
		return err_set(e, ERR_PERMISSION, "'%.150s' is a symbolic link, and rules about files are in effect",
			       link);
	return err_set(e, ERR_PERMISSION,
		       "'%.120s' is a symbolic link, and rules about files apply to the file that it leads to: name "
		       "'%.150s' instead",
		       link, real);
}

int tool_links_check(const char *path, bool own, struct err *e)
{
	fd_auto int fd = tool_links_refused() ? tool_links_open(AT_FDCWD, path, O_PATH | (own ? O_NOFOLLOW : 0), 0)
					      : -1;

	if (fd >= 0 || !tool_links_refused() || errno == ENOENT || errno == ENOTDIR)
		return 0; /* what is missing fails, or is created, with an error of its own */
	return tool_links_explain(e, path) < 0 ? -1 : err_sys(e, errno, "'%.200s'", path);
}

int tool_links_resolve(const char *path, char ret[PATH_MAX])
{
	char name[64];

	if (!tool_links_refused())
		return realpath(path, ret) ? 0 : -1;
	/* Without links the kernel's name of what was opened is the path itself, made absolute. */
	fd_auto int fd = tool_links_open(AT_FDCWD, path, O_PATH, 0);
	if (fd < 0)
		return -1;
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(name, ret, PATH_MAX - 1);
	if (n < 0)
		return -1;
	ret[n] = '\0';
	return 0;
}

int tool_links_folder(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	*ret_name = slash ? slash + 1 : path;
	if (!slash || slash == path)
		return open(slash ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if ((size_t)(slash - path) >= sizeof folder) {
		errno = ENAMETOOLONG;
		return -1;
	}
	snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
	return tool_links_open(AT_FDCWD, folder, O_PATH | O_DIRECTORY, 0);
}
