#ifndef BAILIFF_POLICY_ARENA_H
#define BAILIFF_POLICY_ARENA_H

/*
 * Memory that is freed all at once, for the many small objects of one parse. It is not shared between threads.
 * Allocation never fails (out of memory aborts); callers limit the sizes that depend on outside input.
 */

#include <stddef.h>

struct shell_arena;

struct shell_arena *shell_arena_new(void);
void shell_arena_free(struct shell_arena *a);
void *shell_arena_alloc(struct shell_arena *a, size_t size); /* zeroed */
/* Copies with a terminating NUL; `s` may contain others. */
char *shell_arena_strndup(struct shell_arena *a, const char *s, size_t n);
char *shell_arena_strdup(struct shell_arena *a, const char *s);
/*
 * Makes space for one more element in an array of the arena that has `count`; grows by doubling. Returns the array. The
 * old array stays valid but is no longer updated: pointers into it must not be kept across a call. `count` must be the
 * number of elements that were added in this way, one at a time.
 */
void *shell_arena_grow(struct shell_arena *a, void *array, size_t count, size_t size);

#endif
