#ifndef BAILIFF_SANDBOX_DIFF_H
#define BAILIFF_SANDBOX_DIFF_H

/*
 * Unified diffs of two texts, as patch(1) and git understand them. Pure: bytes in, bytes out. The shortest script where
 * that is cheap to find (Myers); where the texts have too little in common, everything between their common beginning
 * and end is shown as replaced, which is right too, only longer.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;

#define DIFF_CONTEXT 3u

/* No NUL in it: what grep and git call text. */
bool diff_is_text(const char *p, size_t n);

/* Appends the hunks ("@@ -1,3 +1,4 @@" …) without a file header; false if the texts are equal, and nothing was
 * appended. */
bool diff_unified(const char *a, size_t an, const char *b, size_t bn, struct buf *out);

/*
 * Appends a name for a header, as git writes it: "a/" or "b/" and the path, in quotes and with escapes if there is
 * something in it that would end the line or be taken for a quote. Whoever may name files must not write headers by
 * that.
 */
void diff_name(const char *side, const char *path, struct buf *out);

#endif
