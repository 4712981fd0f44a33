#include "supervisor/gateway/common/line_stream.h"

#include "runtime/base/fd.h"
#include "runtime/base/lines.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES (64u << 10)
#define OUT_HIGH (8u << 20) /* above this reading stops, until the backlog is below OUT_LOW */
#define OUT_LOW (1u << 20)
#define OUT_LAGS (16u << 10)
#define TURN_LINES 64   /* lines per turn of the loop, so that other events are served */
#define SURE_WRITE 4096 /* a pipe that polls writable takes this much without blocking (PIPE_BUF) */
#define POLL_MS 250     /* how often a peer whose input is not read is checked for hangup */

struct line_stream {
	struct event_base *base;
	int in_fd, out_fd;
	struct lines in;
	struct buf out;
	size_t sent;
	struct line_stream_ops ops;
	void *ctx;
	struct event read_ev, write_ev, again;
	bool polls_in, polls_out; /* regular files and /dev/null are always ready, and epoll rejects them */
	bool eof, broken, ended, full;
};

static bool can_poll(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 || S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd);
}

static void schedule_turn(struct line_stream *s)
{
	const struct timeval now = { 0 };

	loop_add(&s->again, &now);
}

static void end_stream(struct line_stream *s)
{
	if (s->ended)
		return;
	s->ended = true;
	event_del(&s->read_ev);
	event_del(&s->again);
	s->ops.end(s->ctx);
}

/* ---- writing ---- */

/*
 * The descriptors share their open file descriptions with the parent, so they stay blocking: O_NONBLOCK would change
 * the parent's too. A pipe that polls writable takes PIPE_BUF bytes without blocking.
 */
static void flush_out(struct line_stream *s)
{
	while (s->sent < s->out.len) {
		struct pollfd p = { .fd = s->out_fd, .events = POLLOUT };
		size_t n = s->out.len - s->sent;

		if (s->polls_out && poll(&p, 1, 0) <= 0)
			break;
		ssize_t w = write(s->out_fd, s->out.data + s->sent, s->polls_out && n > SURE_WRITE ? SURE_WRITE : n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN)
			break;
		if (w < 0) { /* no reader is left; the owner learns it from the loop, not from inside write */
			buf_done(&s->out);
			s->sent = 0;
			s->broken = true;
			event_del(&s->write_ev);
			if (!s->ended)
				schedule_turn(s);
			return;
		}
		s->sent += (size_t)w;
	}
	if (s->sent > (1u << 20) || s->sent == s->out.len) {
		buf_consume(&s->out, s->sent);
		s->sent = 0;
	}
	if (s->out.len)
		loop_add(&s->write_ev, NULL);
}

static size_t unsent_bytes(const struct line_stream *s) { return s->out.len - s->sent; }

void line_stream_write(struct line_stream *s, const char *bytes, size_t n)
{
	bool waits = unsent_bytes(s) > 0;

	if (s->broken)
		return;
	buf_append(&s->out, bytes, n);
	if (!waits)
		flush_out(s);
}

bool line_stream_flushed(const struct line_stream *s) { return unsent_bytes(s) == 0; }

bool line_stream_is_behind(const struct line_stream *s) { return unsent_bytes(s) > OUT_LAGS; }

bool line_stream_full(const struct line_stream *s) { return unsent_bytes(s) >= OUT_HIGH; }

/* ---- reading ---- */

/* Hysteresis between OUT_HIGH and OUT_LOW, so that reading does not toggle with every message. */
static bool is_held_back(struct line_stream *s)
{
	s->full = unsent_bytes(s) >= OUT_HIGH || (s->full && unsent_bytes(s) >= OUT_LOW);
	return s->full || s->ops.busy(s->ctx);
}

static bool is_blank(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
			return false;
	return true;
}

/* Handles one line; false if no complete line is buffered. */
static bool handle_line(struct line_stream *s)
{
	const char *line;
	size_t len;

	switch (s->eof ? lines_rest(&s->in, &line, &len) : lines_next(&s->in, &line, &len)) {
	case LINES_LINE:
		if (!is_blank(line, len))
			s->ops.line(s->ctx, line, len);
		return true;
	case LINES_TOO_LONG: s->ops.too_long(s->ctx); return true;
	case LINES_NONE: break;
	}
	return false;
}

static void read_some(struct line_stream *s)
{
	static char bytes[READ_BYTES];
	ssize_t n;

	do
		n = read(s->in_fd, bytes, sizeof(bytes));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		s->eof = true;
	else
		lines_add(&s->in, bytes, (size_t)n);
}

static void process_lines(struct line_stream *s, bool readable)
{
	int most = TURN_LINES;

	event_del(&s->read_ev);
	if (s->broken)
		end_stream(s);
	while (!s->ended && !is_held_back(s)) {
		if (most-- == 0)
			return schedule_turn(s);
		if (handle_line(s))
			continue;
		if (s->eof)
			return end_stream(s);
		if (!readable) {
			if (s->polls_in)
				loop_add(&s->read_ev, NULL);
			else
				schedule_turn(s);
			return;
		}
		read_some(s);
		readable = false;
	}
	if (!s->ended) {
		/* While input is not read, end of file is not seen either, so poll for a hangup. */
		const struct timeval tv = { .tv_usec = POLL_MS * 1000 };
		struct pollfd p = { .fd = s->in_fd };

		if (s->polls_in && poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))
			end_stream(s);
		else
			loop_add(&s->again, &tv);
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg) { process_lines(arg, true); }

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	struct line_stream *s = arg;

	process_lines(s, !s->polls_in);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct line_stream *s = arg;

	flush_out(s);
	if (s->ended)
		return;
	if (s->full && unsent_bytes(s) < OUT_LOW)
		line_stream_wake(s);
	if (s->ops.drained && !line_stream_is_behind(s))
		s->ops.drained(s->ctx);
}

void line_stream_wake(struct line_stream *s)
{
	if (!s->ended)
		schedule_turn(s);
}

struct line_stream *line_stream_new(struct event_base *base, int in_fd, int out_fd, size_t max_line,
				    const struct line_stream_ops *ops, void *ctx)
{
	struct line_stream *s = mem_zalloc(1, sizeof(*s));

	*s = (struct line_stream){ .base = base, .in_fd = in_fd, .out_fd = out_fd, .ops = *ops, .ctx = ctx };
	s->polls_in = can_poll(in_fd);
	s->polls_out = can_poll(out_fd);
	lines_init(&s->in, max_line);
	event_assign(&s->read_ev, base, in_fd, EV_READ, on_readable, s);
	event_assign(&s->write_ev, base, out_fd, EV_WRITE, on_writable, s);
	evtimer_assign(&s->again, base, on_again, s);
	schedule_turn(s);
	return s;
}

void line_stream_free(struct line_stream *s)
{
	if (!s)
		return;
	event_del(&s->read_ev);
	event_del(&s->write_ev);
	event_del(&s->again);
	lines_done(&s->in);
	buf_done(&s->out);
	free(s);
}
