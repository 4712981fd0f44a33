#ifndef BAILIFF_SANDBOX_DIRFD_PATH_H
#define BAILIFF_SANDBOX_DIRFD_PATH_H

/*
 * Where something is that a call named from an open folder on. The kernel tells of what was meant only its number
 * (device and inode), and the command line of who called: `cp file /etc/` opens /etc and makes a file in what is open.
 * So one of the words is often the folder's name, and whether it is, its number proves.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIRFD_PATH_TITLE 128 /* as much of a command line as the kernel tells */

struct dirfd_path {
	uint64_t inode; /* 0 = not known */
	uint32_t major, minor;
	size_t title_len;
	char title[DIRFD_PATH_TITLE]; /* words, each with its NUL, but for the last */
};

/* Whether this path has that number. */
typedef bool dirfd_path_is_fn(const char *path, const struct dirfd_path *f);
/* By what the kernel has at hand: never waits for a file system, and goes to no other place than the path's. */
bool dirfd_path_is(const char *path, const struct dirfd_path *f);

/* The absolute path of `entry` in the folder ("" = the folder itself); false if no word is its name. */
bool dirfd_path_resolve(const struct dirfd_path *f, const char *cwd, const char *entry, dirfd_path_is_fn *is, char *ret,
			size_t cap);

#endif
