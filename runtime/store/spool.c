#include "runtime/store/spool.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/event/id.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Holes consist of whole blocks; larger steps need fewer calls and keep at most one step more. */
#define BLOCK 4096u
#define PUNCH_STEP (256u * 1024)

/* Refs are ids, which have no slash; "." and ".." are valid ids, but not file names. */
static int check_name(const char *ref, struct err *e)
{
	if (!id_valid(ref, strlen(ref)) || strcmp(ref, ".") == 0 || strcmp(ref, "..") == 0)
		return err_field(e, "outputRef", "'%.70s' is not an output ref", ref);
	return 0;
}

int spool_open(int dir_fd, const char *output_ref, uint64_t limit, struct spool_file *ret, struct err *e)
{
	fd_auto int fd = -1;
	struct stat st;

	if (check_name(output_ref, e) != 0)
		return -1;
	fd = openat(dir_fd, output_ref, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, errno, "open spool file '%s'", output_ref);
	if (fstat(fd, &st) != 0)
		return err_sys(e, errno, "stat spool file '%s'", output_ref);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CORRUPT, "spool file '%s' is not a regular file", output_ref);
	*ret = (struct spool_file){ .fd = fd_take(&fd), .size = (uint64_t)st.st_size, .limit = limit };
	return 0;
}

uint64_t spool_head(uint64_t limit) { return limit - limit / 4; }

void spool_hole(uint64_t size, uint64_t limit, uint64_t *ret_from, uint64_t *ret_to)
{
	bool longer = limit && size > limit;

	*ret_from = longer ? spool_head(limit) : 0;
	*ret_to = longer ? size - limit / 4 : 0;
}

/* Punches the whole blocks of the hole. Bytes at its edges, or on a file system without holes, stay and are not read.
 */
static void punch_hole(struct spool_file *f, uint64_t step)
{
	uint64_t from, to;

	spool_hole(f->size, f->limit, &from, &to);
	if (from > UINT64_MAX - BLOCK)
		return;
	from = (from + BLOCK - 1) / BLOCK * BLOCK;
	to = to / BLOCK * BLOCK;
	if (f->punched > from)
		from = f->punched;
	if (to < from + step || to <= from)
		return;
	if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) == 0 ||
	    errno == EOPNOTSUPP)
		f->punched = to;
}

void spool_done(struct spool_file *f)
{
	if (f->fd >= 0)
		punch_hole(f, 1);
	fd_close(&f->fd);
}

int64_t spool_take(struct spool_file *f, int pipe_fd, size_t max)
{
	off_t at = (off_t)f->size;
	ssize_t n;

	do
		n = splice(pipe_fd, NULL, f->fd, &at, max, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n;
	f->size += (uint64_t)n;
	punch_hole(f, PUNCH_STEP);
	return n;
}

int spool_unlink(int dir_fd, const char *output_ref)
{
	if (check_name(output_ref, NULL) != 0) {
		errno = EINVAL;
		return -1;
	}
	return unlinkat(dir_fd, output_ref, 0);
}
