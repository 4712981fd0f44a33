#ifndef BAILIFF_PTY_SANITIZE_H
#define BAILIFF_PTY_SANITIZE_H

/*
 * A terminal's output as plain text that is safe to print on another terminal: control sequences are removed, lines end
 * with newlines, and no control character passes (those without a meaning here become visible as \xNN). A line that is
 * overwritten, for example by a progress bar, becomes one line for each version.
 *
 * An unterminated sequence cannot hide text: the end of a line ends it.
 */

#include "runtime/base/text.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;

struct sanitize {
	/* private */
	int state;
	bool returned; /* the cursor is back in column 0 */
	bool written;  /* the line has text */
	struct text_stream text;
};
#define SANITIZE_INIT ((struct sanitize){ 0 })

/* Takes bytes, split anywhere; appends the printable text. */
void sanitize_feed(struct sanitize *s, const char *bytes, size_t n, struct buf *out);
/* At the end of input: prints an incomplete character. */
void sanitize_end(struct sanitize *s, struct buf *out);

#endif
