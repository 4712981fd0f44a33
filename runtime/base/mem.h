#ifndef BAILIFF_BASE_MEM_H
#define BAILIFF_BASE_MEM_H

/*
 * Memory that is there. Running out of memory ends the process (the guard starts it again), so no caller checks;
 * sizes that come from outside are capped before they reach this layer.
 */

#include <stddef.h>
#include <stdlib.h>

void *mem_alloc(size_t size);                     /* not zeroed */
void *mem_aligned(size_t alignment, size_t size); /* not zeroed; size is a multiple of it */
void *mem_zalloc(size_t count, size_t size);      /* zeroed; aborts on overflow */
void *mem_realloc(void *p, size_t size);
void *mem_dup(const void *p, size_t size);
char *mem_strdup(const char *s); /* NULL gives NULL */
char *mem_strndup(const char *s, size_t n);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static inline void mem_autofree(void *p) { free(*(void **)p); }
#define mem_auto __attribute__((cleanup(mem_autofree)))

/* Hands a pointer over and leaves NULL behind. */
#define mem_take(pp)                          \
	({                                    \
		__typeof__(*(pp)) p_ = *(pp); \
		*(pp) = NULL;                 \
		p_;                           \
	})

#define countof(a) (sizeof(a) / sizeof((a)[0]))

#endif
