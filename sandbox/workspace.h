#ifndef BAILIFF_SANDBOX_WORKSPACE_H
#define BAILIFF_SANDBOX_WORKSPACE_H

/*
 * Finds the tree that a command works on: the nearest directory, from the working directory up, that contains .git,
 * else the working directory itself.
 *
 * A caller can pass the workspace (the command line does, since it runs as the user). Otherwise it is searched for,
 * with the caller's identity and never beyond a directory that cannot be examined. The kernel decides what can be
 * written there, since the sandbox resolves the path with the caller's identity.
 *
 * A file system may never answer. So the runtime's event loop uses only what the kernel has cached, and a process of
 * the caller's (supervisor/spawner/peer_files.h) searches if that is not enough.
 */

#include <limits.h>
#include <stdbool.h>

struct buf;
struct err;

struct workspace {
	char path[PATH_MAX]; /* "" = none: the private /tmp, or a system directory, which stays read-only */
	char cwd[PATH_MAX];  /* clean */
	bool has_git;        /* as far as it was searched */
};

/*
 * The nearest directory with .git, from this one (clean) up; "" = none that can be a workspace. home "" = unknown.
 * `cached`: does not wait for a file system; 1 = what is cached does not tell.
 */
int workspace_search(const char *folder, const char *home, bool cached, char ret[PATH_MAX]);
/* Whether this .git makes its directory a workspace; −1 = what is cached does not tell. */
int workspace_git_cached(int at, const char *name);
/*
 * cwd NULL: the private /tmp. `git`: what workspace_search found for cwd or for `given`; "" = nothing. given NULL: the
 * workspace is `git` or cwd. The root, the home and its parents are rejected: ERR_INVALID with a hint.
 */
int workspace_find(const char *cwd, const char *given, const char *home, const char *git, struct workspace *ret,
		   struct err *e);
/* Whether the directory may be made writable without a person having named it. */
bool workspace_is_usable(const char *path, const char *home);
/*
 * Appends the workspace and its parent directories, NUL-terminated, up to one that cannot be a workspace: the home, the
 * root, system directories.
 */
void workspace_above(const char *path, const char *home, struct buf *out);
/* For an empty workspace: chooses its path. Never fails for a system directory, but uses /workspace instead. */
int workspace_scratch(const char *cwd, struct workspace *ret, struct err *e);

#endif
