#include "supervisor/spawner/cow.h"

#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SYNCED_ALONE 4u /* up to so many files are synced one by one */
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

int cow_open_folder(int dir, const char *name)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};
	int fd;
	do
		fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
	while (fd < 0 && errno == EAGAIN);
	return fd;
}

bool cow_whiteout(const struct stat *st) { return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0); }

int cow_open_upper(const struct cow_spot *s)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = openat(s->upper_dir, s->upper_name, flags);
	if (fd < 0 && errno == EACCES && S_ISREG(s->upper.st_mode) &&
	    fchmodat(s->upper_dir, s->upper_name, 0400, AT_SYMLINK_NOFOLLOW) == 0) {
		fd = openat(s->upper_dir, s->upper_name, flags);
		if (fchmodat(s->upper_dir, s->upper_name, s->upper.st_mode & 07777, AT_SYMLINK_NOFOLLOW) < 0)
			fd_close(&fd); /* a file that changed meanwhile must not be shown as the command's work */
	}
	return fd;
}

/* FUSE, for one, does not tell its server. */
bool cow_syncs_as_whole(int fd)
{
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0)
		return false;
	const unsigned long type = (unsigned long)fs.f_type;
	return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC || type == TMPFS_MAGIC;
}

int cow_sync(const int *fds, size_t n)
{
	if (n > SYNCED_ALONE && cow_syncs_as_whole(fds[0]))
		return syncfs(fds[0]);
	for (size_t i = 0; i < n; i++) {
		if (fsync(fds[i]) < 0)
			return -1;
	}
	return 0;
}
