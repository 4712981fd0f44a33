#ifndef BAILIFF_PTY_GLYPH_WIDTH_H
#define BAILIFF_PTY_GLYPH_WIDTH_H

/*
 * How many columns libvterm gives to a character. libvterm does not export its tables, and the width that it reports
 * for a cell depends on the next cell: after half of a wide character was overwritten, or cut off by a resize, it is
 * wrong. So a small terminal is asked, once for each character that is in use.
 */

#include <stdint.h>
#include <vterm.h>

#define GLYPH_WIDTH_CACHE 256u

/* All zero = empty. */
struct glyph_width {
	VTerm *ruler;                           /* created by the first question */
	uint32_t characters[GLYPH_WIDTH_CACHE]; /* character * 4 + width */
};

unsigned glyph_width_of(struct glyph_width *g, uint32_t character); /* 2, 1, or 0 for a combining character */
void glyph_width_done(struct glyph_width *g);

#endif
