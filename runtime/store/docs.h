#ifndef BAILIFF_STORE_DOCS_H
#define BAILIFF_STORE_DOCS_H

/* Model documents in memory that lie over those of a table (internal to runtime/store): of speculative.h, layer.h and
 * memory_models.h. */

#include "runtime/base/strmap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct docs {
	struct strmap entries; /* "<kind byte><id>" → struct doc */
};

struct doc {
	uint64_t ordinal; /* of what wrote it last */
	bool gone;
	char *json;
	size_t len, id_len;
	uint8_t kind;
	char id[]; /* with its NUL */
};

void docs_done(struct docs *d); /* it is empty then */
/* 0 found, 1 known to be gone, 2 nothing known here: what lies below counts. */
int docs_get(const struct docs *d, uint8_t kind, const char *id, size_t id_len, const char **ret, size_t *ret_len);
void docs_put(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len, const char *json,
	      size_t len);
void docs_del(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len);
/* Forgets what was written up to this ordinal. */
void docs_sweep(struct docs *d, uint64_t ordinal);

/* Documents of several maps in id order, where the first map that has one counts. */
struct docs_list {
	const struct doc **all;
	size_t count;
	struct strmap seen; /* of the maps before */
};
#define DOCS_LIST_INIT ((struct docs_list){ 0 })
/* kind −1: all of them. `prefix` NULL: any id. */
void docs_list_add(struct docs_list *l, const struct docs *d, int kind, const char *prefix);
void docs_list_sort(struct docs_list *l, bool descending);
void docs_list_done(struct docs_list *l);
#define docs_list_auto __attribute__((cleanup(docs_list_done)))

#endif
