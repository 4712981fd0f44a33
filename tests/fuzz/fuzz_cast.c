/* Untrusted recordings, line by line; a recording that is written from the same bytes can be read again. */

#include "pty/recording.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_lines(const char *p, size_t n)
{
	struct recording_event ev = { 0 };
	struct recording_pace pace = { .speed = 2, .idle_us = 1000000 };
	bool first = true;

	for (size_t at = 0; at < n;) {
		const char *end = memchr(p + at, '\n', n - at);
		size_t len = end ? (size_t)(end - (p + at)) : n - at;
		struct recording_header h = { 0 };
		struct err e = ERR_INIT;
		int r = first ? recording_parse_header(p + at, len, &h, &e)
			      : recording_parse_event(p + at, len, &ev, &e);

		if ((r < 0) != (e.code != ERR_NONE))
			abort();
		if (r == 0 && first && (!h.cols || !h.rows))
			abort();
		if (r == 0 && !first &&
		    (!text_utf8_valid(buf_cstr(&ev.data), ev.data.len) || recording_pause(&pace, ev.at_us) > 500000))
			abort();
		recording_header_free(&h);
		first = false;
		at += len + 1;
	}
	recording_event_done(&ev);
}

/* Cut anywhere, output comes back whole when it was UTF-8. */
static void write_and_read(const char *p, size_t n)
{
	buf_auto struct buf out = BUF_INIT, back = BUF_INIT;
	struct recording_event ev = { 0 };
	struct recording_header h = { .cols = 80, .rows = 24 };
	struct recording r;
	struct err e = ERR_INIT;
	char *line;

	recording_begin(&r, &h, 5, &out);
	for (size_t i = 0, piece; i < n; i += piece) {
		piece = 1 + (unsigned char)p[i] % 7;
		if (piece > n - i)
			piece = n - i;
		recording_output(&r, 5 + i, p + i, piece, &out);
	}
	recording_end(&r, &out);
	line = memchr(out.data, '\n', out.len);
	if (recording_parse_header(out.data, (size_t)(line - out.data), &h, &e) < 0)
		abort();
	recording_header_free(&h);
	for (line++; line < out.data + out.len;) {
		char *end = memchr(line, '\n', (size_t)(out.data + out.len - line));

		if (recording_parse_event(line, (size_t)(end - line), &ev, &e) != 0 || ev.code != 'o' || ev.at_us > n)
			abort();
		buf_append(&back, buf_cstr(&ev.data), ev.data.len);
		line = end + 1;
	}
	if (text_utf8_valid(p, n) && (back.len != n || (n && memcmp(back.data, p, n) != 0)))
		abort();
	recording_event_done(&ev);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mem_auto char *text = mem_dup(data, size);

	read_lines(text, size);
	write_and_read(text, size);
	return 0;
}
