#ifndef BAILIFF_SANDBOX_PROFILE_PRIVATE_H
#define BAILIFF_SANDBOX_PROFILE_PRIVATE_H

/* Shared by profile.c, profile_adjust.c, profile_git.c and profile_lists.c. */

#include "sandbox/profile.h"

void profile_drop(struct profile *p, size_t i);
/* Drops what shows the host's files at the path or below it, except what holds the workspace. */
void profile_drop_shown(struct profile *p, const struct profile_paths *place, const char *path);
/* Replaces ~ and $WORKSPACE. Returns 1 if there is no home or workspace, so that the entry is dropped. */
int profile_expand_path(const char *path, const struct profile_paths *place, char ret[PATH_MAX], struct err *e);
/* Returns the entry that decides about a path; NULL = nothing of the host is visible there. */
const struct profile_entry *profile_decider(const struct profile *p, const char *path);

/* Iterates over place->git: a letter and a path each. */
#define PROFILE_EACH_GIT(s, place) \
	(const char *s = (place)->git, *end_ = s ? s + (place)->git_len : NULL; s < end_; s += strlen(s) + 1)

/* Whether it is, or is within, a directory that the workspace's .git file leads to. */
bool profile_is_git(const struct profile_paths *place, const char *path, bool within);

#endif
