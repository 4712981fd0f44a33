#ifndef BAILIFF_PTY_SANITIZE_H
#define BAILIFF_PTY_SANITIZE_H

/*
 * A terminal's output as plain text for a reader's terminal: control sequences are left out, lines end with newlines,
 * and no control character comes through (those that mean nothing here become visible as \xNN). A line that is written
 * over, as by a progress bar, becomes a line for each time.
 *
 * Nothing can be hidden behind a sequence that never ends: the end of a line ends it, too.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;

struct sanitize {
	/* private */
	int state;
	bool returned; /* the cursor is back at the line's first column */
	bool written;  /* something stands in this line */
	char carry[4]; /* the beginning of a character */
	size_t ncarry;
};
#define SANITIZE_INIT ((struct sanitize){ 0 })

/* Bytes, cut anywhere; appends what can be shown. */
void sanitize_feed(struct sanitize *s, const char *bytes, size_t n, struct buf *out);
/* There is nothing more: half a character is shown after all. */
void sanitize_end(struct sanitize *s, struct buf *out);

#endif
