#ifndef BAILIFF_PTY_TERMINAL_MODES_H
#define BAILIFF_PTY_TERMINAL_MODES_H

/*
 * What a stream of output has left switched on in the terminal that showed it: the alternate screen, mouse reports, a
 * hidden cursor, a scroll region … A program that ends by itself cleans up behind it; one that we stop showing in the
 * middle does not, so we do it: feed every byte that was written to the terminal, and write what
 * terminal_modes_write_reset says when leaving. A terminal that comes to show the program later is brought to the same
 * state with terminal_modes_write_restore.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

struct terminal_modes {
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
#define TERMINAL_MODES_INIT ((struct terminal_modes){ 0 })

void terminal_modes_feed(struct terminal_modes *t, const char *bytes, size_t n);
void terminal_modes_break(struct terminal_modes *t);                              /* bytes are missing here */
bool terminal_modes_is_default(const struct terminal_modes *t);                   /* there is nothing to undo */
bool terminal_modes_is_alternate(const struct terminal_modes *t);                 /* the alternate screen is shown */
void terminal_modes_write_reset(const struct terminal_modes *t, struct buf *out); /* appends nothing when it is clean */
/* But for which screen is shown, the cursor's looks, colours and character sets. Moves the cursor. */
void terminal_modes_write_restore(const struct terminal_modes *t, struct buf *out);

#endif
