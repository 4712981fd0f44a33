#ifndef BAILIFF_BASE_STRMAP_H
#define BAILIFF_BASE_STRMAP_H

/* A hash map from strings (copied) to pointers (borrowed). */

#include <stdbool.h>
#include <stddef.h>

struct strmap_entry;

struct strmap {
	struct strmap_entry **slots;
	size_t nslots;
	size_t count;
	unsigned iterating; /* strmap_each calls under way */
};

#define STRMAP_INIT ((struct strmap){ 0 })

void strmap_done(struct strmap *m);
void *strmap_get(const struct strmap *m, const char *key);
void *strmap_put(struct strmap *m, const char *key, void *value); /* returns the earlier value or NULL */
void *strmap_del(struct strmap *m, const char *key);              /* returns what was there or NULL */
/* Visits every entry; the callback may delete the entry it is called for, no other, and adds none (asserted). */
void strmap_each(struct strmap *m, void (*fn)(void *ctx, const char *key, void *value), void *ctx);
/*
 * For callbacks that leave this module: collects the keys first, then visits those that are still there. The callback
 * may change the map in any way; what it adds is not visited.
 */
void strmap_visit(struct strmap *m, void (*fn)(void *ctx, const char *key, void *value), void *ctx);

#endif
