#ifndef BAILIFF_SANDBOX_NESTED_REPOS_H
#define BAILIFF_SANDBOX_NESTED_REPOS_H

/*
 * What lies below a workspace and is acted on outside like the workspace's own: repositories, and folders with a policy
 * or hooks.
 *
 * Looked for level by level, not too deep and not in too many folders, so the nearest are found first; only on the file
 * system that the workspace is on, since another may never answer; and never through links. What is told are the
 * folders (or files) themselves: DIR/.git, DIR/.bailiff, DIR/.claude, and of submodules, whose .git is a file, what it
 * leads to: DIR/.git/modules/NAME.
 */

#include <limits.h>
#include <stdbool.h>

#define NESTED_REPOS_DEPTH 3u     /* folders between it and the workspace, its own included */
#define NESTED_REPOS_FOLDERS 256u /* that are looked into */
#define NESTED_REPOS_FOUND_MAX 64u
#define NESTED_REPOS_MODULES "/.git/modules"
#define NESTED_REPOS_MAX 32u /* that a plan has room for */

/*
 * 0; 1 = there may be more: it was too much, or a folder could not be read; −1 with errno: the workspace cannot be
 * opened. Commands can bring about both of the latter, so what is not told then is not gone.
 */
int nested_repos_find(const char *workspace, void (*found)(void *ctx, const char *path), void *ctx);
/* It is a policy's folder. */
bool nested_repos_is_policy(const char *path);
/*
 * What a path that is protected in every write root (".git/hooks") is in this nested one; false = nothing. Only texts:
 * whoever made them up can but have more protected.
 */
bool nested_repos_path(const char *nested, const char *relative, char ret[PATH_MAX]);

#endif
