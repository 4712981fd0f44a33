#include "supervisor/cli/spool_source.h"

#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* An error is not one of the output: that of an ended process, or of another user, is read with read_output. */
static void on_answered(void *ctx, struct jval result, struct jval error)
{
	struct spool_source *s = ctx;

	s->opening = false;
	if (error.type == JT_NONE) {
		s->fd = remote_take_fd(s->remote);
		s->kept = jval_uint(jval_get(result, "keptBytes"), UINT64_MAX);
	}
	s->opened(s->ctx);
}

void spool_source_open(struct spool_source *s, const char *process_id, const char *stream)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	if (s->requested)
		return;
	s->requested = s->opening = true;
	jw_obj(&w);
	jw_kstr(&w, "processId", process_id);
	jw_kstr(&w, "stream", stream);
	jw_obj_end(&w);
	remote_send(s->remote, "open_output", &params, on_answered, s);
}

uint64_t spool_source_end(const struct spool_source *s)
{
	struct stat st;

	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return 0;
	return (uint64_t)st.st_size < s->kept ? (uint64_t)st.st_size : s->kept;
}

ssize_t spool_source_copy(struct spool_source *s, uint64_t offset, uint64_t length, int pipe_fd, struct buf *data)
{
	size_t most = (size_t)(s->kept - offset < length ? s->kept - offset : length);
	off_t at = (off_t)offset;
	ssize_t n;

	if (pipe_fd >= 0) {
		n = splice(s->fd, &at, pipe_fd, NULL, most, SPLICE_F_NONBLOCK);
		if (n < 0 && (errno == EAGAIN || errno == EPIPE || errno == EINTR))
			return -1;
	} else {
		n = pread(s->fd, buf_reserve(data, most), most, at);
		data->len += n > 0 ? (size_t)n : 0;
	}
	if (n > 0)
		return n;
	fd_close(&s->fd);
	errno = EIO;
	return -1;
}
