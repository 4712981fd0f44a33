#include "runtime/dialect/sse.h"

#include <string.h>

void sse_init(struct sse *s, size_t max) { *s = (struct sse){ .max = max }; }

void sse_done(struct sse *s)
{
	buf_done(&s->line);
	buf_done(&s->data);
}

static void deliver(struct sse *s, sse_event_fn *fn, void *ctx)
{
	bool wanted = s->has_data && !s->skip_event;

	s->has_data = s->skip_event = false;
	if (wanted)
		fn(ctx, buf_cstr(&s->data), s->data.len);
	buf_reset(&s->data);
}

static void take_data(struct sse *s, const char *p, size_t n)
{
	if (s->skip_event || s->data.len + s->has_data + n > s->max) {
		s->skip_event = s->too_large = true;
		buf_reset(&s->data);
		return;
	}
	if (s->has_data)
		buf_byte(&s->data, '\n');
	buf_append(&s->data, p, n);
	s->has_data = true;
}

static void take_line(struct sse *s, const char *p, size_t n, sse_event_fn *fn, void *ctx)
{
	if (!s->started && n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
		p += 3, n -= 3;
	s->started = true;
	if (n == 0)
		deliver(s, fn, ctx);
	else if (n == 4 && memcmp(p, "data", 4) == 0)
		take_data(s, p, 0);
	else if (n > 4 && memcmp(p, "data:", 5) == 0) {
		size_t skip = n > 5 && p[5] == ' ' ? 6 : 5;
		take_data(s, p + skip, n - skip);
	}
}

/* Whether n more bytes of the line are acceptable: "data: " and as much data as an event may have. */
static bool line_fits(struct sse *s, size_t n)
{
	if (!s->skip_line && s->line.len + n <= s->max + 6)
		return true;
	s->skip_line = s->skip_event = s->too_large = true;
	buf_reset(&s->line);
	return false;
}

void sse_feed(struct sse *s, const void *p, size_t n, sse_event_fn *fn, void *ctx)
{
	const char *at = p, *end = at + n, *lf = NULL;
	bool search = true; /* for the next LF: each byte is searched once, also where lines end with CR */

	while (at < end) {
		if (s->skip_lf) {
			s->skip_lf = false;
			if (*at == '\n') {
				at++;
				continue;
			}
		}
		if (search || (lf && lf < at)) {
			lf = memchr(at, '\n', (size_t)(end - at));
			search = false;
		}
		const char *stop = lf ? lf : end, *cr = memchr(at, '\r', (size_t)(stop - at));
		const char *eol = cr ? cr : lf;
		if (!eol) {
			if (line_fits(s, (size_t)(end - at)))
				buf_append(&s->line, at, (size_t)(end - at));
			return;
		}
		if (line_fits(s, (size_t)(eol - at))) {
			if (s->line.len) {
				buf_append(&s->line, at, (size_t)(eol - at));
				take_line(s, s->line.data, s->line.len, fn, ctx);
				buf_reset(&s->line);
			} else
				take_line(s, at, (size_t)(eol - at), fn, ctx);
		}
		s->skip_line = false;
		s->skip_lf = eol == cr;
		at = eol + 1;
	}
}

void sse_finish(struct sse *s, sse_event_fn *fn, void *ctx)
{
	if (s->line.len && !s->skip_line)
		take_line(s, s->line.data, s->line.len, fn, ctx);
	buf_reset(&s->line);
	deliver(s, fn, ctx);
}
