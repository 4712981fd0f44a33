/*
 * Adds the git directory of a linked worktree or submodule, which is outside of the workspace, to a profile: writable
 * as far as the workspace is, with the same protection as a workspace's own .git. What is accepted as such a directory,
 * and why, is in sandbox/git_link.h.
 *
 * The protected paths become absolute here, before a request's changes are applied, so a request cannot keep one of
 * them writable by making the directory around it read-only.
 */

#include "sandbox/profile_private.h"

#include "runtime/base/path.h"
#include "sandbox/root_paths.h"
#include "sandbox/workspace.h"

#include <stdio.h>
#include <string.h>

#define GIT ".git/"

/* Like a workspace: not the home, a system directory or bailiff's own; and what root may write without being asked. */
static bool is_usable(const struct profile_paths *place, const char *path)
{
	bool roots = root_path_is_home(path) || root_path_is_system(path);
	if (!workspace_is_usable(path, place->home) || (place->root && roots && !root_path_is_home(place->workspace)))
		return false;
	for (size_t i = 0; i < place->nfolders; i++)
		if (path_within(path, place->folders[i]) ||
		    (path_within(place->folders[i], path) && !path_within(place->folders[i], place->workspace)))
			return false;
	return true;
}

static int protect_path(struct profile *p, const char *folder, const char *name, uint32_t flags, struct err *e)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return profile_add(p, PLAN_MOUNT_PROTECT, flags, path, e);
}

/* A linked worktree's own part has neither hooks nor config: there they may be missing. */
static int protect_names(struct profile *p, char what, const char *folder, struct err *e)
{
	size_t before = p->count;

	for (size_t i = 0; i < before; i++) {
		const struct profile_entry *en = &p->entry[i];
		uint32_t flags = what == PROFILE_GIT_WORKTREE ? PLAN_MOUNT_OPTIONAL : en->flags;

		if (en->kind == PLAN_MOUNT_PROTECT && strncmp(en->path, GIT, sizeof GIT - 1) == 0 &&
		    protect_path(p, folder, en->path + sizeof GIT - 1, flags, e) < 0)
			return -1;
	}
	/* The directory may have been removed since it was found; then nothing is left to protect. */
	if (what == PROFILE_GIT_WORKTREE)
		return protect_path(p, folder, "gitdir", PLAN_MOUNT_IN_PARENT, e) < 0
			       ? -1
			       : protect_path(p, folder, "commondir", PLAN_MOUNT_IN_PARENT, e);
	if (what == PROFILE_GIT_COMMON)
		return protect_path(p, folder, "worktrees", PLAN_MOUNT_IN_PARENT, e) < 0
			       ? -1
			       : protect_path(p, folder, "modules", PLAN_MOUNT_OPTIONAL, e);
	return 0;
}

int profile_add_git(struct profile *p, const struct profile_paths *place, const char **ret_left_out, struct err *e)
{
	const struct profile_entry *tree = place->workspace[0] ? profile_decider(p, place->workspace) : NULL;
	uint32_t kind = tree && strcmp(tree->path, place->workspace) == 0 ? tree->kind : 0;

	*ret_left_out = NULL;
	if (kind != PLAN_MOUNT_WRITE && kind != PLAN_MOUNT_READ)
		return 0;
	for
		PROFILE_EACH_GIT(s, place)
		{
			if (s[0] != PROFILE_GIT_UNPROVEN && is_usable(place, s + 1))
				continue;
			*ret_left_out = s + 1;
			return 0;
		}
	for
		PROFILE_EACH_GIT(s, place)
		{
			/* An optional read root is resolved through links, which must not happen here. */
			uint32_t flags = PLAN_MOUNT_OWNED | (kind == PLAN_MOUNT_WRITE ? PLAN_MOUNT_OPTIONAL : 0);

			if (profile_add(p, kind, flags, s + 1, e) < 0 ||
			    (kind == PLAN_MOUNT_WRITE && protect_names(p, s[0], s + 1, e) < 0))
				return -1;
		}
	return 0;
}
