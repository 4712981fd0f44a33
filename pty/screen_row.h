#ifndef BAILIFF_PTY_SCREEN_ROW_H
#define BAILIFF_PTY_SCREEN_ROW_H

/*
 * One row of a screen, packed: runs of cells with the same attributes. A visible row is packed on request, a line of
 * scrollback when it leaves the screen. So both are written by the same code, and a line needs about as much memory as
 * its text.
 *
 * As JSON a row is an array of runs:
 *
 * - {"text":"total ","fg":2,"bold":true}: one character per cell; default attributes are omitted
 * - {"text":"漢字","width":2}: each character takes two cells
 * - {"text":"é","combined":true}: the whole text is one cell, a character with its combining characters
 *
 * fg and bg are a palette index (0 to 255) or "#rrggbb"; further members, only if true: bold, italic, underline, blink,
 * reverse, strike. Blank cells without attributes at the end of a row are omitted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vterm.h>

struct buf;
struct glyph_width;
struct jw;

#define SCREEN_ROW_COLOUR_DEFAULT UINT32_MAX
#define SCREEN_ROW_COLOUR_RGB (1u << 24) /* | 0xrrggbb; without it a palette index */

enum {
	SCREEN_ROW_BOLD = 1,
	SCREEN_ROW_ITALIC = 2,
	SCREEN_ROW_BLINK = 4,
	SCREEN_ROW_REVERSE = 8,
	SCREEN_ROW_STRIKE = 16,
	SCREEN_ROW_UNDERLINE_SHIFT = 5, /* two bits: VTERM_UNDERLINE_… */
	SCREEN_ROW_UNDERLINE = 3 << SCREEN_ROW_UNDERLINE_SHIFT,
};

struct screen_row_style {
	uint32_t fg, bg;
	uint32_t attrs;
};
#define SCREEN_ROW_STYLE_DEFAULT \
	((struct screen_row_style){ .fg = SCREEN_ROW_COLOUR_DEFAULT, .bg = SCREEN_ROW_COLOUR_DEFAULT })

struct screen_row_run {
	struct screen_row_style style;
	uint32_t text, len; /* position in the row's bytes */
	uint64_t stamp;     /* output offset at which its cells were drawn */
	uint16_t cells;
	uint8_t width; /* of each of its characters, 1 or 2 */
	bool combined; /* the text is a single cell */
	bool blank;    /* spaces that were never written */
};

struct screen_row {
	struct screen_row_run *runs;
	size_t nruns;
	char *bytes; /* UTF-8; in the same block as the runs */
	size_t nbytes;
};

/* The pen for the next character. */
struct screen_row_style screen_row_style_of_pen(const VTermState *state);
/* `stamps` has one entry per cell, or is NULL. Half of a wide character is a blank, and so are marks without a
 * character. */
void screen_row_pack(struct glyph_width *widths, const VTermScreenCell *cells, const uint64_t *stamps, unsigned cols,
		     struct screen_row *ret);
/* Fills `cols` cells; those beyond the row's end are blank. */
void screen_row_unpack(const struct screen_row *l, VTermScreenCell *cells, unsigned cols);
void screen_row_done(struct screen_row *l);
size_t screen_row_size(const struct screen_row *l); /* memory in bytes */

/*
 * The text from the first cell drawn after `after` (0 = all). `trim`: without trailing blanks. Returns false if no cell
 * is newer.
 */
bool screen_row_text(const struct screen_row *l, uint64_t after, bool trim, struct buf *out);
void screen_row_cells(const struct screen_row *l, struct jw *w);
/* Bytes that draw the row on a terminal, from column 0. `*pen` is the terminal's style, updated by the call. */
void screen_row_ansi(const struct screen_row *l, struct screen_row_style *pen, struct buf *out);
/* Changes the terminal's pen to `to`. */
void screen_row_pen(struct screen_row_style *pen, struct screen_row_style to, struct buf *out);

#endif
