#include "sandbox/cow_layout.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* On an overlay a directory of a lower layer gets another creation time when the first change copies it up. */
static bool keeps_creation_time(const struct statx *x, const struct statfs *fs)
{
	return x->stx_mask & STATX_BTIME && fs->f_type != OVERLAYFS_SUPER_MAGIC;
}

int cow_root_identify(int fd, struct cow_root *r)
{
	struct stat st;
	struct statx x;
	struct statfs fs;
	if (fstat(fd, &st) < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &x) < 0 || fstatfs(fd, &fs) < 0)
		return -1;
	r->device = st.st_dev;
	r->inode = st.st_ino;
	r->created_s = keeps_creation_time(&x, &fs) ? x.stx_btime.tv_sec : 0;
	r->created_ns = keeps_creation_time(&x, &fs) ? x.stx_btime.tv_nsec : 0;
	return 0;
}

bool cow_root_is(const struct cow_root *recorded, int fd)
{
	struct cow_root now;
	if (cow_root_identify(fd, &now) < 0 || now.device != recorded->device || now.inode != recorded->inode)
		return false;
	if (!recorded->created_s && !recorded->created_ns)
		return true;
	return now.created_s == recorded->created_s && now.created_ns == recorded->created_ns;
}
