#ifndef BAILIFF_TESTS_SIM_DISK_H
#define BAILIFF_TESTS_SIM_DISK_H

/*
 * The disk of the simulated runtime: it may fail or be full for some writes, and the runtime may die by SIGKILL at one.
 * The directory is in memory, so syncs are not needed: written data survives a kill. When the countdown ends,
 * the write happens in part (up to a boundary of a page, where a kill can interrupt it) or not at all, and the
 * directories are copied: that is what the next runtime finds. The killed one continues in the original, without
 * visible effects, until it is closed and removed.
 */

#include "tests/crash/sim_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define DISK_PAGE 4096u

static struct {
	unsigned countdown; /* writes until the kill; 0 = none is planned */
	bool copied;        /* the runtime was killed */
	bool may_fail;      /* not with SIM_DISK=0 */
	unsigned failing;   /* so many writes and syncs of the store's threads fail … */
	int error;          /* … with this */
	char store[96], spool[96], store_copy[96], spool_copy[96];
} disk;

/* ---- copies ---- */

static void disk_copy_file(int from_dir, int to_dir, const char *name)
{
	static char space[1 << 16];
	const int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC),
		  to = openat(to_dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ssize_t n;

	if (from < 0 || to < 0)
		abort();
	while ((n = read(from, space, sizeof space)) > 0)
		if (write(to, space, (size_t)n) != n)
			abort();
	close(from);
	close(to);
}

/* Without lock files, which belong to the process, and without directories, which only contain temporary files. */
static void disk_copy_dir(const char *from, const char *to)
{
	DIR *d = opendir(from);
	const int to_dir = mkdir(to, 0700) == 0 ? open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (!d || to_dir < 0)
		abort();
	for (const struct dirent *entry; (entry = readdir(d));)
		if (entry->d_type == DT_REG && strncmp(entry->d_name, "lock", 4) != 0)
			disk_copy_file(dirfd(d), to_dir, entry->d_name);
	closedir(d);
	close(to_dir);
}

static void disk_copy(void)
{
	disk.countdown = 0;
	disk.copied = true;
	disk_copy_dir(disk.store, disk.store_copy);
	disk_copy_dir(disk.spool, disk.spool_copy);
}

static int disk_remove_entry(const char *path, const struct stat *st, int type, struct FTW *at) { return remove(path); }

static void disk_remove(const char *dir) { nftw(dir, disk_remove_entry, 8, FTW_DEPTH | FTW_PHYS); }

/* ---- replaced functions of libc ---- */

/* Whether the runtime is killed at this write. */
static bool disk_is_last(void) { return disk.countdown && threads.current != 0 && --disk.countdown == 0; }

static bool disk_fails(void)
{
	if (!disk.failing || threads.current == 0)
		return false;
	disk.failing--;
	errno = disk.error;
	return true;
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t offset)
{
	if (disk_fails())
		return -1;
	if (disk_is_last()) {
		const size_t first = DISK_PAGE - (size_t)offset % DISK_PAGE,
			     pages = n > first ? (n - first) / DISK_PAGE + 1 : 0,
			     whole = splitmix64(&threads.seed) % (pages + 1),
			     before = whole ? first + (whole - 1) * DISK_PAGE : 0;

		if (before && syscall(SYS_pwrite64, fd, p, before, offset) != (ssize_t)before)
			abort();
		disk_copy();
	}
	return syscall(SYS_pwrite64, fd, p, n, offset);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off_t offset) { return pwrite(fd, p, n, offset); }

/* LMDB writes adjacent pages with it, after lseek. */
ssize_t writev(int fd, const struct iovec *parts, int n)
{
	if (disk_fails())
		return -1;
	if (disk_is_last())
		disk_copy();
	return syscall(SYS_writev, fd, parts, n);
}

int fdatasync(int fd) { return disk_fails() ? -1 : 0; }
int fsync(int fd) { return disk_fails() ? -1 : 0; }

#endif
