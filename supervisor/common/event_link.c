#include "supervisor/common/event_link.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * More than the longest line that the daemon sends. A longer one would be skipped, and with it a response for which a
 * call waits until its timeout.
 */
#define LINE_MAX_BYTES (17u << 20)
#define ANSWER_MS 60000
#define READ_BYTES 65536u

struct waiting_event {
	struct waiting_event *next;
	struct buf text;
};

void event_link_init(struct event_link *l, int fd)
{
	*l = (struct event_link){ .fd = fd, .current = BUF_INIT };
	l->last = &l->first;
	lines_init(&l->lines, LINE_MAX_BYTES);
}

void event_link_done(struct event_link *l)
{
	while (l->first) {
		struct waiting_event *w = l->first;

		l->first = w->next;
		buf_done(&w->text);
		free(w);
	}
	lines_done(&l->lines);
	buf_done(&l->current);
}

/* Rounded up: rounded down, the last millisecond would be spent in calls of poll() that return immediately. */
static int remaining_ms(uint64_t until_ns)
{
	uint64_t now = clock_boot_ns();

	return now >= until_ns ? 0 : (int)((until_ns - now) / 1000000) + 1;
}

/* Returns 1 with a line, 0 on timeout or a signal, −1 at the end of the connection. */
static int next_line(struct event_link *l, int ms, struct jval *ret)
{
	uint64_t until = ms < 0 ? 0 : clock_boot_ns() + (uint64_t)ms * 1000000;

	for (;;) {
		const char *line;
		size_t len;
		char data[READ_BYTES];
		struct pollfd p = { .fd = l->fd, .events = POLLIN };

		if (lines_next(&l->lines, &line, &len) == LINES_LINE) {
			*ret = jval_of(line, len);
			return 1;
		}
		int n = poll(&p, 1, ms < 0 ? -1 : remaining_ms(until));
		if (n <= 0)
			return 0;
		ssize_t got = read(l->fd, data, sizeof(data));
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			return 0;
		/*
		 * End of file, or an error: the connection cannot be used any longer. The exporter exits, and the guard
		 * starts a new one with a new connection.
		 */
		if (got <= 0)
			return -1;
		lines_add(&l->lines, data, (size_t)got);
	}
}

static bool is_event(struct jval message) { return jval_is_str(jval_get(message, "method"), "event"); }

/* Queues an event that arrived while a call waited for its response. A copy: the line buffer is reused. */
static void queue_event(struct event_link *l, struct jval event)
{
	struct waiting_event *w = mem_zalloc(1, sizeof(*w));

	w->text = BUF_INIT;
	buf_append(&w->text, event.text, event.len);
	*l->last = w;
	l->last = &w->next;
}

/*
 * A response has either a result or an error; *ret gets that member.
 */
static int read_response(struct jval message, struct buf *ret, struct err *e)
{
	struct jval result = jval_get(message, "result"), error = jval_get(message, "error");

	if (result.type) {
		buf_append(ret, result.text, result.len);
		return 0;
	}
	char text[512];
	jval_str(jval_get(error, "message"), text, sizeof(text));
	buf_append(ret, error.text, error.len);
	return err_set(e, ERR_UNAVAILABLE, "%s", text);
}

int event_link_call(struct event_link *l, const char *method, const struct buf *params, struct buf *ret, struct err *e)
{
	struct buf buf_auto out = BUF_INIT;
	struct jw w = jw_on(&out);
	uint64_t id = ++l->last_id, until = clock_boot_ns() + ANSWER_MS * 1000000ull;
	struct jval message;

	jw_obj(&w);
	jw_kstr(&w, "jsonrpc", "2.0");
	jw_kuint(&w, "id", id);
	jw_kstr(&w, "method", method);
	if (params && params->len)
		jw_kraw(&w, "params", params->data, params->len);
	jw_obj_end(&w);
	buf_str(&out, "\n");
	if (fd_write_all(l->fd, out.data, out.len) < 0)
		return err_sys(e, errno, "%s: send the request", method);
	buf_reset(ret);
	for (;;) {
		int left = remaining_ms(until), n = left ? next_line(l, left, &message) : -1;

		if (n < 0)
			return err_set(e, ERR_UNAVAILABLE, "%s: the daemon is gone or does not respond", method);
		/* A signal or a timeout of one read: the deadline of the call decides. */
		if (n == 0)
			continue;
		if (is_event(message))
			queue_event(l, jval_path(message, "params.event"));
		/* Responses to other ids belong to calls that timed out, and are dropped. */
		else if (jval_uint(jval_get(message, "id"), 0) == id)
			return read_response(message, ret, e);
	}
}

int event_link_next(struct event_link *l, int ms, struct jval *ret)
{
	struct jval message;
	int n;

	if (l->first) {
		struct waiting_event *w = l->first;

		l->first = w->next;
		if (!l->first)
			l->last = &l->first;
		buf_done(&l->current);
		l->current = w->text;
		free(w);
		*ret = jval_of(l->current.data, l->current.len);
		return 1;
	}
	do
		n = next_line(l, ms, &message);
	while (n > 0 && !is_event(message));
	if (n <= 0)
		return n;
	/* A copy: a call made while this event is processed reads further lines into the same buffer. */
	struct jval event = jval_path(message, "params.event");
	buf_reset(&l->current);
	buf_append(&l->current, event.text, event.len);
	*ret = jval_of(l->current.data, l->current.len);
	return 1;
}

/* ---- the cursor ---- */

#define LINE_BYTES 128

int cursor_read(int fd, const char *runtime_id, uint64_t *ret)
{
	char text[LINE_BYTES + 1], id[LINE_BYTES + 1];
	unsigned long long sequence;
	char end = '\0';
	ssize_t n = pread(fd, text, LINE_BYTES, 0);

	if (n <= 0)
		return 1;
	text[n] = '\0';
	/*
	 * The newline must be there: without it the file may end in the middle of a number, which would look like an
	 * earlier position. Another runtime id means another store, in which the sequence number has no meaning.
	 */
	if (sscanf(text, "%128s %20llu%c", id, &sequence, &end) != 3 || end != '\n' || strcmp(id, runtime_id) != 0)
		return 1;
	*ret = sequence;
	return 0;
}

int cursor_write(int fd, const char *runtime_id, uint64_t sequence, struct err *e)
{
	char text[LINE_BYTES];
	/*
	 * A fixed width: the new line covers the old one byte by byte, so ftruncate removes something only when the
	 * runtime id has become shorter.
	 */
	int n = snprintf(text, sizeof(text), "%s %020llu\n", runtime_id, (unsigned long long)sequence);

	if (n >= (int)sizeof(text))
		return err_set(e, ERR_INVALID, "the runtime's id is too long");
	if (pwrite(fd, text, (size_t)n, 0) != n || ftruncate(fd, n) < 0)
		return err_sys(e, errno, "write the export cursor");
	return 0;
}
