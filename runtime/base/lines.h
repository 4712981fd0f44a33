#ifndef BAILIFF_BASE_LINES_H
#define BAILIFF_BASE_LINES_H

/*
 * Bytes in any pieces to lines. A line that is longer than `max` is announced once and the rest of it skipped, so that
 * the connection goes on after it. Holds no memory while there is no unfinished line.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct lines {
	struct buf buf;
	size_t start;   /* of the first line that was not given yet */
	size_t scanned; /* no newline before this */
	size_t max;
	bool skipping; /* inside a line that was given up */
};

enum lines_next { LINES_NONE, LINES_LINE, LINES_TOO_LONG };

void lines_init(struct lines *l, size_t max);
void lines_done(struct lines *l);
void lines_add(struct lines *l, const void *p, size_t n);
/* The line is valid until the next lines_add; without its newline. */
enum lines_next lines_next(struct lines *l, const char **ret_line, size_t *ret_len);
/* At end of file: what came after the last newline, if anything. */
enum lines_next lines_rest(struct lines *l, const char **ret_line, size_t *ret_len);
/* Gives up the unfinished line: what is left of it is skipped when it comes. */
void lines_skip(struct lines *l);
size_t lines_buffered(const struct lines *l);

#endif
