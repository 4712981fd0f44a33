#include "supervisor/cli/input_forwarder.h"

#include "runtime/base/jw.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (1u << 20)       /* a write is durable before its reply, so fewer and larger ones are faster */
#define TYPED_MAX (256u << 10) /* limit of buffered keys */
#define TYPED_CHUNK 4096u

/* Backpressure: a pipe is not read while a write is pending, a terminal not while its buffer is full. */
int input_forwarder_fd(const struct input_forwarder *t)
{
	bool space = t->terminal ? t->pending.len < TYPED_MAX : !t->busy;

	return t->over || t->eof || !space ? -1 : STDIN_FILENO;
}

static void send_next(struct input_forwarder *t);

/* A lost reply is an error, except for single keys: the user sees whether the key arrived and can press it again. */
static void on_written(void *ctx, struct jval result, struct jval error)
{
	struct input_forwarder *t = ctx;

	t->busy = false;
	if (error.type != JT_NONE) {
		remote_error(error, &t->failure);
		t->unknown = remote_broken(error) || jval_is_str(jval_path(error, "data.outcome"), "unknown");
		/*
		 * The process closed its stdin or has ended: not an error. On a terminal the user sees whether the key
		 * arrived.
		 */
		if (t->failure.code == ERR_STATE || t->failure.code == ERR_NOT_FOUND)
			*(t->terminal ? &t->discard : &t->over) = true;
		else if (!(t->unknown && t->keys))
			t->failed = t->over = true;
	}
	send_next(t);
}

/* Sends the pending bytes, or closes the process's stdin after the last of them. */
static void send_next(struct input_forwarder *t)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	bool close = t->eof && !t->pending.len;

	if (t->busy || t->over || (!t->pending.len && !t->eof))
		return;
	if (close && t->keep_open) {
		t->over = true;
		return;
	}
	jw_obj(&w);
	jw_kstr(&w, "processId", t->process_id);
	if (!t->keys)
		remote_key(t->remote, &w);
	if (!close) {
		jw_key(&w, "data");
		jw_base64(&w, t->pending.data, t->pending.len);
		jw_kstr(&w, "encoding", "base64");
	}
	jw_obj_end(&w);
	buf_reset(&t->pending);
	t->busy = !close;
	t->over = close;
	(t->keys ? remote_send_once : remote_send)(t->remote, close ? "close_process_stdin" : "write_process_stdin",
						   &params, close ? NULL : on_written, t);
}

/* Reads what is available, up to a chunk: a pipe returns 64 KiB at a time. 0: end of file, −1: nothing available. */
static ssize_t read_ready(struct buf *to, size_t max)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	size_t have = 0;

	do {
		ssize_t n = read(STDIN_FILENO, buf_reserve(to, max), max - have);

		if (n < 0 && !have && (errno == EINTR || errno == EAGAIN))
			return -1;
		if (n <= 0)
			break;
		to->len += (size_t)n;
		have += (size_t)n;
	} while (have < max && poll(&p, 1, 0) > 0);
	return (ssize_t)have;
}

/* The end of a terminal in raw mode is a hangup; in line mode it is Ctrl-D. */
static void read_terminal(struct input_forwarder *t)
{
	char chunk[TYPED_CHUNK];
	ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0) {
		t->detached = (t->keys && t->discard &&
			       keys_watch_feed(&t->interrupt, chunk, (size_t)n, &t->pending)) ||
			      keys_watch_feed(&t->watch, chunk, (size_t)n, &t->pending);
		return;
	}
	if (n < 0 || t->keys)
		t->hung_up = true;
	else
		t->eof = true;
}

void input_forwarder_read(struct input_forwarder *t)
{
	if (t->terminal) {
		read_terminal(t);
	} else {
		ssize_t n = read_ready(&t->pending, CHUNK);

		if (n < 0)
			return;
		t->eof = n == 0;
	}
	if (t->discard) {
		buf_reset(&t->pending);
		t->over = t->eof;
	}
	send_next(t);
}
