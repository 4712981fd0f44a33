#ifndef BAILIFF_PTY_EXCERPT_H
#define BAILIFF_PTY_EXCERPT_H

/*
 * The part of a stream that a model is shown: all of it, or, if it exceeds the budget, its head and tail with the
 * number of bytes omitted in between. Several streams share one budget; short ones are shown whole before long ones are
 * cut.
 *
 * Offsets and counts refer to the bytes of the stream. The text is sanitised: terminal sequences are removed,
 * characters are never split, and control characters are removed or escaped; the resource has the exact bytes. Of
 * binary output only the beginning is shown.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define EXCERPT_MAX 1000000u /* the largest budget: at most two reads from the daemon */

struct excerpt {
	char stream[16]; /* stdout, stderr, pty */
	char ref[72];
	uint64_t from, total;   /* the range of bytes to report */
	uint64_t head, tail;    /* how many bytes of its head and tail are shown */
	struct buf first, last; /* the bytes of head and tail */
	bool open;  /* more output may follow, so an incomplete character at the end is left for the next excerpt */
	bool lines; /* cut at line ends where there are some near the cut */
};

/* Divides the budget: sets head and tail of each excerpt. */
void excerpt_plan(struct excerpt *x, size_t n, size_t budget);
/* The exact number of bytes omitted, including those of characters that were split. */
uint64_t excerpt_omitted(const struct excerpt *x);
/* Where the omitted part begins: the offset after the last byte of the head that is shown. */
uint64_t excerpt_head_end(const struct excerpt *x);
/* The offset of the next excerpt: after the last complete character if more output may follow. */
uint64_t excerpt_end(const struct excerpt *x);
/* The text; requires first and last. */
void excerpt_text(const struct excerpt *x, struct buf *out);
void excerpt_done(struct excerpt *x);

/* The last line that is not blank, sanitised and at most `most` bytes long; for progress. */
void excerpt_last_line(const char *bytes, size_t n, size_t most, struct buf *out);

#endif
