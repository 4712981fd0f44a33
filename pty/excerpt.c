#include "pty/excerpt.h"

#include "pty/sanitize.h"
#include "runtime/base/text.h"

#include <inttypes.h>
#include <string.h>

#define BYTES_SHOWN 256u /* of binary output */

static uint64_t length_of(const struct excerpt *x) { return x->total > x->from ? x->total - x->from : 0; }

static void cut_to_share(struct excerpt *x, uint64_t share)
{
	uint64_t length = length_of(x);

	x->head = length <= share ? length : share - share / 2;
	x->tail = length <= share ? 0 : share / 2;
}

/*
 * Streams that fit into an equal share of the remaining budget are shown whole and leave the rest to the others, which
 * then get equal shares.
 */
void excerpt_plan(struct excerpt *x, size_t n, size_t budget)
{
	uint64_t left = budget;
	size_t open = n;

	for (size_t i = 0; i < n; i++)
		x[i].head = UINT64_MAX; /* undecided */
	for (bool again = true; again && open;) {
		again = false;
		for (size_t i = 0; i < n; i++)
			if (x[i].head == UINT64_MAX && length_of(&x[i]) <= left / open) {
				cut_to_share(&x[i], UINT64_MAX);
				left -= length_of(&x[i]);
				again = --open > 0;
			}
	}
	uint64_t share = open ? left / open : 0;
	for (size_t i = 0; i < n; i++)
		if (x[i].head == UINT64_MAX)
			cut_to_share(&x[i], share);
}

/*
 * The visible part of the bytes read, cut at character boundaries. An excerpt starts at a boundary, because the
 * previous one ended at one.
 */
struct shown {
	size_t first;    /* bytes of the head */
	size_t at, last; /* the tail: `last` bytes from offset `at` */
	size_t held;     /* bytes of an incomplete character at the very end */
	bool gap, bytes; /* gap: something is omitted; bytes: because it is binary */
};

static size_t whole_characters(const char *bytes, size_t n) { return n ? text_utf8_cut(bytes, n) : 0; }

/*
 * True if most bytes would be shown as \xNN, as in an image or an archive: that would take four times the budget and
 * tell a model nothing. NUL bytes do not count, since they are not shown, and short output is always shown.
 */
static bool is_no_text(const struct buf *b)
{
	size_t odd = 0;

	for (size_t i = 0, n; i < b->len; i += n) {
		unsigned char c = (unsigned char)b->data[i];

		n = text_utf8_len(b->data + i, b->len - i);
		odd += !n || (c && c < ' ' && !strchr("\t\n\r\b\f\a\033", c));
		n += !n;
	}
	return b->len > BYTES_SHOWN && odd > b->len / 4;
}

/* Leaves out the line that the cut splits, unless that is more than half of what is shown. */
static void cut_at_lines(const struct excerpt *x, struct shown *s)
{
	const char *nl = s->first ? memrchr(x->first.data, '\n', s->first) : NULL;

	if (nl && (size_t)(nl + 1 - x->first.data) > s->first / 2)
		s->first = (size_t)(nl + 1 - x->first.data);
	nl = s->last ? memchr(x->last.data + s->at, '\n', s->last) : NULL;
	size_t skip = nl ? (size_t)(nl + 1 - x->last.data) - s->at : 0;
	if (skip < s->last / 2) {
		s->at += skip;
		s->last -= skip;
	}
}

static struct shown shown_of(const struct excerpt *x)
{
	const struct buf *first = &x->first, *last = &x->last;
	struct shown s = { .first = first->len, .gap = length_of(x) > first->len + last->len };

	if (is_no_text(first))
		return (struct shown){ .first = BYTES_SHOWN, .gap = true, .bytes = true };
	while (s.at < last->len && s.at < 3 && ((unsigned char)last->data[s.at] & 0xc0) == 0x80)
		s.at++;
	s.last = last->len - s.at;
	if (s.gap)
		s.first = whole_characters(first->data, first->len);
	if (s.gap && x->lines)
		cut_at_lines(x, &s);
	if (x->open && last->len) {
		size_t n = whole_characters(last->data + s.at, s.last);
		s.held = s.last - n;
		s.last = n;
	} else if (x->open && !s.gap) {
		s.first = whole_characters(first->data, first->len);
		s.held = first->len - s.first;
	}
	return s;
}

uint64_t excerpt_omitted(const struct excerpt *x)
{
	struct shown s = shown_of(x);

	return s.gap ? length_of(x) - s.first - s.last - s.held : 0;
}

uint64_t excerpt_head_end(const struct excerpt *x) { return x->from + shown_of(x).first; }

uint64_t excerpt_end(const struct excerpt *x) { return x->total - shown_of(x).held; }

static void show_bytes(const char *bytes, size_t n, struct buf *out)
{
	struct sanitize s = SANITIZE_INIT;

	sanitize_feed(&s, bytes, n, out);
	sanitize_end(&s, out);
}

void excerpt_text(const struct excerpt *x, struct buf *out)
{
	size_t start = out->len;
	struct shown s = shown_of(x);

	show_bytes(buf_cstr(&x->first), s.first, out);
	if (s.gap) {
		if (out->len > start && out->data[out->len - 1] != '\n')
			buf_byte(out, '\n');
		buf_printf(out,
			   s.bytes ? "[… %" PRIu64
				     " bytes left out: this is not text; file, xxd, base64 or iconv show more …]\n"
				   : "[… %" PRIu64 " bytes left out …]\n",
			   excerpt_omitted(x));
	}
	show_bytes(buf_cstr(&x->last) + s.at, s.last, out);
}

void excerpt_done(struct excerpt *x)
{
	buf_done(&x->first);
	buf_done(&x->last);
}

void excerpt_last_line(const char *bytes, size_t n, size_t most, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;
	size_t end, begin;

	show_bytes(bytes, n, &text);
	for (end = text.len; end > 0 && strchr(" \n\t", text.data[end - 1]); end--)
		;
	for (begin = end; begin > 0 && text.data[begin - 1] != '\n'; begin--)
		;
	size_t len = end - begin;
	buf_append(out, buf_cstr(&text) + begin, len > most ? text_utf8_cut(text.data + begin, most) : len);
	if (len > most)
		buf_str(out, "…");
}
