/*
 * A runtime that aborts is restarted by the guard and recovers from the store. That is safer than error paths that no
 * test reaches.
 */

#include "runtime/base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Uses neither stdio nor the log, which allocate. */
static void *mem_check(void *p)
{
	static const char text[] = "out of memory\n";

	if (p)
		return p;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
		/* the message is best effort */
	}
	abort();
}

void *mem_alloc(size_t size) { return mem_check(malloc(size ? size : 1)); }

void *mem_aligned(size_t alignment, size_t size) { return mem_check(aligned_alloc(alignment, size)); }

void *mem_zalloc(size_t count, size_t size)
{
	size_t all;

	if (!count || !size)
		count = size = 1;
	if (!__builtin_mul_overflow(count, size, &all) && all <= MEM_CACHED_MAX)
		return memset(mem_alloc(all), 0, all);
	return mem_check(calloc(count, size));
}

void *mem_realloc(void *p, size_t size) { return mem_check(realloc(p, size ? size : 1)); }

void *mem_dup(const void *p, size_t size)
{
	void *copy = mem_alloc(size);

	if (size)
		memcpy(copy, p, size);
	return copy;
}

char *mem_strdup(const char *s) { return s ? mem_check(strdup(s)) : NULL; }

char *mem_strndup(const char *s, size_t n) { return mem_check(strndup(s, n)); }

/* Most texts fit into `first`: one allocation of the right size, where vasprintf makes two. */
char *mem_printf(const char *fmt, ...)
{
	char first[256], *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(first, sizeof(first), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(first))
		return mem_dup(first, (size_t)n + 1);
	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return mem_check(n < 0 ? NULL : text);
}
