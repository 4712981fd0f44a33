/*
 * The screen model with any output and resizes: it always shows clean text. Skimming, and
 * output in pieces, gives the same screen, and what screen_ansi writes draws the same on another terminal. Byte 0xff is
 * an order: "\xff" 'r' ROWS COLS resizes, "\xff" 's' N skips N bytes, "\xff" 'a' reads everything; any other byte after
 * it is literal.
 */

#include "pty/screen.h"
#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <limits.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak)); /* only libFuzzer has it */

#define LOOKS_MAX 3

static void check_text(const struct buf *b)
{
	if (!text_utf8_valid(buf_cstr(b), b->len))
		abort();
	for (size_t i = 0; i < b->len; i++)
		if (((unsigned char)b->data[i] < 0x20 && b->data[i] != '\n') || b->data[i] == 0x7f)
			abort();
}

static void check_json(const struct buf *b, unsigned rows)
{
	struct jiter it = jiter_on(jval_of(buf_cstr(b), b->len));
	unsigned n = 0;

	while (jiter_next(&it))
		n++;
	if (n < rows || !it.p || !text_utf8_valid(buf_cstr(b), b->len))
		abort();
}

static void look(const struct screen *s)
{
	buf_auto struct buf text = BUF_INIT, lines = BUF_INIT, cells = BUF_INIT, ansi = BUF_INIT, drawn = BUF_INIT;
	struct jw lw = jw_on(&lines), cw = jw_on(&cells);
	struct screen_info i;

	screen_info(s, &i);
	if (!screen_size_ok(i.rows, i.cols) || i.cursor_row >= i.rows || i.cursor_col >= i.cols || i.scrollback > 5)
		abort();
	screen_text(s, UINT_MAX, &text);
	screen_lines(s, 3, &lw);
	screen_cells(s, UINT_MAX, &cw);
	screen_ansi(s, 0, true, &ansi);
	screen_drawn_after(s, i.offset / 2, false, &drawn);
	check_text(&text);
	check_text(&drawn);
	check_json(&lines, i.rows);
	check_json(&cells, i.rows);
	if (!text_utf8_valid(i.title, strlen(i.title)) || !text_utf8_valid(buf_cstr(&ansi), ansi.len))
		abort();
}

/* Output in pieces of `step` bytes, each skimmed first if it is so. */
static void feed_pieces(struct screen *s, const uint8_t *p, size_t n, bool skim, size_t step)
{
	for (size_t at = 0, piece; at < n; at += piece) {
		size_t skimmed;

		piece = step < n - at ? step : n - at;
		skimmed = skim ? screen_skim(s, p + at, piece) : 0;
		screen_feed(s, p + at + skimmed, piece - skimmed);
		screen_replies(s, NULL);
	}
}

static struct screen *play(const uint8_t *p, size_t n, bool skim, size_t step)
{
	const struct screen_limits limits = { .lines = 5, .bytes = 16384 };
	struct screen *s = screen_new(n > 0 ? p[0] % 30 : 24, n > 1 ? p[1] % 100 : 80, &limits);
	int looks = skim ? 0 : LOOKS_MAX; /* once is enough: both must be the same */

	for (size_t i = 2; i < n;) {
		const uint8_t *order = memchr(p + i, 0xff, n - i);
		size_t plain = order ? (size_t)(order - p) - i : n - i;

		feed_pieces(s, p + i, plain, skim, step);
		i += plain;
		if (i + 3 < n && p[i + 1] == 'r') {
			screen_resize(s, p[i + 2] % 50, p[i + 3] % 90);
			i += 4;
		} else if (i + 2 < n && p[i + 1] == 's') {
			screen_skip(s, p[i + 2]);
			i += 3;
		} else if (i + 1 < n && p[i + 1] == 'a') {
			if (looks-- > 0)
				look(s);
			i += 2;
		} else if (i < n) {
			screen_feed(s, p + i, 1);
			i++;
		}
	}
	return s;
}

static void check_same(const struct screen *a, const struct screen *b)
{
	buf_auto struct buf ta = BUF_INIT, tb = BUF_INIT;

	screen_ansi(a, UINT_MAX, true, &ta);
	screen_ansi(b, UINT_MAX, true, &tb);
	if (ta.len != tb.len || memcmp(ta.data, tb.data, ta.len) != 0)
		abort();
}

/*
 * Makes most screens small. An input takes the time of its cells, which are read several times, and small screens wrap
 * and scroll with less output. Every eighth keeps its size, as do the inputs of the corpus.
 */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	size = LLVMFuzzerMutate(data, size, max_size);
	if (size < 2 || seed % 8 == 0)
		return size;
	data[0] = (uint8_t)(data[0] - data[0] % 30 + data[0] % 30 % 8);
	data[1] = data[1] % 100 % 24;
	for (uint8_t *at = data + 2; (at = memchr(at, 0xff, (size_t)(data + size - at))) && at + 3 < data + size;
	     at++) {
		if (at[1] == 'r') {
			at[2] = at[2] % 50 % 8;
			at[3] = at[3] % 90 % 24;
		}
	}
	return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* The rows take the remainder of the first byte by 30, the pieces the rest of it. */
	static const size_t steps[] = { SIZE_MAX, 1, 2, 3, 7, 31, 256, 257, 1000 };
	struct screen *a = play(data, size, false, SIZE_MAX),
		      *b = play(data, size, true, size ? steps[data[0] / 30] : 1);

	look(a);
	check_same(a, b);
	screen_free(a);
	screen_free(b);
	return 0;
}
