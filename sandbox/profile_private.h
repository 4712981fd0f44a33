#ifndef BAILIFF_SANDBOX_PROFILE_PRIVATE_H
#define BAILIFF_SANDBOX_PROFILE_PRIVATE_H

/* Shared by profile.c and profile_adjust.c. */

#include "sandbox/profile.h"

void profile_drop(struct profile *p, size_t i);
/* Replaces ~ and $WORKSPACE. Returns 1 if there is no home or workspace, so that the entry is dropped. */
int profile_expand_path(const char *path, const struct profile_paths *place, char ret[PATH_MAX], struct err *e);
/* Returns the entry that decides about a path; NULL = nothing of the host is visible there. */
const struct profile_entry *profile_decider(const struct profile *p, const char *path);

#endif
