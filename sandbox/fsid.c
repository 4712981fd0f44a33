#include "sandbox/fsid.h"

#include <errno.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static int set(uid_t uid, gid_t gid)
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
	return syscall(SYS_setgroups, ngroups, groups) < 0 ? -1 : set(uid, gid);
}

int fsid_restore(void) { return set(geteuid(), getegid()); }
