#ifndef BAILIFF_STORE_DOCS_H
#define BAILIFF_STORE_DOCS_H

/* Documents of read models in memory, which hide those of a table (internal to runtime/store): used by speculative.h,
 * layer.h and memory_models_new. */

#include "runtime/base/strmap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_ID_MAX 480

struct docs {
	struct strmap entries; /* "<kind byte><id>" → struct doc */
	uint64_t kinds[4];     /* a bit for each kind that may be among them: most scans find none in most maps */
	uint64_t hashes[4];    /* a bit for each of 256 classes of hashes, for lookups */
};

/* What to look for in several maps. */
struct docs_key {
	uint8_t kind;
	uint64_t hash;
	char text[MODEL_ID_MAX + 2];
};

struct doc {
	uint64_t ordinal; /* of the batch or group that wrote it last */
	bool gone;        /* deleted: hides the document below */
	char *json;
	size_t len, id_len;
	uint8_t kind;
	char id[]; /* with NUL */
};

void docs_done(struct docs *d); /* leaves it empty and usable */
/* 0 found, 1 deleted here, 2 unknown here: look below. */
void docs_key(uint8_t kind, const char *id, size_t id_len, struct docs_key *ret); /* id_len up to MODEL_ID_MAX */
int docs_get(const struct docs *d, const struct docs_key *key, const char **ret, size_t *ret_len);
void docs_put(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len, const char *json,
	      size_t len);
void docs_del(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len);
/* Removes what was written up to this ordinal. */
void docs_sweep(struct docs *d, uint64_t ordinal);

/* The documents of several maps; if more than one map has a document, the first one counts. */
struct docs_list {
	const struct doc **all;
	size_t count;
	struct strmap seen; /* those already in `all` */
};
#define DOCS_LIST_INIT ((struct docs_list){ 0 })
/* kind −1 = all kinds; prefix NULL = all ids. */
void docs_list_add(struct docs_list *l, const struct docs *d, int kind, const char *prefix);
void docs_list_sort(struct docs_list *l, bool descending);
void docs_list_done(struct docs_list *l);
#define docs_list_auto __attribute__((cleanup(docs_list_done)))

#endif
