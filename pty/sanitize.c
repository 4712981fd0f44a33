#include "pty/sanitize.h"

#include "runtime/base/buf.h"
#include "runtime/base/text.h"

#include <string.h>

/* The states of a small ECMA-48 parser. STRING covers OSC, DCS, SOS, PM and APC, whose content is never shown. */
enum { GROUND, ESCAPE, INTERMEDIATE, CONTROL, STRING };

/* A carriage return alone starts the line over: the next character begins a new version of it on a line of its own. */
static void filter_text(struct sanitize *s, char c, struct buf *text)
{
	switch (c) {
	case '\r': s->returned = true; return;
	case '\n':
		buf_byte(text, '\n');
		s->returned = s->written = false;
		return;
	case '\a':
	case '\b':
	case '\016':
	case '\017':
	case '\0': return;
	default: break;
	}
	if (s->returned && s->written)
		buf_byte(text, '\n');
	s->returned = false;
	s->written = true;
	buf_byte(text, c);
}

static void filter_escape(struct sanitize *s, char c)
{
	if (c == '[')
		s->state = CONTROL;
	else if (c && strchr("]PX^_", c))
		s->state = STRING;
	else
		s->state = c >= ' ' && c <= '/' ? INTERMEDIATE : GROUND;
}

static void feed_byte(struct sanitize *s, char c, struct buf *text)
{
	if (c == '\033') {
		s->state = ESCAPE;
		return;
	}
	/* These end every sequence, complete or not; a newline inside one is still a newline. */
	if (c == '\n' || c == '\030' || c == '\032') {
		s->state = GROUND;
		if (c == '\n')
			filter_text(s, c, text);
		return;
	}
	switch (s->state) {
	case GROUND: filter_text(s, c, text); break;
	case ESCAPE: filter_escape(s, c); break;
	case INTERMEDIATE:
		if (c < ' ' || c > '/')
			s->state = GROUND;
		break;
	case CONTROL:
		if (c == '\r')
			filter_text(s, c, text);
		else if (c >= '@' && c <= '~')
			s->state = GROUND;
		break;
	default:
		if (c == '\a')
			s->state = GROUND;
		break;
	}
}

/* Two stages: sequences are removed byte by byte, then whole characters are made safe. */
void sanitize_feed(struct sanitize *s, const char *bytes, size_t n, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	for (size_t i = 0; i < n; i++)
		feed_byte(s, bytes[i], &text);
	text_stream_feed(&s->text, text.data, text.len, out);
}

void sanitize_end(struct sanitize *s, struct buf *out) { text_stream_end(&s->text, out); }
