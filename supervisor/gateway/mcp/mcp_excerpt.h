#ifndef BAILIFF_MCP_EXCERPT_H
#define BAILIFF_MCP_EXCERPT_H

/*
 * What a model is shown of a stream: all of it, or, where that is more than the budget, its beginning and its end with
 * what lies between counted. Several streams share one budget; a short one is shown whole before a long one is cut.
 *
 * Offsets and counts are of the stream's own bytes. The text is made readable: sequences for terminals are left out,
 * characters are whole, and no control character comes through; the exact bytes are in the resource. Of what is no text
 * at all only the beginning is shown.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define MCP_EXCERPT_MAX 1000000u /* the largest budget: two reads of the daemon's at most */

struct mcp_excerpt {
	char stream[16]; /* stdout, stderr, pty */
	char ref[72];
	uint64_t from, total;   /* what is to be told: the bytes from here to here */
	uint64_t head, tail;    /* … of which so many from the beginning, and so many of the end, are shown */
	struct buf first, last; /* their bytes */
	bool open;              /* more may come: a character that is not complete yet is left for then */
};

/* Divides the budget: sets head and tail of each. */
void mcp_excerpt_plan(struct mcp_excerpt *x, size_t n, size_t budget);
/* Of what lies between, exactly: also the bytes of characters that were cut in two. */
uint64_t mcp_excerpt_omitted(const struct mcp_excerpt *x);
/* Where the next excerpt begins: behind the last whole character, if more may come. */
uint64_t mcp_excerpt_end(const struct mcp_excerpt *x);
/* The text, once first and last are there. */
void mcp_excerpt_text(const struct mcp_excerpt *x, struct buf *out);
void mcp_excerpt_done(struct mcp_excerpt *x);

/* The last line with something in it, readable and at most `most` bytes long; for progress. */
void mcp_excerpt_last_line(const char *bytes, size_t n, size_t most, struct buf *out);

#endif
