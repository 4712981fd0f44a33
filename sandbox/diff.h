#ifndef BAILIFF_SANDBOX_DIFF_H
#define BAILIFF_SANDBOX_DIFF_H

/*
 * Unified diffs of two texts, as patch(1) and git read them. Pure: bytes in, bytes out. It finds the shortest edit
 * script if that is cheap (Myers). If the texts have too little in common, everything between their common prefix and
 * suffix is shown as replaced, which is correct but longer.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;

#define DIFF_CONTEXT 3u

/* True if it contains no NUL, which is how grep and git define text. */
bool diff_is_text(const char *p, size_t n);

/*
 * Appends the hunks ("@@ -1,3 +1,4 @@" …) without a file header; false, with nothing appended, if the texts are equal.
 */
bool diff_unified(const char *a, size_t an, const char *b, size_t bn, struct buf *out);

/*
 * Appends a name for a header in git's format: "a/" or "b/" and the path, quoted and escaped if it contains characters
 * that would end the line or look like a quote. File names are untrusted and must not be able to forge headers.
 */
void diff_name(const char *side, const char *path, struct buf *out);

#endif
