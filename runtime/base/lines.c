/*
 * Lines are returned in place, without a copy. Consumed bytes stay at the front of the buffer until the next
 * lines_add moves the rest down, so a burst of many lines costs one move. The search for a newline never looks at a
 * byte twice.
 */

#include "runtime/base/lines.h"

#include <string.h>

void lines_init(struct lines *l, size_t max) { *l = (struct lines){ .max = max }; }

void lines_done(struct lines *l) { buf_done(&l->buf); }

size_t lines_buffered(const struct lines *l) { return l->buf.len - l->start; }

/* Moves unread bytes to the front first. */
void lines_add(struct lines *l, const void *p, size_t n)
{
	if (l->skipping) {
		const char *newline = memchr(p, '\n', n);
		if (!newline)
			return;
		l->skipping = false;
		n -= (size_t)(newline + 1 - (const char *)p);
		p = newline + 1;
	}
	if (l->start) {
		buf_consume(&l->buf, l->start);
		l->scanned -= l->start;
		l->start = 0;
	}
	buf_append(&l->buf, p, n);
}

/* An idle connection keeps no buffer. */
static void lines_empty(struct lines *l)
{
	buf_done(&l->buf);
	l->start = l->scanned = 0;
}

void lines_skip(struct lines *l)
{
	lines_empty(l);
	l->skipping = true;
}

/* A line that is too long is reported when its limit is reached, not when it ends. */
enum lines_next lines_next(struct lines *l, const char **ret_line, size_t *ret_len)
{
	const char *newline = NULL;
	if (l->scanned < l->buf.len)
		newline = memchr(l->buf.data + l->scanned, '\n', l->buf.len - l->scanned);
	if (!newline) {
		l->scanned = l->buf.len;
		if (lines_buffered(l) > l->max) {
			lines_skip(l);
			return LINES_TOO_LONG;
		}
		if (!lines_buffered(l) && l->buf.cap)
			lines_empty(l);
		return LINES_NONE;
	}
	const char *line = l->buf.data + l->start;
	size_t len = (size_t)(newline - line);
	l->start += len + 1;
	l->scanned = l->start;
	if (len > l->max)
		return LINES_TOO_LONG;
	*ret_line = line;
	*ret_len = len;
	return LINES_LINE;
}

/* A last line without a newline counts: files and closed connections may end that way. */
enum lines_next lines_rest(struct lines *l, const char **ret_line, size_t *ret_len)
{
	enum lines_next what = lines_next(l, ret_line, ret_len);
	if (what != LINES_NONE || !lines_buffered(l))
		return what;
	*ret_line = l->buf.data + l->start;
	*ret_len = lines_buffered(l);
	l->start = l->scanned = l->buf.len;
	return LINES_LINE;
}
