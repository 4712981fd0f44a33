#ifndef BAILIFF_SANDBOX_DIRFD_PATH_H
#define BAILIFF_SANDBOX_DIRFD_PATH_H

/*
 * Finds the path of an object that a system call named relative to an open directory. The kernel's record has only the
 * directory's device and inode and the caller's command line: `cp file /etc/` opens /etc and creates a file relative to
 * that descriptor. So one of the words is often the directory's name; device and inode prove whether it is.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIRFD_PATH_TITLE 128 /* the part of a command line that the kernel records */

struct dirfd_path {
	uint64_t inode; /* 0 = unknown */
	uint32_t major, minor;
	size_t title_len;
	char title[DIRFD_PATH_TITLE]; /* words with a NUL each, except the last */
};

/* Whether this path has that device and inode. */
typedef bool dirfd_path_is_fn(const char *path, const struct dirfd_path *f);
/* Uses cached lookups only: never waits for a file system and never follows a link to another place. */
bool dirfd_path_is(const char *path, const struct dirfd_path *f);

/* Returns the absolute path of `entry` in the directory ("" = the directory itself); false if no word names it. */
bool dirfd_path_resolve(const struct dirfd_path *f, const char *cwd, const char *entry, dirfd_path_is_fn *is, char *ret,
			size_t cap);

#endif
