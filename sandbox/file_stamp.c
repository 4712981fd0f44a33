#include "sandbox/file_stamp.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

static int read_stamp(int at, const char *path, int flags, struct file_stamp *ret)
{
	struct statx x;
	if (statx(at, path, flags | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &x) < 0)
		return -1;
	*ret = (struct file_stamp){
		.dev = (uint64_t)x.stx_dev_major << 32 | x.stx_dev_minor,
		.ino = x.stx_ino,
		.size = x.stx_size,
		.changed_s = x.stx_ctime.tv_sec,
		.changed_ns = x.stx_ctime.tv_nsec,
		.modified_s = x.stx_mtime.tv_sec,
		.modified_ns = x.stx_mtime.tv_nsec,
	};
	return 0;
}

int file_stamp_get(int fd, struct file_stamp *ret) { return read_stamp(fd, "", AT_EMPTY_PATH, ret); }

struct file_stamp file_stamp_of_path(const char *path)
{
	struct file_stamp stamp = { 0 };
	read_stamp(AT_FDCWD, path, 0, &stamp);
	return stamp;
}

bool file_stamp_covers_names(int folder)
{
	struct statfs fs;
	if (fstatfs(folder, &fs) < 0)
		return false;
	return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC ||
	       fs.f_type == TMPFS_MAGIC;
}

bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b) { return memcmp(a, b, sizeof *a) == 0; }
