#ifndef BAILIFF_SANDBOX_GIT_LINK_H
#define BAILIFF_SANDBOX_GIT_LINK_H

/*
 * Finds the git directory of a workspace whose .git is a file: a linked worktree (MAIN/.git/worktrees/NAME) or a
 * submodule (SUPER/.git/modules/NAME). Git cannot work without these directories, so the sandbox shows them.
 *
 * Threat model. A command can write any text into its workspace, and a downloaded tree can contain any .git file. So
 * the file proves nothing; it only says where to search. Access is given only to a directory that names the workspace
 * in return, in a file that commands of this workspace could not write before:
 *
 * - linked worktree: COMMON/worktrees/NAME/gitdir names WORKSPACE/.git, and its commondir names COMMON;
 * - submodule: core.worktree in GITDIR/config names WORKSPACE, and the repository in whose `modules` directory GITDIR
 * is has a working tree that contains WORKSPACE.
 *
 * A process that can write these files could already write the directory that is shared, so nothing is gained beyond
 * what its owner delegates. A sandbox cannot delegate further: in a sandbox with access to COMMON, COMMON/worktrees is
 * read-only except for its own NAME, where gitdir and commondir are read-only; and a submodule's working tree must be
 * inside a tree that commands with access to GITDIR can write anyway. Commands in MAIN itself can register worktrees
 * (`git worktree add`), also for a directory that they cannot write; that directory's .git file must name MAIN, too,
 * and it gets access to MAIN/.git only.
 *
 * - No component of any of these paths may be a link, neither here nor when the sandbox mounts them (step_trees.c:
 *   write roots are never resolved through links), so nothing can be redirected between the check and the mount.
 * - Everything must belong to the user, and be a git directory by git's own criteria, with nothing else in it: commands
 *   in a workspace could create git's names in a directory of it that contains protected paths, such as a nested
 *   repository, and get access to that directory from a worktree in another one, where these are not protected.
 * - COMMON must not contain the workspace: that would make other working trees writable.
 * - The path may be chosen by a command in order to have it looked up outside of the sandbox: on an automounter, or a
 *   FUSE or network file system, a name could reach another machine. Those are not entered, unless the workspace is on
 *   the same file system.
 * - A path that is not accepted is reported without a reason: it must not reveal what exists in a hidden directory.
 */

#include <limits.h>

enum git_link_result {
	GIT_LINK_NONE,     /* .git is a directory or missing, or what it names is in the workspace */
	GIT_LINK_PROVEN,   /* `dir`, and for a linked worktree `common` */
	GIT_LINK_UNPROVEN, /* `dir` or `common` is what a person would have to allow */
};

struct git_link {
	char dir[PATH_MAX];    /* the git directory that .git names; clean */
	char common[PATH_MAX]; /* the main repository's, of a linked worktree; "" = none */
};

/* With the rights and the effective uid of the calling process. */
enum git_link_result git_link_find(const char *workspace, struct git_link *ret);

#endif
