/*
 * Preloaded into the daemon by tests/prove/power_cut.py: records what is written to files, in order.
 *
 * $BAILIFF_TEST_RECORD is a file that all processes of the daemon map when they start. Each call that changes a file or
 * a directory on the file system of the recorded home, and each sync, is performed and appended to it under one lock,
 * so that the order of the records is the order of the effects. recorder_mark, which the client calls when it has
 * received a reply, gives the position of an acknowledgement in the same order. power_states.c reads the record.
 *
 * Data belongs to inodes and names to directories, as on a disk; files are never identified by their path. What is not
 * recorded (writes through a mapping, system calls made without the C library's wrapper) is noticed: power_states
 * compares the end of the record with the files.
 */
#include "tests/prove/recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static struct recorder_log *the_log;

#define REAL(name)                     \
	static __typeof__(name) *real; \
	if (!real)                     \
	real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static void die(const char *why)
{
	(void)!write(STDERR_FILENO, why, strlen(why));
	abort();
}

void recorder_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return;
	void *at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		die("recorder: cannot map the record\n");
	the_log = at;
}

__attribute__((constructor)) static void map_record(void)
{
	const char *path = getenv("BAILIFF_TEST_RECORD");

	if (path)
		recorder_map(path);
}

/* ---- the record ---- */

static void lock_record(void)
{
	for (unsigned long n = 0; atomic_exchange(&the_log->lock, 1); n++) {
		if (n > 200000000ul)
			die("recorder: the holder of the lock is gone\n");
		sched_yield();
	}
}

static void unlock_record(void) { atomic_store(&the_log->lock, 0); }

/* With the lock held. `data` NULL: zeroes are not stored. */
static void append(struct record r, const char *name, const char *name2, const void *data)
{
	size_t n = name ? strlen(name) + 1 : 0, n2 = name2 ? strlen(name2) + 1 : 0, d = data ? r.length : 0;
	size_t size = (sizeof r + n + n2 + d + 7) & ~(size_t)7;
	char *at = (char *)the_log + sizeof *the_log + the_log->tail;

	if (sizeof *the_log + the_log->tail + size > the_log->size)
		die("recorder: the record is full\n");
	r.size = (uint32_t)size;
	r.names = (uint16_t)(n + n2);
	r.name2 = (uint16_t)n;
	r.has_data = data != NULL;
	memcpy(at, &r, sizeof r);
	at += sizeof r;
	if (n)
		memcpy(at, name, n);
	if (n2)
		memcpy(at + n, name2, n2);
	if (d)
		memcpy(at + n + n2, data, d);
	the_log->tail += size;
	the_log->count++;
}

uint64_t recorder_mark(void)
{
	lock_record();
	uint64_t count = the_log->count;
	unlock_record();
	return count;
}

/* A regular file or directory of the recorded file system. */
static bool is_recorded(int fd, struct stat *st)
{
	int saved = errno;
	bool yes = the_log && fstat(fd, st) == 0 && st->st_dev == the_log->device &&
		   (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode));

	errno = saved;
	return yes;
}

/* Resolves a path to its directory, if that is on the recorded file system, and the last name. */
struct spot {
	bool recorded, exists;
	uint64_t dir;
	char name[256];
	struct stat st;
};

static struct spot find_spot(int at, const char *path)
{
	struct spot s = { 0 };
	int saved = errno;
	const char *slash;
	char parent[PATH_MAX];
	size_t len;
	struct stat st;

	if (!the_log || !path || (len = strlen(path)) == 0 || len >= sizeof parent)
		return s;
	memcpy(parent, path, len + 1);
	while (len > 1 && parent[len - 1] == '/')
		parent[--len] = '\0';
	slash = strrchr(parent, '/');
	snprintf(s.name, sizeof s.name, "%.255s", slash ? slash + 1 : parent);
	if (!slash)
		memcpy(parent, ".", 2);
	else
		parent[slash == parent ? 1 : slash - parent] = '\0';
	if (fstatat(at, parent, &st, 0) == 0 && st.st_dev == the_log->device) {
		s.recorded = true;
		s.dir = st.st_ino;
		s.exists = fstatat(at, path, &s.st, AT_SYMLINK_NOFOLLOW) == 0;
	}
	errno = saved;
	return s;
}

static void append_created(const struct spot *s, const struct stat *st)
{
	append((struct record){ .kind = RECORD_CREATE, .inode = st->st_ino, .dir = s->dir, .mode = st->st_mode },
	       s->name, NULL, NULL);
}

/* Bytes that are in the file already: of a splice or a copy. */
static void append_from_file(int fd, const struct stat *st, uint64_t offset, size_t n)
{
	char path[64], *bytes = malloc(n);
	int from = fd;

	if (!bytes)
		die("recorder: out of memory\n");
	if (pread(from, bytes, n, (off_t)offset) != (ssize_t)n) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		from = open(path, O_RDONLY | O_CLOEXEC);
		if (from < 0 || pread(from, bytes, n, (off_t)offset) != (ssize_t)n)
			die("recorder: cannot read what was written\n");
		close(from);
	}
	append((struct record){ .kind = RECORD_WRITE, .inode = st->st_ino, .offset = offset, .length = n }, NULL, NULL,
	       bytes);
	free(bytes);
}

/* ---- files that others have written ---- */

static int import_entry(const char *path, const struct stat *st, int type, struct FTW *f)
{
	struct spot s = find_spot(AT_FDCWD, path);
	char target[PATH_MAX] = "";

	if (f->level == 0)
		return 0;
	if (S_ISLNK(st->st_mode) && readlink(path, target, sizeof target - 1) < 0)
		die("recorder: cannot read a link\n");
	append((struct record){ .kind = RECORD_CREATE, .inode = st->st_ino, .dir = s.dir, .mode = st->st_mode }, s.name,
	       target[0] ? target : NULL, NULL);
	if (S_ISREG(st->st_mode)) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			die("recorder: cannot read a file\n");
		if (st->st_size)
			append_from_file(fd, st, 0, (size_t)st->st_size);
		close(fd);
		append((struct record){ .kind = RECORD_SYNC, .inode = st->st_ino }, NULL, NULL, NULL);
	}
	append((struct record){ .kind = RECORD_SYNC, .inode = s.dir }, NULL, NULL, NULL);
	return 0;
}

void recorder_import(const char *folder)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof path, "%s", folder);
	lock_record();
	if (nftw(folder, import_entry, 32, FTW_PHYS) != 0)
		die("recorder: cannot import a folder\n");
	for (char *slash; (slash = strrchr(path, '/')) && slash != path; *slash = '\0')
		if (stat(path, &st) == 0)
			append((struct record){ .kind = RECORD_SYNC, .inode = st.st_ino }, NULL, NULL, NULL);
	unlock_record();
}

/* ---- data ---- */

static void append_write(int fd, const struct stat *st, uint64_t offset, const void *p, size_t n)
{
	int flags = fcntl(fd, F_GETFL);

	append((struct record){ .kind = RECORD_WRITE,
				.inode = st->st_ino,
				.offset = offset,
				.length = n,
				.synced = flags >= 0 && (flags & O_DSYNC) },
	       NULL, NULL, p);
}

static void append_vector(int fd, const struct stat *st, uint64_t offset, const struct iovec *v, int count, size_t done)
{
	for (int i = 0; i < count && done; i++) {
		size_t n = v[i].iov_len < done ? v[i].iov_len : done;

		if (n)
			append_write(fd, st, offset, v[i].iov_base, n);
		offset += n;
		done -= n;
	}
}

static uint64_t position(int fd, const struct stat *st)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_APPEND) ? (uint64_t)st->st_size : (uint64_t)lseek(fd, 0, SEEK_CUR);
}

/* Performs `call` under the lock if fd is recorded; then `record` runs if it succeeded. */
#define RECORDED(fd, type, call, record) \
	struct stat st;                  \
	if (!is_recorded(fd, &st))       \
		return call;             \
	lock_record();                   \
	(void)!fstat(fd, &st);           \
	type done = call;                \
	int saved = errno;               \
	if (done >= 0) {                 \
		record;                  \
	}                                \
	unlock_record();                 \
	errno = saved;                   \
	return done

ssize_t write(int fd, const void *p, size_t n)
{
	REAL(write);
	struct stat st;

	if (!is_recorded(fd, &st))
		return real(fd, p, n);
	lock_record();
	(void)!fstat(fd, &st);
	uint64_t at = position(fd, &st);
	ssize_t done = real(fd, p, n);
	int saved = errno;
	if (done > 0)
		append_write(fd, &st, at, p, (size_t)done);
	unlock_record();
	errno = saved;
	return done;
}

ssize_t writev(int fd, const struct iovec *v, int count)
{
	REAL(writev);
	struct stat st;

	if (!is_recorded(fd, &st))
		return real(fd, v, count);
	lock_record();
	(void)!fstat(fd, &st);
	uint64_t at = position(fd, &st);
	ssize_t done = real(fd, v, count);
	int saved = errno;
	if (done > 0)
		append_vector(fd, &st, at, v, count, (size_t)done);
	unlock_record();
	errno = saved;
	return done;
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	REAL(pwrite);
	RECORDED(fd, ssize_t, real(fd, p, n, at), append_write(fd, &st, (uint64_t)at, p, (size_t)done));
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at) { return pwrite(fd, p, n, at); }

ssize_t pwritev(int fd, const struct iovec *v, int count, off_t at)
{
	REAL(pwritev);
	RECORDED(fd, ssize_t, real(fd, v, count, at), append_vector(fd, &st, (uint64_t)at, v, count, (size_t)done));
}

ssize_t pwritev64(int fd, const struct iovec *v, int count, off64_t at) { return pwritev(fd, v, count, at); }

int ftruncate(int fd, off_t size)
{
	REAL(ftruncate);
	RECORDED(fd, int, real(fd, size),
		 append((struct record){ .kind = RECORD_TRUNCATE, .inode = st.st_ino, .length = (uint64_t)size }, NULL,
			NULL, NULL));
}

int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

/* Allocation alone changes the size at most; a hole is a write of zeroes. */
static void append_allocation(const struct stat *st, int mode, uint64_t at, uint64_t n)
{
	if (mode & FALLOC_FL_PUNCH_HOLE)
		append((struct record){ .kind = RECORD_WRITE, .inode = st->st_ino, .offset = at, .length = n }, NULL,
		       NULL, NULL);
	else if (!(mode & FALLOC_FL_KEEP_SIZE) && at + n > (uint64_t)st->st_size)
		append((struct record){ .kind = RECORD_TRUNCATE, .inode = st->st_ino, .length = at + n }, NULL, NULL,
		       NULL);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
	REAL(fallocate);
	RECORDED(fd, int, real(fd, mode, at, n), append_allocation(&st, mode, (uint64_t)at, (uint64_t)n));
}

int fallocate64(int fd, int mode, off64_t at, off64_t n) { return fallocate(fd, mode, at, n); }

int posix_fallocate(int fd, off_t at, off_t n) { return fallocate(fd, 0, at, n) == 0 ? 0 : errno; }

int posix_fallocate64(int fd, off64_t at, off64_t n) { return posix_fallocate(fd, at, n); }

ssize_t splice(int in, off64_t *from, int out, off64_t *at, size_t n, unsigned flags)
{
	REAL(splice);
	uint64_t offset = at ? (uint64_t)*at : 0;
	RECORDED(out, ssize_t, real(in, from, out, at, n, flags), {
		if (done > 0)
			append_from_file(out, &st, at ? offset : (uint64_t)lseek(out, 0, SEEK_CUR) - (uint64_t)done,
					 (size_t)done);
	});
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *at, size_t n, unsigned flags)
{
	REAL(copy_file_range);
	uint64_t offset = at ? (uint64_t)*at : 0;
	RECORDED(out, ssize_t, real(in, from, out, at, n, flags), {
		if (done > 0)
			append_from_file(out, &st, at ? offset : (uint64_t)lseek(out, 0, SEEK_CUR) - (uint64_t)done,
					 (size_t)done);
	});
}

ssize_t sendfile(int out, int in, off_t *from, size_t n)
{
	REAL(sendfile);
	RECORDED(out, ssize_t, real(out, in, from, n), {
		if (done > 0)
			append_from_file(out, &st, (uint64_t)lseek(out, 0, SEEK_CUR) - (uint64_t)done, (size_t)done);
	});
}

/* ---- syncs ---- */

int fsync(int fd)
{
	REAL(fsync);
	RECORDED(fd, int, real(fd),
		 append((struct record){ .kind = RECORD_SYNC, .inode = st.st_ino }, NULL, NULL, NULL));
}

int fdatasync(int fd)
{
	REAL(fdatasync);
	RECORDED(fd, int, real(fd),
		 append((struct record){ .kind = RECORD_SYNC, .inode = st.st_ino }, NULL, NULL, NULL));
}

int syncfs(int fd)
{
	REAL(syncfs);
	RECORDED(fd, int, real(fd), append((struct record){ .kind = RECORD_SYNC_ALL }, NULL, NULL, NULL));
}

/* ---- names ---- */

static int open_recorded(int (*real)(int, const char *, int, ...), int at, const char *path, int flags, mode_t mode)
{
	if (!(flags & (O_CREAT | O_TRUNC)) || !find_spot(at, path).recorded)
		return real(at, path, flags, mode);
	lock_record();
	struct spot s = find_spot(at, path);
	struct stat st;
	int fd = real(at, path, flags, mode), saved = errno;

	if (fd >= 0 && is_recorded(fd, &st)) {
		if (s.recorded && !s.exists)
			append_created(&s, &st);
		else if (flags & O_TRUNC)
			append((struct record){ .kind = RECORD_TRUNCATE, .inode = st.st_ino }, NULL, NULL, NULL);
	}
	unlock_record();
	errno = saved;
	return fd;
}

static mode_t mode_of(int flags, va_list ap) { return flags & O_CREAT ? (mode_t)va_arg(ap, int) : 0; }

int openat(int at, const char *path, int flags, ...)
{
	REAL(openat);
	va_list ap;
	va_start(ap, flags);
	mode_t mode = mode_of(flags, ap);
	va_end(ap);
	return open_recorded(real, at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = mode_of(flags, ap);
	va_end(ap);
	return openat(at, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = mode_of(flags, ap);
	va_end(ap);
	return openat(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = mode_of(flags, ap);
	va_end(ap);
	return openat(AT_FDCWD, path, flags, mode);
}

/* A change of names: `call` under the lock, and `record` if it succeeded. Elsewhere without it: inits of sandboxes are
 * killed at any time, and must not have it then. */
#define NAMED(call, record)                  \
	if (!find_spot(at, path).recorded)   \
		return call;                 \
	lock_record();                       \
	struct spot a = find_spot(at, path); \
	int done = call, saved = errno;      \
	if (done == 0 && a.recorded) {       \
		record;                      \
	}                                    \
	unlock_record();                     \
	errno = saved;                       \
	return done

int mkdirat(int at, const char *path, mode_t mode)
{
	REAL(mkdirat);
	NAMED(real(at, path, mode), {
		struct stat st;
		if (fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			append_created(&a, &st);
	});
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int at, const char *path, int flags)
{
	REAL(unlinkat);
	NAMED(real(at, path, flags),
	      append((struct record){ .kind = RECORD_UNLINK, .inode = a.st.st_ino, .dir = a.dir }, a.name, NULL, NULL));
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int symlinkat(const char *target, int at, const char *path)
{
	REAL(symlinkat);
	NAMED(real(target, at, path), {
		struct stat st;
		if (fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			append(
				(struct record){
					.kind = RECORD_CREATE, .inode = st.st_ino, .dir = a.dir, .mode = st.st_mode },
				a.name, target, NULL);
	});
}

int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

int renameat2(int at, const char *path, int at2, const char *path2, unsigned flags)
{
	REAL(renameat2);
	NAMED(real(at, path, at2, path2, flags), {
		struct spot b = find_spot(at2, path2);
		append((struct record){ .kind = RECORD_RENAME,
					.inode = a.st.st_ino,
					.dir = a.dir,
					.dir2 = b.recorded ? b.dir : 0,
					.mode = flags },
		       a.name, b.name, NULL);
	});
}

int renameat(int at, const char *path, int at2, const char *path2) { return renameat2(at, path, at2, path2, 0); }

int rename(const char *path, const char *path2) { return renameat2(AT_FDCWD, path, AT_FDCWD, path2, 0); }

int linkat(int at2, const char *path2, int at, const char *path, int flags)
{
	REAL(linkat);
	NAMED(real(at2, path2, at, path, flags), {
		struct stat st;
		if (fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			append((struct record){ .kind = RECORD_LINK, .inode = st.st_ino, .dir = a.dir }, a.name, NULL,
			       NULL);
	});
}

int link(const char *from, const char *path) { return linkat(AT_FDCWD, from, AT_FDCWD, path, 0); }
