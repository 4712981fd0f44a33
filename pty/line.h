#ifndef BAILIFF_PTY_LINE_H
#define BAILIFF_PTY_LINE_H

/*
 * One row of a screen, packed: runs of cells that look the same. A visible row is packed when somebody asks for it, a
 * line of scrollback when it leaves the screen, so both are written by the same code and a line costs about what its
 * text does.
 *
 * As JSON a row is an array of runs:
 *
 *   {"text":"total ","fg":2,"bold":true}   one character a cell; attributes that are the default are left out
 *   {"text":"漢字","width":2}               each character takes two cells
 *   {"text":"é","combined":true}           the whole text is one cell: a character with those that combine with it
 *
 * fg and bg are a palette index (0 to 255) or "#rrggbb"; further members, only where true: bold, italic, underline,
 * blink, reverse, strike. Cells at the end of a row that are blank and have no attributes are left out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vterm.h>

struct buf;
struct jw;

#define LINE_COLOUR_DEFAULT UINT32_MAX
#define LINE_COLOUR_RGB (1u << 24) /* | 0xrrggbb; without it a palette index */

enum {
	LINE_BOLD = 1,
	LINE_ITALIC = 2,
	LINE_BLINK = 4,
	LINE_REVERSE = 8,
	LINE_STRIKE = 16,
	LINE_UNDERLINE_SHIFT = 5, /* two bits: VTERM_UNDERLINE_… */
	LINE_UNDERLINE = 3 << LINE_UNDERLINE_SHIFT,
};

struct line_style {
	uint32_t fg, bg;
	uint32_t attrs;
};
#define LINE_STYLE_DEFAULT ((struct line_style){ .fg = LINE_COLOUR_DEFAULT, .bg = LINE_COLOUR_DEFAULT })

struct line_run {
	struct line_style style;
	uint32_t text, len; /* in the line's bytes */
	uint64_t stamp;     /* the offset of output that its cells were drawn by */
	uint16_t cells;
	uint8_t width; /* of each of its characters, 1 or 2 */
	bool combined; /* the text is one cell's */
	bool blank;    /* spaces that nobody wrote */
};

struct line {
	struct line_run *runs;
	size_t nruns;
	char *bytes; /* UTF-8; in the same block as the runs */
	size_t nbytes;
};

uint32_t line_colour(const VTermColor *c);
/* `stamps` has one for each cell, or is NULL. */
void line_pack(const VTermScreenCell *cells, const uint64_t *stamps, unsigned cols, struct line *ret);
/* Fills `cols` cells; what the line does not have is blank. */
void line_unpack(const struct line *l, VTermScreenCell *cells, unsigned cols);
void line_done(struct line *l);
size_t line_size(const struct line *l); /* of memory */

/* Its text from the first cell drawn after `after` on (0 = all). `trim`: without blanks at the end. False = nothing is
 * younger. */
bool line_text(const struct line *l, uint64_t after, bool trim, struct buf *out);
void line_cells(const struct line *l, struct jw *w);
/* As bytes for a terminal, from column 0; `*pen` is the style that is set there, before and after. */
void line_ansi(const struct line *l, struct line_style *pen, struct buf *out);
/* Changes the terminal's pen to `to`. */
void line_pen(struct line_style *pen, struct line_style to, struct buf *out);

#endif
