#ifndef BAILIFF_SANDBOX_WORKSPACE_H
#define BAILIFF_SANDBOX_WORKSPACE_H

/*
 * Finds the tree that a command works on: the nearest directory, from the working directory up, that contains .git,
 * else the working directory itself.
 *
 * A caller can pass the workspace (the command line does, since it runs as the user). Otherwise the runtime searches;
 * it may not have access to the caller's directories, and then the workspace is the working directory: it never
 * searches beyond one that it cannot examine. The kernel decides what can be written there, since the sandbox resolves
 * the path with the caller's identity.
 */

#include <limits.h>
#include <stdbool.h>

struct buf;
struct err;

struct workspace {
	char path[PATH_MAX]; /* "" = none: the private /tmp, or a system directory, which stays read-only */
	char cwd[PATH_MAX];  /* clean */
	bool has_git;        /* as far as it could be checked */
};

/*
 * cwd NULL: the private /tmp. given NULL: search. home "" = unknown. The root, the home and its parents are rejected:
 * ERR_INVALID with a hint.
 */
int workspace_find(const char *cwd, const char *given, const char *home, struct workspace *ret, struct err *e);
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
