#ifndef BAILIFF_SANDBOX_FSID_H
#define BAILIFF_SANDBOX_FSID_H

/*
 * Looking at files as somebody else, for a while. The kernel's calls never say that they did nothing: what they did is
 * read back, and whoever cannot come back to himself must not go on.
 */

#include <stddef.h>
#include <sys/types.h>

/* 0; −1 with errno: some of it may have been taken, so come back in any case. The groups stay what they become here. */
int fsid_set(uid_t uid, gid_t gid, const gid_t *groups, size_t ngroups);
/* What the effective ids say again. */
int fsid_restore(void);

#endif
