#ifndef BAILIFF_POLICY_ARENA_H
#define BAILIFF_POLICY_ARENA_H

/* Memory that is freed all at once, for the many small objects of one parse. */

#include <stddef.h>

struct shell_arena;

struct shell_arena *shell_arena_new(void);
void shell_arena_free(struct shell_arena *a);
void *shell_arena_alloc(struct shell_arena *a, size_t size); /* zeroed */
char *shell_arena_strndup(struct shell_arena *a, const char *s, size_t n);
char *shell_arena_strdup(struct shell_arena *a, const char *s);
/* Makes space for one more element in an array of the arena that has `count`; grows by doubling. Returns the array. */
void *shell_arena_grow(struct shell_arena *a, void *array, size_t count, size_t size);

#endif
