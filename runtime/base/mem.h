#ifndef BAILIFF_BASE_MEM_H
#define BAILIFF_BASE_MEM_H

/*
 * Allocation that cannot fail: out of memory aborts the process, and the guard restarts it. Sizes from outside are
 * capped before they reach this layer.
 */

#include <stddef.h>
#include <stdlib.h>

/*
 * glibc's malloc caches freed blocks of up to this size for each thread. Its calloc and realloc do not take from that
 * cache (until 2.41), so small blocks are better allocated with malloc.
 */
#define MEM_CACHED_MAX 1024u

void *mem_alloc(size_t size);                     /* not zeroed */
void *mem_aligned(size_t alignment, size_t size); /* not zeroed; size is a multiple of alignment */
void *mem_zalloc(size_t count, size_t size);      /* zeroed; aborts on overflow */
void *mem_realloc(void *p, size_t size);
void *mem_dup(const void *p, size_t size);
char *mem_strdup(const char *s); /* NULL for NULL */
char *mem_strndup(const char *s, size_t n);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static inline void mem_autofree(void *p) { free(*(void **)p); }
#define mem_auto __attribute__((cleanup(mem_autofree)))

/* Returns the pointer and sets the variable to NULL. */
#define mem_take(pp)                          \
	({                                    \
		__typeof__(*(pp)) p_ = *(pp); \
		*(pp) = NULL;                 \
		p_;                           \
	})

#define countof(a) (sizeof(a) / sizeof((a)[0]))

#endif
