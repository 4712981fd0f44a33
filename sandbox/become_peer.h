#ifndef BAILIFF_SANDBOX_BECOME_PEER_H
#define BAILIFF_SANDBOX_BECOME_PEER_H

/*
 * Acting with a peer's identity: permanently, or only for file access. All functions use raw system calls, because
 * glibc's wrappers signal every thread and the callers have only one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Permanent: assumes the ids and groups (if `switches`: the process has the privilege), and drops every capability
 * unless the peer is root. Returns 0, or −1 with errno: the change may be partial, so the caller must exit. The change
 * clears the parent-death signal.
 */
int become_peer(bool switches, uid_t uid, gid_t gid, const gid_t *groups, size_t ngroups);

/*
 * Temporary: sets the groups and the ids that the kernel uses for file access. setfsuid and setfsgid do not report
 * failure, so the result is read back. Returns 0, or −1 with errno: the change may be partial, so call fsid_restore in
 * any case. The groups stay changed.
 */
int fsid_set(uid_t uid, gid_t gid, const gid_t *groups, size_t ngroups);
/* Restores the effective ids. −1 with errno: the process still acts as the peer and must not continue. */
int fsid_restore(void);

#endif
