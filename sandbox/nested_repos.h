#ifndef BAILIFF_SANDBOX_NESTED_REPOS_H
#define BAILIFF_SANDBOX_NESTED_REPOS_H

/*
 * Finds what is nested below a workspace and treated by outside programs like the workspace's own: repositories, and
 * directories with a policy or hooks.
 *
 * The search goes level by level, limited in depth and number of directories, so the nearest are found first. It stays
 * on the workspace's file system, since another one may hang, and never follows links. It reports the directories (or
 * files) themselves: DIR/.git, DIR/.bailiff, DIR/.claude; for submodules, whose .git is a file, its target:
 * DIR/.git/modules/NAME; and bare repositories: DIR, which can be the workspace itself.
 */

#include <limits.h>
#include <stdbool.h>

#define NESTED_REPOS_DEPTH 3u     /* directories between it and the workspace, including its own */
#define NESTED_REPOS_FOLDERS 256u /* that are searched */
#define NESTED_REPOS_FOUND_MAX 64u
#define NESTED_REPOS_MODULES "/.git/modules"
#define NESTED_REPOS_MAX 32u /* that fit into a plan */

/*
 * Returns 0; 1 if there may be more, because a limit was reached or a directory could not be read; or −1 with errno if
 * the workspace cannot be opened. Commands can cause the last two, so a path that is not reported may still exist.
 */
int nested_repos_find(const char *workspace, void (*found)(void *ctx, const char *path), void *ctx);
/* The same for the submodules of a git directory that is not in the workspace (sandbox/git_link.h): GITDIR/modules. */
int nested_repos_find_modules(const char *git_dir, void (*found)(void *ctx, const char *path), void *ctx);
/* Whether it is a policy directory. */
bool nested_repos_is_policy(const char *path);
/*
 * Applies a path that is protected in every write root (".git/hooks") to a nested one; false if it does not apply. It
 * only handles strings: a forged path can only add protection.
 */
bool nested_repos_path(const char *nested, const char *relative, char ret[PATH_MAX]);

#endif
