#ifndef BAILIFF_BASE_STRMAP_H
#define BAILIFF_BASE_STRMAP_H

/*
 * A hash map from strings (copied) to pointers (borrowed: the map never frees a value). The order of entries is
 * arbitrary. STRMAP_INIT, or zeroed memory, is an empty map; strmap_done frees the keys.
 *
 * Not for more than one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strmap_entry;

struct strmap {
	struct strmap_entry **slots;
	size_t nslots;
	size_t count;
	unsigned iterating; /* running strmap_each calls */
};

#define STRMAP_INIT ((struct strmap){ 0 })

void strmap_done(struct strmap *m);
void *strmap_get(const struct strmap *m, const char *key);
void *strmap_put(struct strmap *m, const char *key, void *value); /* returns the previous value or NULL */
void *strmap_del(struct strmap *m, const char *key);              /* returns the value or NULL */
/* Visits every entry. The callback may delete the entry that it is called for, but no other, and must not add any. */
void strmap_each(struct strmap *m, void (*fn)(void *ctx, const char *key, void *value), void *ctx);
/*
 * For callbacks that call other modules: collects the keys first, then visits those that still exist. The callback may
 * change the map in any way; entries that it adds are not visited.
 */
void strmap_visit(struct strmap *m, void (*fn)(void *ctx, const char *key, void *value), void *ctx);

#endif
