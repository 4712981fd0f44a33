#include "pty/vt_filter.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <stdio.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* Control sequences that are allowed: leader, intermediate, and the final bytes. */
static const struct {
	char leader, middle;
	const char *finals;
} sequences[] = {
	{ 0, 0, "@ABCDEFGHIJKLMPSTXZ`acdefghjklmnqrs" },
	{ '?', 0, "JKhln" },
	{ '>', 0, "c" },
	{ 0, ' ', "@Aq" },
	{ 0, '!', "p" },
	{ 0, '"', "q" },
	{ 0, '\'', "}~" },
	{ '?', '$', "p" },
};

static bool is_known_final(const struct vt_filter *in, char final)
{
	for (size_t i = 0; i < countof(sequences); i++)
		if (sequences[i].leader == in->leader && sequences[i].middle == in->middle)
			return strchr(sequences[i].finals, final) != NULL;
	return false;
}

/* A complete character. */
static void put_character(struct vt_filter *in, const char *text, size_t n, struct buf *out)
{
	buf_append(out, text, n);
	memmove(in->last, text, n);
	in->nlast = (unsigned char)n;
	in->drawn_end = out->len;
}

/* ---- the saved cursor ---- */

static void cursor_save(struct vt_filter *in, struct buf *out)
{
	in->saved[in->alternate] = in->cursor;
	buf_byte(out, VT_FILTER_SAVE);
}

static void cursor_restore(struct vt_filter *in, struct buf *out)
{
	const struct vt_filter_cursor *saved = &in->saved[in->alternate];

	in->cursor = *saved; /* with the character sets, of which libvterm has none (ascii_byte) */
	buf_str(out, saved->origin ? "\033[?6h" : "\033[?6l");
	buf_byte(out, saved->origin ? VT_FILTER_RESTORE_ORIGIN : VT_FILTER_RESTORE);
}

/* ---- control sequences ---- */

static void csi_separator(struct vt_filter *in, char c)
{
	in->sub[in->nargs] = c == ':';
	if (in->nargs + 1 >= VT_FILTER_ARGS_MAX) {
		in->bad = true;
		return;
	}
	in->nargs++;
	in->args[in->nargs] = 0;
	in->given[in->nargs] = in->sub[in->nargs] = false;
}

static bool has_arg(const struct vt_filter *in, unsigned value)
{
	for (unsigned i = 0; i <= in->nargs; i++)
		if (in->given[i] && in->args[i] == value)
			return true;
	return false;
}

static bool is_mode(const struct vt_filter *in, char final)
{
	return in->leader == '?' && !in->middle && (final == 'h' || final == 'l');
}

/* Sequences of xterm that libvterm 0.1 does not have. */
static bool csi_translate(struct vt_filter *in, char final, struct buf *out)
{
	unsigned n = in->given[0] && in->args[0] ? in->args[0] : 1;

	if (in->leader || in->middle)
		return false;
	switch (final) {
	case 'b': /* REP */
		for (unsigned i = 0; in->nlast && i < n && i < VT_FILTER_REPEAT_MAX; i++)
			put_character(in, in->last, in->nlast, out);
		return true;
	case 's': /* SCOSC, without margins on the left and the right */
		if (in->margins)
			return false;
		cursor_save(in, out);
		return true;
	case '@':
	case 'P':
		if (in->cursor.origin || in->margins) /* the cursor is inside */
			return false;
	/* fall through */
	case 'A':
	case 'B':
	case 'E':
	case 'F':
		if (!in->region)
			return false;
		buf_printf(out, "%c%c%u;%u;%u%c", VT_FILTER_REGION, final, n, in->top, in->bottom, VT_FILTER_REGION);
		return true;
	case 'u': /* SCORC */ cursor_restore(in, out); return true;
	default: return false;
	}
}

static void reset_tracked(struct vt_filter *in)
{
	in->region = in->margins = in->alternate = false;
	in->single = 0;
	in->cursor = (struct vt_filter_cursor){ 0 };
}

/* xterm ignores a region of less than two rows; libvterm would scroll the whole screen. False = drop the sequence. */
static bool csi_region(struct vt_filter *in, unsigned rows)
{
	unsigned top = in->given[0] && in->args[0] ? in->args[0] : 1,
		 bottom = in->nargs > 0 && in->given[1] && in->args[1] && in->args[1] < rows ? in->args[1] : rows;

	if (top >= bottom && rows > 1)
		return false;
	in->region = top > 1 || bottom < rows;
	in->top = top;
	in->bottom = bottom;
	return true;
}

/* The state that skimming and a saved cursor need. */
static void csi_track(struct vt_filter *in, char final)
{
	if (is_mode(in, final) && has_arg(in, 69))
		in->margins = final == 'h';
	if (is_mode(in, final) && has_arg(in, 6))
		in->cursor.origin = final == 'h';
	if (is_mode(in, final) && (has_arg(in, 47) || has_arg(in, 1047) || has_arg(in, 1049)))
		in->alternate = final == 'h';
	if (in->middle == '!' && final == 'p')
		reset_tracked(in);
}

/* The sequence is written again from its parsed parameters, so nothing of the original bytes reaches libvterm. */
static void csi_end(struct vt_filter *in, char final, unsigned rows, struct buf *out)
{
	in->state = VT_FILTER_TEXT;
	if (in->bad || csi_translate(in, final, out) || !is_known_final(in, final))
		return;
	if (final == 'r' && !in->leader && !csi_region(in, rows))
		return;
	bool cursor = is_mode(in, final) && (has_arg(in, 1048) || has_arg(in, 1049));

	if (cursor && final == 'h')
		cursor_save(in, out); /* that of the screen that is left */
	csi_track(in, final);
	buf_str(out, "\033[");
	if (in->leader)
		buf_byte(out, in->leader);
	for (unsigned i = 0; i <= in->nargs; i++) {
		bool saves = cursor && (in->args[i] == 1048 || in->args[i] == 1049);

		if (i)
			buf_byte(out, in->sub[i - 1] ? ':' : ';');
		if (in->given[i]) /* 1047 is 1049 without the cursor; there is no mode 0 */
			buf_printf(out, "%u", !saves ? in->args[i] : in->args[i] == 1049 ? 1047 : 0);
	}
	if (in->middle)
		buf_byte(out, in->middle);
	buf_byte(out, final);
	if (cursor && final == 'l')
		cursor_restore(in, out);
}

static void csi_byte(struct vt_filter *in, char c, unsigned rows, struct buf *out)
{
	unsigned *arg = &in->args[in->nargs];

	if (c >= '0' && c <= '9') {
		*arg = *arg * 10 + (unsigned)(c - '0');
		if (*arg > VT_FILTER_ARG_MAX)
			*arg = VT_FILTER_ARG_MAX;
		in->given[in->nargs] = true;
		in->bad |= in->middle != 0;
	} else if (c == ';' || c == ':') {
		csi_separator(in, c);
	} else if (c >= '<' && c <= '?') {
		in->bad |= in->leader || in->nargs || in->given[0];
		in->leader = c;
	} else if (c < '0') {
		in->bad |= in->middle != 0;
		in->middle = c;
	} else {
		csi_end(in, c, rows, out);
	}
}

/* ---- escapes and strings ---- */

static void escape_byte(struct vt_filter *in, char c, struct buf *out)
{
	in->state = VT_FILTER_TEXT;
	if (c == '[') {
		in->state = VT_FILTER_CSI;
		in->leader = in->middle = 0;
		in->nargs = 0;
		in->bad = false;
		in->args[0] = 0;
		in->given[0] = in->sub[0] = false;
	} else if (c == ']') {
		in->state = VT_FILTER_OSC;
		in->nosc = 0;
	} else if (strchr("PX^_k", c)) {
		in->state = VT_FILTER_STRING;
	} else if (c < '0') {
		in->state = VT_FILTER_ESCAPE_MORE;
		in->middle = c;
	} else if (c == '7') {
		cursor_save(in, out);
	} else if (c == '8') {
		cursor_restore(in, out);
	} else if (c == 'c') {
		reset_tracked(in);
		buf_str(out, "\033c");
		cursor_save(in, out);
	} else if (c == 'N' || c == 'O') {
		in->single = c == 'N' ? 2 : 3;
	} else if (strchr("=>DEHMZ", c)) {
		buf_byte(out, '\033');
		buf_byte(out, c);
	}
}

static void escape_more_byte(struct vt_filter *in, char c, struct buf *out)
{
	in->state = VT_FILTER_TEXT;
	if (c < '0')
		in->state = VT_FILTER_ESCAPE_MORE; /* two intermediates: unsupported */
	else if (in->middle >= '(' && in->middle <= '+' && strchr("0AB", c))
		in->cursor.sets[in->middle - '('] = c == 'B' ? 0 : c;
	else if (in->middle == '#' && c == '8')
		buf_str(out, "\033#8");
}

/* Only the title is used. */
static void osc_end(struct vt_filter *in, struct buf *out)
{
	in->state = VT_FILTER_TEXT;
	if (in->nosc < 2 || !strchr("02", in->osc[0]) || in->osc[1] != ';')
		return;
	in->nosc = text_utf8_cut(in->osc, in->nosc);
	buf_str(out, "\033]2;");
	for (size_t i = 2, len; i < in->nosc; i += len) {
		len = text_utf8_len(in->osc + i, in->nosc - i);
		if (!(len == 2 && in->osc[i] == '\xc2' && (unsigned char)in->osc[i + 1] < 0xa0))
			buf_append(out, len ? in->osc + i : REPLACEMENT, len ? len : 3);
		len = len ? len : 1;
	}
	buf_byte(out, '\a');
}

/* ---- text ---- */

static void put_bad(struct vt_filter *in, struct buf *out) { put_character(in, REPLACEMENT, 3, out); }

/* A byte of a non-ASCII character. */
static void high_byte(struct vt_filter *in, char c, struct buf *out)
{
	size_t len;

	if (in->ncut && ((unsigned char)c & 0xc0) != 0x80) {
		in->ncut = 0;
		put_bad(in, out);
	}
	in->cut[in->ncut++] = c;
	len = text_utf8_len(in->cut, in->ncut);
	if (len) {
		/* U+0080 to U+009F are control characters, too */
		if (!(len == 2 && in->cut[0] == '\xc2' && (unsigned char)c < 0xa0)) {
			put_character(in, in->cut, len, out);
		}
		in->ncut = 0;
	} else if (text_utf8_cut(in->cut, in->ncut) == in->ncut) { /* not a prefix of any character */
		in->ncut = 0;
		put_bad(in, out);
	}
}

/* xterm's characters of the line drawing set from '_' to '~'. */
static const uint16_t line_drawing[] = {
	0x0020, 0x25c6, 0x2592, 0x2409, 0x240c, 0x240d, 0x240a, 0x00b0, 0x00b1, 0x2424, 0x240b,
	0x2518, 0x2510, 0x250c, 0x2514, 0x253c, 0x23ba, 0x23bb, 0x2500, 0x23bc, 0x23bd, 0x251c,
	0x2524, 0x2534, 0x252c, 0x2502, 0x2264, 0x2265, 0x03c0, 0x2260, 0x00a3, 0x00b7,
};

/* The character set for the next character; 0 = ASCII. */
static char current_set(const struct vt_filter *in)
{
	return in->cursor.sets[in->single ? in->single : in->cursor.shifted];
}

/*
 * A printable ASCII character. Sets are applied here: libvterm selects one by the first byte of the text in a call, so
 * the screen would depend on how the output was split.
 */
static void ascii_byte(struct vt_filter *in, char c, struct buf *out)
{
	char set = current_set(in), text[4];
	uint32_t character = (unsigned char)c;

	if (set == '0' && c >= '_')
		character = line_drawing[c - '_'];
	else if (set == 'A' && c == '#')
		character = 0xa3; /* the pound sign */
	in->single = 0;
	put_character(in, text, text_utf8_encode(character, text), out);
}

static void text_byte(struct vt_filter *in, char c, struct buf *out)
{
	if ((unsigned char)c >= 0x80)
		high_byte(in, c, out);
	else if (c >= ' ' && c < 0x7f)
		ascii_byte(in, c, out);
	else if (c == '\016' || c == '\017')
		in->cursor.shifted = c == '\016';
	else if (c >= '\b' && c <= '\r')
		buf_byte(out, c);
}

/* Control characters also act inside sequences; true if this one is completely handled. */
static bool control_byte(struct vt_filter *in, char c, struct buf *out)
{
	bool string = in->state == VT_FILTER_OSC || in->state == VT_FILTER_STRING;

	if (c == '\033') {
		if (in->state == VT_FILTER_OSC)
			osc_end(in, out); /* most likely ESC \ */
		in->state = VT_FILTER_ESCAPE;
	} else if (c == '\030' || c == '\032') {
		in->state = VT_FILTER_TEXT;
	} else if (string && c == '\a') {
		if (in->state == VT_FILTER_OSC)
			osc_end(in, out);
		in->state = VT_FILTER_TEXT;
	} else if (!string) {
		text_byte(in, c, out);
	}
	return true;
}

/* The fast path: most output is plain text. */
static size_t plain_run(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] >= ' ' && p[i] < 0x7f)
		i++;
	return i;
}

/* A run of plain text, or one byte. Returns how many. */
static size_t take_bytes(struct vt_filter *in, const char *p, size_t n, unsigned rows, struct buf *out)
{
	char c = *p;

	if (in->ncut && (unsigned char)c < 0x80) {
		in->ncut = 0;
		put_bad(in, out);
	}
	if (in->state == VT_FILTER_TEXT && c >= ' ' && c < 0x7f && !current_set(in) && !in->single) {
		size_t run = plain_run(p, n);

		buf_append(out, p, run - 1);
		put_character(in, p + run - 1, 1, out);
		return run;
	}
	if (((unsigned char)c < 0x20 || c == 0x7f) && control_byte(in, c, out))
		return 1;
	switch (in->state) {
	case VT_FILTER_TEXT: text_byte(in, c, out); break;
	case VT_FILTER_OSC:
		if (in->nosc < sizeof(in->osc))
			in->osc[in->nosc++] = c;
		break;
	case VT_FILTER_STRING: break;
	default:
		if ((unsigned char)c >= 0x80) { /* not part of any sequence */
			in->state = VT_FILTER_TEXT;
			text_byte(in, c, out);
		} else if (in->state == VT_FILTER_ESCAPE) {
			escape_byte(in, c, out);
		} else if (in->state == VT_FILTER_ESCAPE_MORE) {
			escape_more_byte(in, c, out);
		} else {
			csi_byte(in, c, rows, out);
		}
	}
	return 1;
}

void vt_filter_feed(struct vt_filter *in, const void *bytes, size_t n, unsigned rows, struct buf *out)
{
	const char *p = bytes;
	size_t start = out->len;

	in->drawn_end = SIZE_MAX;
	for (size_t i = 0, taken; i < n; i += taken) {
		if (in->state == VT_FILTER_TEXT)
			in->pending = 0;
		taken = take_bytes(in, p + i, n - i, rows, out);
		in->pending = in->state == VT_FILTER_TEXT ? in->ncut : in->pending + taken;
	}
	if (out->len > start)
		in->drew = in->drawn_end == out->len;
}

void vt_filter_reset(struct vt_filter *in)
{
	in->state = VT_FILTER_TEXT;
	in->ncut = in->nlast = 0;
	in->pending = 0;
	in->drew = false;
}

/* ---- skimming ---- */

/* Length of a control sequence that only changes colours or erases to the end of the line; 0 for any other. */
static size_t harmless_csi(const char *p, size_t n)
{
	size_t i = 2;

	if (n < 3 || p[1] != '[')
		return 0;
	while (i < n && i < 40 && ((p[i] >= '0' && p[i] <= '9') || p[i] == ';' || p[i] == ':'))
		i++;
	return i < n && (p[i] == 'm' || p[i] == 'K') ? i + 1 : 0;
}

/* Length of the control at p if it has no effect after it has scrolled out; 0 if it might. */
static size_t is_harmless(const char *p, size_t n)
{
	unsigned char c = (unsigned char)*p;

	if ((c >= '\a' && c <= '\n') || c == '\r')
		return 1;
	return c == '\033' ? harmless_csi(p, n) : 0;
}

/*
 * Three passes: find the prefix that has only text, line ends and harmless sequences; find the end of its last line
 * that scrolls out; collect the colours that are set before that point. A line may wrap to several rows, which only
 * makes more of it scroll out. A bare newline keeps the column and is not counted as a line.
 */
size_t vt_filter_skip_scrolled(const struct vt_filter *in, const void *bytes, size_t n, size_t keep, struct buf *out)
{
	const char *p = bytes;
	size_t lines = 0, end = 0, cut = 0;

	if (in->state != VT_FILTER_TEXT || in->ncut || in->region || in->margins)
		return 0;
	for (size_t len; end < n; end += len) {
		unsigned char c = (unsigned char)p[end];

		len = 1;
		if (c >= 0x20)
			continue;
		len = is_harmless(p + end, n - end);
		if (!len)
			break;
		lines += c == '\n' && end && p[end - 1] == '\r';
	}
	if (lines <= keep)
		return 0;
	for (size_t drop = lines - keep; drop;) {
		const char *line = memchr(p + cut, '\n', end - cut);

		cut = (size_t)(line - p) + 1;
		drop -= cut >= 2 && p[cut - 2] == '\r';
	}
	for (size_t i = 0, len; i < cut; i += len) {
		const char *escape = memchr(p + i, '\033', cut - i);

		if (!escape)
			break;
		i = (size_t)(escape - p);
		len = harmless_csi(escape, cut - i);
		if (len && escape[len - 1] == 'm')
			buf_append(out, escape, len);
		if (!len)
			len = 1;
	}
	return cut;
}
