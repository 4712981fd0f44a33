#include "supervisor/spawner/cow.h"

#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

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
