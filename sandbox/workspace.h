#ifndef BAILIFF_SANDBOX_WORKSPACE_H
#define BAILIFF_SANDBOX_WORKSPACE_H

/*
 * Which tree a command is about: the nearest folder from the working directory up that holds .git, else the working
 * directory itself.
 *
 * Who looks: a caller that knows better says so (the command line does, it runs as the user); for others the runtime
 * looks itself, which may not be able to enter the caller's folders: then it is the working directory. What may be
 * written there is the kernel's to say, since the sandbox looks the path up as the caller.
 */

#include <limits.h>
#include <stdbool.h>

struct buf;
struct err;

struct workspace {
	char path[PATH_MAX]; /* "" = none: the private /tmp, or a folder of the system, which stays read-only */
	char cwd[PATH_MAX];  /* clean */
	bool has_git;        /* as far as could be seen */
};

/*
 * cwd NULL = not given: the private /tmp. given NULL = not given: look. home "" = unknown. The root, the home and what
 * holds it are refused: ERR_INVALID with a hint.
 */
int workspace_find(const char *cwd, const char *given, const char *home, struct workspace *ret, struct err *e);
/* The workspace and the folders above it, each with its NUL, up to what could not be one: the home, the root, the
 * system's folders. */
void workspace_above(const char *path, const char *home, struct buf *out);
/* For an empty one: where it goes. Never fails for a folder of the system, but moves aside to /workspace. */
int workspace_scratch(const char *cwd, struct workspace *ret, struct err *e);

#endif
