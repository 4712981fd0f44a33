#include "pty/screen_row.h"

#include "pty/glyph_width.h"
#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#define SECOND_HALF UINT32_MAX /* libvterm's value for the cell after a wide character */

/* ---- cells to runs and back ---- */

static uint32_t style_colour(const VTermColor *c)
{
	if (c->type & VTERM_COLOR_DEFAULT_MASK)
		return SCREEN_ROW_COLOUR_DEFAULT;
	if (VTERM_COLOR_IS_INDEXED(c))
		return c->indexed.idx;
	return SCREEN_ROW_COLOUR_RGB | (uint32_t)c->rgb.red << 16 | (uint32_t)c->rgb.green << 8 | c->rgb.blue;
}

static VTermColor colour_for(uint32_t colour, uint8_t by_default)
{
	VTermColor c = { 0 };

	if (colour == SCREEN_ROW_COLOUR_DEFAULT)
		c.type = by_default;
	else if (colour & SCREEN_ROW_COLOUR_RGB)
		vterm_color_rgb(&c, (uint8_t)(colour >> 16), (uint8_t)(colour >> 8), (uint8_t)colour);
	else
		vterm_color_indexed(&c, (uint8_t)colour);
	return c;
}

static struct screen_row_style style_of(const VTermScreenCell *c)
{
	return (struct screen_row_style){
		.fg = style_colour(&c->fg),
		.bg = style_colour(&c->bg),
		.attrs = (c->attrs.bold ? SCREEN_ROW_BOLD : 0u) | (c->attrs.italic ? SCREEN_ROW_ITALIC : 0u) |
			 (c->attrs.blink ? SCREEN_ROW_BLINK : 0u) | (c->attrs.reverse ? SCREEN_ROW_REVERSE : 0u) |
			 (c->attrs.strike ? SCREEN_ROW_STRIKE : 0u) |
			 (uint32_t)c->attrs.underline << SCREEN_ROW_UNDERLINE_SHIFT,
	};
}

struct screen_row_style screen_row_style_of_pen(const VTermState *state)
{
	static const struct {
		VTermAttr attr;
		uint32_t bit;
	} bools[] = {
		{ VTERM_ATTR_BOLD, SCREEN_ROW_BOLD },     { VTERM_ATTR_ITALIC, SCREEN_ROW_ITALIC },
		{ VTERM_ATTR_BLINK, SCREEN_ROW_BLINK },   { VTERM_ATTR_REVERSE, SCREEN_ROW_REVERSE },
		{ VTERM_ATTR_STRIKE, SCREEN_ROW_STRIKE },
	};
	struct screen_row_style pen = SCREEN_ROW_STYLE_DEFAULT;
	VTermValue v;

	for (size_t i = 0; i < countof(bools); i++)
		if (vterm_state_get_penattr(state, bools[i].attr, &v) && v.boolean)
			pen.attrs |= bools[i].bit;
	if (vterm_state_get_penattr(state, VTERM_ATTR_UNDERLINE, &v))
		pen.attrs |= ((uint32_t)v.number & 3) << SCREEN_ROW_UNDERLINE_SHIFT;
	if (vterm_state_get_penattr(state, VTERM_ATTR_FOREGROUND, &v))
		pen.fg = style_colour(&v.color);
	if (vterm_state_get_penattr(state, VTERM_ATTR_BACKGROUND, &v))
		pen.bg = style_colour(&v.color);
	return pen;
}

static bool style_same(struct screen_row_style a, struct screen_row_style b)
{
	return a.fg == b.fg && a.bg == b.bg && a.attrs == b.attrs;
}

/* No character and no visible attribute; true for most cells. */
static bool is_blank_cell(const VTermScreenCell *c)
{
	return c->chars[0] == 0 && (c->fg.type & VTERM_COLOR_DEFAULT_MASK) && (c->bg.type & VTERM_COLOR_DEFAULT_MASK) &&
	       !(c->attrs.bold || c->attrs.italic || c->attrs.blink || c->attrs.reverse || c->attrs.strike ||
		 c->attrs.underline);
}

/* The columns of the cell's character; 0 if it has none, half of one, or only combining ones. `left`: how many cells of
 * the row start here. */
static unsigned width_of(struct glyph_width *widths, const VTermScreenCell *c, unsigned left)
{
	if (!c->chars[0] || c->chars[0] == SECOND_HALF)
		return 0;
	unsigned width = glyph_width_of(widths, c->chars[0]);
	if (width < 2)
		return width;
	return left > 1 && c[1].chars[0] == SECOND_HALF ? 2 : 0;
}

static size_t put_utf8(uint32_t c, char *out)
{
	/* control characters are not glyphs; libvterm should not store any */
	if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	return text_utf8_encode(c, out);
}

/* Returns a run of this cell alone; appends its text to `bytes`. */
static struct screen_row_run run_of(const VTermScreenCell *c, unsigned width, uint64_t stamp, char *bytes, uint32_t at)
{
	struct screen_row_run r = {
		.style = style_of(c),
		.text = at,
		.len = 1,
		.stamp = stamp,
		.cells = width == 2 ? 2 : 1,
		.width = width == 2 ? 2 : 1,
		.blank = width == 0,
	};

	if (r.blank) {
		bytes[at] = ' ';
		return r;
	}
	r.combined = c->chars[1] != 0;
	r.len = 0;
	for (size_t i = 0; i < VTERM_MAX_CHARS_PER_CELL && c->chars[i]; i++)
		r.len += (uint32_t)put_utf8(c->chars[i], bytes + at + r.len);
	return r;
}

/* Runs with different offsets stay separate, so that text can be cut at the first newer cell. */
static bool run_joins(const struct screen_row_run *a, const struct screen_row_run *b)
{
	return a->blank == b->blank && a->stamp == b->stamp && a->width == b->width && !a->combined && !b->combined &&
	       style_same(a->style, b->style);
}

/* Most rows have few runs: these are collected on the stack, others in an array of one run per cell. */
void screen_row_pack(struct glyph_width *widths, const VTermScreenCell *cells, const uint64_t *stamps, unsigned cols,
		     struct screen_row *ret)
{
	mem_auto struct screen_row_run *many = NULL;
	struct screen_row_run few[32], *runs = few;
	size_t nruns = 0, cap = countof(few), nbytes = 0;
	struct screen_row l = { 0 };

	while (cols && is_blank_cell(&cells[cols - 1]))
		cols--;
	mem_auto char *bytes = mem_alloc((size_t)cols * VTERM_MAX_CHARS_PER_CELL * 4 + 1);
	for (unsigned i = 0; i < cols;) {
		unsigned width = width_of(widths, &cells[i], cols - i);
		struct screen_row_run r = run_of(&cells[i], width, stamps ? stamps[i] : 0, bytes, (uint32_t)nbytes);

		nbytes += r.len;
		i += r.cells;
		if (nruns && run_joins(&runs[nruns - 1], &r)) {
			runs[nruns - 1].cells = (uint16_t)(runs[nruns - 1].cells + r.cells);
			runs[nruns - 1].len += r.len;
			continue;
		}
		if (nruns == cap) {
			many = mem_realloc(many, (size_t)cols * sizeof(*many));
			if (runs == few)
				memcpy(many, few, sizeof(few));
			runs = many;
			cap = cols;
		}
		runs[nruns++] = r;
	}
	if (nruns) {
		l.nruns = nruns;
		l.nbytes = nbytes;
		l.runs = mem_alloc(nruns * sizeof(*runs) + nbytes);
		l.bytes = (char *)(l.runs + nruns);
		memcpy(l.runs, runs, nruns * sizeof(*runs));
		memcpy(l.bytes, bytes, nbytes);
	}
	*ret = l;
}

void screen_row_done(struct screen_row *l)
{
	free(l->runs);
	*l = (struct screen_row){ 0 };
}

size_t screen_row_size(const struct screen_row *l) { return sizeof(*l) + l->nruns * sizeof(*l->runs) + l->nbytes; }

/* Reads the code point at the start of valid UTF-8. */
static uint32_t take_utf8(const char **p, const char *end)
{
	size_t n = text_utf8_len(*p, (size_t)(end - *p));
	const unsigned char *s = (const unsigned char *)*p;
	uint32_t c;

	if (!n) {
		*p = end;
		return 0xfffd;
	}
	c = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++)
		c = c << 6 | (s[i] & 0x3f);
	*p += n;
	return c;
}

static VTermScreenCell cell_for(struct screen_row_style s)
{
	VTermScreenCell c = { .width = 1 };

	c.fg = colour_for(s.fg, VTERM_COLOR_DEFAULT_FG);
	c.bg = colour_for(s.bg, VTERM_COLOR_DEFAULT_BG);
	c.attrs.bold = !!(s.attrs & SCREEN_ROW_BOLD);
	c.attrs.italic = !!(s.attrs & SCREEN_ROW_ITALIC);
	c.attrs.blink = !!(s.attrs & SCREEN_ROW_BLINK);
	c.attrs.reverse = !!(s.attrs & SCREEN_ROW_REVERSE);
	c.attrs.strike = !!(s.attrs & SCREEN_ROW_STRIKE);
	c.attrs.underline = (s.attrs & SCREEN_ROW_UNDERLINE) >> SCREEN_ROW_UNDERLINE_SHIFT & 3;
	return c;
}

void screen_row_unpack(const struct screen_row *l, VTermScreenCell *cells, unsigned cols)
{
	unsigned at = 0;

	for (size_t i = 0; i < l->nruns; i++) {
		const struct screen_row_run *r = &l->runs[i];
		const char *p = l->bytes + r->text, *end = p + r->len;

		while (p < end && at + r->width <= cols) {
			VTermScreenCell c = cell_for(r->style);
			size_t n = 0;

			c.width = (char)r->width;
			if (r->blank)
				p++;
			else if (!r->combined)
				c.chars[0] = take_utf8(&p, end);
			while (r->combined && p < end && n < VTERM_MAX_CHARS_PER_CELL)
				c.chars[n++] = take_utf8(&p, end);
			cells[at++] = c;
			if (r->width == 2) {
				c.chars[0] = SECOND_HALF;
				for (size_t k = 1; k < VTERM_MAX_CHARS_PER_CELL; k++)
					c.chars[k] = 0;
				c.width = 1;
				cells[at++] = c;
			}
		}
	}
	while (at < cols)
		cells[at++] = cell_for(SCREEN_ROW_STYLE_DEFAULT);
}

/* ---- writing ---- */

bool screen_row_text(const struct screen_row *l, uint64_t after, bool trim, struct buf *out)
{
	size_t first = 0, end = l->nruns, start = out->len;

	while (after && first < end && l->runs[first].stamp <= after)
		first++;
	while (end > first && l->runs[end - 1].blank)
		end--;
	if (first >= end)
		return !after;
	buf_append(out, l->bytes + l->runs[first].text,
		   l->runs[end - 1].text + l->runs[end - 1].len - l->runs[first].text);
	while (trim && out->len > start && out->data[out->len - 1] == ' ')
		out->data[--out->len] = '\0';
	return true;
}

static void write_colour(struct jw *w, const char *key, uint32_t colour)
{
	char text[16];

	if (colour == SCREEN_ROW_COLOUR_DEFAULT)
		return;
	if (!(colour & SCREEN_ROW_COLOUR_RGB)) {
		jw_kuint(w, key, colour);
		return;
	}
	snprintf(text, sizeof(text), "#%06x", colour & 0xffffff);
	jw_kstr(w, key, text);
}

static const struct {
	uint32_t bits;
	const char *name;
	int sgr;
} attributes[] = {
	{ SCREEN_ROW_BOLD, "bold", 1 },           { SCREEN_ROW_ITALIC, "italic", 3 },
	{ SCREEN_ROW_UNDERLINE, "underline", 4 }, { SCREEN_ROW_BLINK, "blink", 5 },
	{ SCREEN_ROW_REVERSE, "reverse", 7 },     { SCREEN_ROW_STRIKE, "strike", 9 },
};

void screen_row_cells(const struct screen_row *l, struct jw *w)
{
	jw_arr(w);
	for (size_t i = 0, n; i < l->nruns; i += n) {
		const struct screen_row_run *r = &l->runs[i];
		size_t len = r->len;

		/* readers of cells do not need draw offsets: merge runs that differ only in those */
		for (n = 1; i + n < l->nruns; n++) {
			const struct screen_row_run *next = &l->runs[i + n];

			if (r->combined || next->combined || next->width != r->width ||
			    !style_same(r->style, next->style))
				break;
			len += next->len;
		}
		jw_obj(w);
		jw_kstrn(w, "text", l->bytes + r->text, len);
		if (r->width == 2)
			jw_kuint(w, "width", 2);
		if (r->combined)
			jw_kbool(w, "combined", true);
		write_colour(w, "fg", r->style.fg);
		write_colour(w, "bg", r->style.bg);
		for (size_t k = 0; k < countof(attributes); k++)
			if (r->style.attrs & attributes[k].bits)
				jw_kbool(w, attributes[k].name, true);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

/* Continues a sequence for attributes. A direct colour begins another: terminals take 16 parameters of one. */
static void pen_colour(uint32_t colour, unsigned base, struct buf *out)
{
	if (colour == SCREEN_ROW_COLOUR_DEFAULT)
		return;
	if (colour & SCREEN_ROW_COLOUR_RGB)
		buf_printf(out, "m\033[%u;2;%u;%u;%u", base + 8, colour >> 16 & 255, colour >> 8 & 255, colour & 255);
	else if (colour < 8)
		buf_printf(out, ";%u", base + colour);
	else if (colour < 16)
		buf_printf(out, ";%u", base + 60 + colour - 8);
	else
		buf_printf(out, ";%u;5;%u", base + 8, colour);
}

void screen_row_pen(struct screen_row_style *pen, struct screen_row_style to, struct buf *out)
{
	if (style_same(*pen, to))
		return;
	buf_str(out, "\033[0");
	for (size_t k = 0; k < countof(attributes); k++)
		if (to.attrs & attributes[k].bits)
			buf_printf(out, ";%d",
				   (to.attrs & SCREEN_ROW_UNDERLINE) >> SCREEN_ROW_UNDERLINE_SHIFT ==
							   VTERM_UNDERLINE_DOUBLE &&
						   attributes[k].bits == SCREEN_ROW_UNDERLINE
					   ? 21
					   : attributes[k].sgr);
	pen_colour(to.fg, 30, out);
	pen_colour(to.bg, 40, out);
	buf_byte(out, 'm');
	*pen = to;
}

void screen_row_ansi(const struct screen_row *l, struct screen_row_style *pen, struct buf *out)
{
	for (size_t i = 0; i < l->nruns; i++) {
		screen_row_pen(pen, l->runs[i].style, out);
		buf_append(out, l->bytes + l->runs[i].text, l->runs[i].len);
	}
}
