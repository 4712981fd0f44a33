#ifndef BAILIFF_TESTS_PATCH_H
#define BAILIFF_TESTS_PATCH_H

/* Applies the hunks of a unified diff, strictly: for tests of code that writes diffs. */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct patch {
	const char *a, *a_end; /* the rest of the old text */
	const char *d, *d_end; /* the rest of the diff */
	struct buf *out;
};

static inline size_t patch_line(const char *p, const char *end)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));
	return nl ? (size_t)(nl - p) + 1 : (size_t)(end - p);
}

/* The current line of the diff without its sign; returns how much of it belongs to the file. */
static inline size_t patch_body(struct patch *p, const char **ret)
{
	static const char none[] = "\\ No newline at end of file\n";
	size_t n = patch_line(p->d, p->d_end);
	*ret = p->d + 1;
	p->d += n;
	if ((size_t)(p->d_end - p->d) >= sizeof none - 1 && memcmp(p->d, none, sizeof none - 1) == 0) {
		p->d += sizeof none - 1;
		return n - 2;
	}
	return n - 1;
}

static inline bool patch_take(struct patch *p, const char *text, size_t n)
{
	if ((size_t)(p->a_end - p->a) < n || memcmp(p->a, text, n) != 0)
		return false;
	p->a += n;
	return true;
}

static inline bool patch_apply(const char *a, size_t an, const char *diff, size_t dn, struct buf *out)
{
	struct patch p = { a, a + an, diff, diff + dn, out };
	size_t at = 0; /* lines of the old text already copied */
	while (p.d < p.d_end) {
		char *comma;
		if ((size_t)(p.d_end - p.d) < 5 || memcmp(p.d, "@@ -", 4) != 0)
			return false;
		unsigned long from = strtoul(p.d + 4, &comma, 10);
		if (strncmp(comma, ",0 ", 3) != 0)
			from--; /* an empty range names the line before */
		p.d += patch_line(p.d, p.d_end);
		for (; at < from; at++) {
			size_t n = patch_line(p.a, p.a_end);
			buf_append(out, p.a, n);
			p.a += n;
		}
		while (p.d < p.d_end && *p.d != '@') {
			const char *text;
			char sign = *p.d;
			size_t n = patch_body(&p, &text);
			if (sign != '+' && !patch_take(&p, text, n))
				return false;
			at += sign != '+';
			if (sign != '-')
				buf_append(out, text, n);
		}
	}
	buf_append(out, p.a, (size_t)(p.a_end - p.a));
	return true;
}

#endif
