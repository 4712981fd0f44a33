#include "sandbox/become_peer.h"

#include "sandbox/capability.h"

#include <errno.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

int become_peer(bool switches, uid_t uid, gid_t gid, const gid_t *groups, size_t ngroups)
{
	if (switches && (syscall(SYS_setgroups, ngroups, groups) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
			 syscall(SYS_setresuid, uid, uid, uid) < 0))
		return -1;
	return uid == 0 ? 0 : capability_clear();
}

static int set_fsids(uid_t uid, gid_t gid)
{
	setfsgid(gid);
	setfsuid(uid);
	if ((uid_t)setfsuid((uid_t)-1) == uid && (gid_t)setfsgid((gid_t)-1) == gid)
		return 0;
	errno = EPERM;
	return -1;
}

int fsid_set(uid_t uid, gid_t gid, const gid_t *groups, size_t ngroups)
{
	return syscall(SYS_setgroups, ngroups, groups) < 0 ? -1 : set_fsids(uid, gid);
}

int fsid_restore(void) { return set_fsids(geteuid(), getegid()); }
