#ifndef BAILIFF_PTY_TRACES_H
#define BAILIFF_PTY_TRACES_H

/*
 * What a stream of output has left switched on in the terminal that showed it: the alternate screen, mouse reports, a
 * hidden cursor, a scroll region … A program that ends by itself cleans up behind it; one that we stop showing in the
 * middle does not, so we do it: feed every byte that was written to the terminal, and write what traces_undo says when
 * leaving. A terminal that comes to show the program later is brought to the same state with traces_redo.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

struct traces {
	/* private */
	int state;
	char intro;  /* '?' or '>' after CSI, or 0 */
	char middle; /* the last byte between parameters and final one, or 0 */
	unsigned params[16];
	size_t nparams;
	uint32_t modes; /* that differ from their usual value, by row of the table */
	bool keypad, insert, region, charset, shifted, style, colour;
	unsigned keys;        /* how keys with modifiers are reported; 0 = as usual */
	unsigned top, bottom; /* of the region */
};
#define TRACES_INIT ((struct traces){ 0 })

void traces_feed(struct traces *t, const char *bytes, size_t n);
void traces_break(struct traces *t);                       /* bytes are missing here */
bool traces_clean(const struct traces *t);                 /* there is nothing to undo */
bool traces_alternate(const struct traces *t);             /* the alternate screen is shown */
void traces_undo(const struct traces *t, struct buf *out); /* appends nothing when it is clean */
/* But for which screen is shown, the cursor's looks, colours and character sets. Moves the cursor. */
void traces_redo(const struct traces *t, struct buf *out);

#endif
