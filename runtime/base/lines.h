#ifndef BAILIFF_BASE_LINES_H
#define BAILIFF_BASE_LINES_H

/*
 * Splits bytes that arrive in pieces into lines. A line longer than `max` is reported once and its rest skipped, so
 * that the connection can continue after it. Uses no memory while there is no unfinished line.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct lines {
	struct buf buf;
	size_t start;   /* of the first line that was not returned yet */
	size_t scanned; /* there is no newline before this offset */
	size_t max;
	bool skipping; /* inside a line that is skipped */
};

enum lines_next { LINES_NONE, LINES_LINE, LINES_TOO_LONG };

void lines_init(struct lines *l, size_t max);
void lines_done(struct lines *l);
void lines_add(struct lines *l, const void *p, size_t n);
/* The line is valid until the next lines_add; without its newline. */
enum lines_next lines_next(struct lines *l, const char **ret_line, size_t *ret_len);
/* At end of file: the bytes after the last newline, if any. */
enum lines_next lines_rest(struct lines *l, const char **ret_line, size_t *ret_len);
/* Drops the unfinished line; its remaining bytes are skipped when they arrive. */
void lines_skip(struct lines *l);
size_t lines_buffered(const struct lines *l);

#endif
