#include "runtime/evidence/sink.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"

#include <assert.h>
#include <errno.h>

/* Large enough that the system call costs little per byte. */
#define PIECE (64u << 10)

void sink_init(struct sink *k, int fd)
{
	*k = (struct sink){ .fd = fd, .hash = hash_sha256_stream_new() };
	k->w = jw_on(&k->buf);
}

/* Bytes are hashed in the order in which they are written, so the file is never read again. */
static int flush_buffer(struct sink *k, struct err *e)
{
	if (!k->buf.len)
		return 0;
	if (fd_write_all(k->fd, k->buf.data, k->buf.len) < 0)
		return err_sys(e, errno, "write an export");
	hash_sha256_stream_add(k->hash, k->buf.data, k->buf.len);
	k->bytes += k->buf.len;
	buf_reset(&k->buf);
	return 0;
}

int sink_yield(struct sink *k, struct err *e) { return k->buf.len < PIECE ? 0 : flush_buffer(k, e); }

/* `w` must have closed the top-level object, whose brace is still in the buffer. */
int sink_seal(struct sink *k, struct err *e)
{
	char digest[HASH_SHA256_TEXT];

	assert(k->buf.len && k->buf.data[k->buf.len - 1] == '}');
	k->buf.data[--k->buf.len] = '\0';
	if (flush_buffer(k, e) < 0)
		return -1;
	hash_sha256_stream_so_far(k->hash, digest);
	buf_printf(&k->buf, SINK_SEAL_BEGIN "%s" SINK_SEAL_END, digest);
	return 0;
}

/* The text form of the hash is the identity of the file; the seal, if there is one, is part of what it covers. */
int sink_end(struct sink *k, char ret_sha256[HASH_SHA256_TEXT], struct err *e)
{
	if (flush_buffer(k, e) < 0)
		return -1;
	hash_sha256_stream_free(k->hash, ret_sha256);
	k->hash = NULL;
	return 0;
}

void sink_done(struct sink *k)
{
	hash_sha256_stream_free(k->hash, NULL);
	k->hash = NULL;
	buf_done(&k->buf);
}
