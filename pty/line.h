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
 * fg and bg are a palette index (0 to 255) or "#rrggbb"; further members, only where true: bold, italic, underline, blink, reverse,
 * strike. Cells at the end of a row that are blank and have no attributes are left out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vterm.h>

struct buf;
struct jw;

struct line_style {
	VTermColor fg, bg;
	VTermScreenCellAttrs attrs;
};

struct line_run {
	struct line_style style;
	uint64_t stamp;      /* the offset after which its cells were drawn */
	uint32_t text, len;  /* in the line's bytes */
	uint16_t cells;
	uint8_t width;       /* of each of its characters, 1 or 2 */
	bool combined;
	bool blank;          /* nothing was ever written there */
};

struct line {
	uint32_t nruns, nbytes;
	uint16_t cells;
	struct line_run *runs;
	char *bytes;         /* UTF-8; behind the runs, in the same block */
};

/* `stamps` has one for each cell, or is NULL. */
void line_pack(const VTermScreenCell *cells, const uint64_t *stamps, unsigned cols, struct line *ret);
/* Fills `cols` cells; what the line does not have is blank. */
void line_unpack(const struct line *l, VTermScreenCell *cells, unsigned cols);
void line_done(struct line *l);
size_t line_size(const struct line *l); /* of memory */

/* Its text from the first cell drawn after `after` on (0 = all). `trim`: without blanks at the end. */
void line_text(const struct line *l, uint64_t after, bool trim, struct buf *out);
void line_cells(const struct line *l, struct jw *w);
/* As bytes for a terminal, from column 0; `*pen` is the style that is set there, before and after. */
void line_ansi(const struct line *l, struct line_style *pen, struct buf *out);
void line_pen_default(struct line_style *ret);

#endif
