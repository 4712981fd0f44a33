/*
 * Copies for backups and restores. Every copy is synced before the function returns. Holes are found with SEEK_DATA,
 * so that sparse files stay sparse.
 */

#include "runtime/base/file_copy.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* [from, to) of a file, all of it data. */
static int copy_range(int in, int out, off_t from, off_t to)
{
	while (from < to) {
		off_t at = from;
		ssize_t n = copy_file_range(in, &from, out, &at, (size_t)(to - from), 0);

		/* copy_file_range can share blocks, but not between all file systems. */
		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
			char tmp[65536];

			n = pread(in, tmp, (size_t)(to - from) < sizeof(tmp) ? (size_t)(to - from) : sizeof(tmp), from);
			if (n > 0 && pwrite(out, tmp, (size_t)n, from) != n)
				return -1;
			if (n > 0)
				from += n;
		}
		if (n < 0 && errno != EINTR)
			return -1;
		if (n == 0)
			break;
	}
	return 0;
}

/* Segment by segment; file_copy has set the size already. */
static int copy_data(int in, int out, off_t size, const char *name, const struct file_copy_options *o, struct err *e)
{
	for (off_t at = 0; at < size;) {
		off_t from = lseek(in, at, SEEK_DATA), to;

		if (from < 0 && errno == ENXIO)
			break; /* a hole up to the end */
		to = from < 0 ? -1 : lseek(in, from, SEEK_HOLE);
		if (from < 0 || to < 0 || copy_range(in, out, from, to < size ? to : size) != 0)
			return err_sys(e, errno, "copy '%s'", name);
		at = to;
		if (o->cancelled && o->cancelled(o->ctx))
			return err_set(e, ERR_UNAVAILABLE, "interrupted");
	}
	return 0;
}

/* Copies the regular file `name` of one directory to a new file in another. Ignores other types of files. */
static int file_copy(int in_dir, int out_dir, const char *name, const struct file_copy_options *o, struct err *e)
{
	/* O_NONBLOCK: opening a FIFO that is in the way must not hang. */
	fd_auto int in = openat(in_dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	fd_auto int out = -1;
	struct stat st;

	if (in < 0 && errno == ELOOP)
		return 0;
	if (in < 0 || fstat(in, &st) != 0)
		return err_sys(e, errno, "open '%s'", name);
	if (!S_ISREG(st.st_mode))
		return 0;
	out = openat(out_dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0 || ftruncate(out, st.st_size) != 0)
		return err_sys(e, errno, "make a copy of '%s'", name);
	if (copy_data(in, out, st.st_size, name, o, e) < 0)
		return -1;
	if (o->give && fchown(out, o->uid, o->gid) != 0)
		return err_sys(e, errno, "give the copy of '%s' to uid %u", name, (unsigned)o->uid);
	if (fsync(out) != 0)
		return err_sys(e, errno, "sync the copy of '%s'", name);
	return 0;
}

int file_copy_all(int in_dir, int out_dir, const struct file_copy_options *o, struct err *e)
{
	int fd = openat(in_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	int r = 0;

	if (!d) {
		fd_close(&fd);
		return err_sys(e, errno, "list the folder");
	}
	while (r == 0 && (errno = 0, entry = readdir(d)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = file_copy(in_dir, out_dir, entry->d_name, o, e);
	if (r == 0 && errno)
		r = err_sys(e, errno, "list the folder");
	closedir(d);
	if (r == 0 && fsync(out_dir) != 0)
		return err_sys(e, errno, "sync the folder of the copies");
	return r;
}
