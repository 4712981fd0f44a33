#ifndef BAILIFF_SANDBOX_FILE_STAMP_H
#define BAILIFF_SANDBOX_FILE_STAMP_H

/*
 * Identity and times of a file: another file, or the same one after a change, has another stamp. Stamps are read with
 * AT_STATX_DONT_SYNC, so that a network file system that does not answer cannot block the caller. They are compared as
 * bytes and are sent between processes.
 */

#include <stdbool.h>
#include <stdint.h>

struct file_stamp {
	uint64_t dev, ino, size;
	int64_t changed_s, modified_s;
	uint32_t changed_ns, modified_ns;
};

/* 0, or −1 with errno. */
int file_stamp_get(int fd, struct file_stamp *ret);
/* All zeroes if there is no such file. */
struct file_stamp file_stamp_of_path(const char *path);
/*
 * Whether the file system changes a folder's ctime with every name in it, and no other machine changes it: while ctime
 * is the same, so are the names. Asks the file system, which may never answer: the spawner uses local_fs.h.
 */
bool file_stamp_covers_names(int folder);
bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b);

#endif
