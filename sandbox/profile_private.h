#ifndef BAILIFF_SANDBOX_PROFILE_PRIVATE_H
#define BAILIFF_SANDBOX_PROFILE_PRIVATE_H

/* Between profile.c and profile_adjust.c. */

#include "sandbox/profile.h"

void profile_drop(struct profile *p, size_t i);
/* ~ and $WORKSPACE become paths. 1 = there is no such place, and so nothing of it. */
int profile_expand_path(const char *path, const struct profile_paths *place, char ret[PATH_MAX], struct err *e);
/* The entry that decides about a path; NULL = nothing of the host is seen there. */
const struct profile_entry *profile_decider(const struct profile *p, const char *path);

#endif
