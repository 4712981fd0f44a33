/* Denials that occur in normal operation. */

#include "sandbox/violation.h"

#include "runtime/base/mem.h"

#include <errno.h>
#include <string.h>

/* Whether the path ends with `end`, after a slash. */
static bool ends_with(const char *path, const char *end)
{
	size_t n = strlen(path), k = strlen(end);
	return n > k && path[n - k - 1] == '/' && strcmp(path + n - k, end) == 0;
}

/* /proc/<number>/…: ps, top and lsof read other users' processes. */
static bool is_others_proc(const char *path)
{
	return strncmp(path, "/proc/", 6) == 0 && path[6] >= '0' && path[6] <= '9';
}

/* Python stores compiled modules next to their sources if it can, and works without. */
static bool is_python_cache(const char *path)
{
	return strstr(path, "/__pycache__/") || ends_with(path, "__pycache__");
}

/* cargo locks its package cache if it can, and builds without the lock. */
static bool is_cargo_lock(const struct violation *v)
{
	return strcmp(v->comm, "cargo") == 0 && strcmp(v->operation, "create") == 0 && v->directory &&
	       ends_with(v->path, ".cargo");
}

/*
 * When git deletes a file in its git directory (git stash: index.stash.PID), it also removes the folders around it that
 * are empty. So it tries .git, or the folder of a linked worktree or submodule, which never are. A submodule's name can
 * have slashes.
 */
static bool is_git_folder(const struct violation *v)
{
	if (strcmp(v->comm, "git") != 0 || strcmp(v->syscall, "rmdir") != 0)
		return false;
	if (!v->directory)
		return v->error == EBUSY && ends_with(v->path, ".git");
	return ends_with(v->path, "worktrees") || ends_with(v->path, ".git/modules") ||
	       strstr(v->path, "/.git/modules/");
}

bool violation_is_benign(const struct violation *v)
{
	/* Files that shells and tools read at start if they can. */
	static const char *const start_files[] = {
		".bashrc",
		".bash_profile",
		".bash_login",
		".bash_logout",
		".bash_history",
		".profile",
		".inputrc",
		".zshrc",
		".zshenv",
		".zprofile",
		".gitconfig",
		".config/git/config",
		".config/git/attributes",
		".config/git/ignore",
		".terminfo",
		".npmrc",
		".curlrc",
		".wgetrc",
		".vimrc",
		".pythonrc",
		".gdbinit",
		".config/gdb/gdbinit",
		".pip/pip.conf",
		".config/pip/pip.conf",
	};
	bool reads = strcmp(v->operation, "read") == 0;
	if (strcmp(v->kind, "filesystem") != 0)
		return false;
	if (reads && is_others_proc(v->path))
		return true;
	for (size_t i = 0; reads && i < countof(start_files); i++) {
		if (ends_with(v->path, start_files[i]))
			return true;
	}
	if ((strcmp(v->operation, "create") == 0 || strcmp(v->operation, "write") == 0) && is_python_cache(v->path))
		return true;
	if (is_cargo_lock(v) || is_git_folder(v))
		return true;
	/* chown requires root everywhere; cp -a and tar try it and continue. A read-only tree returns EROFS instead. */
	return v->error == EPERM && strstr(v->syscall, "chown");
}
