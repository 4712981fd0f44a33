#ifndef BAILIFF_SANDBOX_BECOME_PEER_H
#define BAILIFF_SANDBOX_BECOME_PEER_H

/*
 * Acting with the identity of a peer: for good, or only for looking at files. All of it uses raw system calls, because
 * glibc's wrappers signal every thread and the callers have one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * For good: takes on the ids and groups (if `switches`: the process has the privilege to), and gives up every
 * capability unless the peer is root. 0, or −1 with errno: some of it may have been done, so the caller must exit. The
 * change clears the parent-death signal.
 */
int become_peer(bool switches, uid_t uid, gid_t gid, const gid_t *groups, size_t ngroups);

/*
 * For a while: sets the groups and the ids that the kernel uses for file access. setfsuid and setfsgid do not report
 * failure, so the result is read back. 0; or −1 with errno: some of it may have been done, so call fsid_restore in any
 * case. The groups stay changed.
 */
int fsid_set(uid_t uid, gid_t gid, const gid_t *groups, size_t ngroups);
/* Back to the effective ids. −1 with errno: the process still acts as the peer and must not continue. */
int fsid_restore(void);

#endif
