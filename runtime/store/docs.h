#ifndef BAILIFF_STORE_DOCS_H
#define BAILIFF_STORE_DOCS_H

/* Documents of read models in memory, which hide those of a table (internal to runtime/store): used by speculative.h,
 * layer.h and memory_models_new. */

#include "runtime/store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_ID_MAX 480

struct buf;

/* A hash table of documents by kind and id. Zeroed memory is an empty one. */
struct docs {
	struct doc **slots;
	size_t nslots, count;
	uint64_t kinds[4];  /* a bit for each kind that may be among them: most scans find none in most maps */
	uint64_t hashes[4]; /* a bit for each of 256 classes of hashes, for lookups */
	/* The documents, and what docs_keep has copied, are in a few blocks that docs_done frees; nothing is freed
	 * before. */
	bool in_blocks;
	struct docs_block *blocks;
};

/* What to look for in several maps; points to the id. */
struct docs_key {
	uint8_t kind;
	const char *id;
	size_t id_len;
	uint64_t hash;
};

struct doc {
	struct doc *next; /* in its slot */
	uint64_t hash;
	uint64_t ordinal; /* of the batch or group that wrote it last */
	bool gone;        /* deleted: hides the document below */
	uint8_t kind;
	const char *json; /* NULL = only `kept` is there (docs_text) */
	size_t len, id_len;
	const struct model_form *form; /* of `kept` */
	void *kept;                    /* the document as a struct; NULL = it is known as text only */
	char id[];                     /* with NUL; the text or the struct follows */
};

void docs_done(struct docs *d);                                                   /* leaves it empty and usable */
void docs_key(uint8_t kind, const char *id, size_t id_len, struct docs_key *ret); /* id_len up to MODEL_ID_MAX */
/* NULL = unknown here: look below. */
struct doc *docs_find(const struct docs *d, const struct docs_key *key);
void docs_put(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len, const char *json,
	      size_t len);
/*
 * With `in_blocks` only. The document as a struct of this form, which the caller fills in. The pointers in it must stay
 * valid as long as the documents: docs_keep copies a text for that. Call docs_check_sizes after the last change.
 */
void *docs_put_struct(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len,
		      const struct model_form *form);
const char *docs_keep(struct docs *d, const char *text, size_t len);
void docs_encode(struct docs *d, struct doc *n); /* gives it a text, before other threads see the documents */
/* Fails if a text is, or would be, longer than `max`. `group`: how many bytes structs point to, outside of the blocks.
 */
int docs_check_sizes(struct docs *d, size_t group, size_t max, struct err *e);
/* Its text; of a struct it is encoded in `space`. Any thread. */
const char *docs_text(const struct doc *n, struct buf *space, size_t *ret_len);
void docs_del(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len);
/* Removes what was written up to this ordinal. */
void docs_sweep(struct docs *d, uint64_t ordinal);

/* The documents of several maps; if more than one map has a document, the first one counts. */
struct docs_list {
	const struct doc **all;
	size_t count;
	const struct doc **seen; /* those in `all`, by their hash */
	size_t nseen;            /* slots; 0 or a power of two */
};
#define DOCS_LIST_INIT ((struct docs_list){ 0 })
/* kind −1 = all kinds; prefix NULL = all ids. */
void docs_list_add(struct docs_list *l, const struct docs *d, int kind, const char *prefix);
void docs_list_sort(struct docs_list *l, bool descending);
void docs_list_done(struct docs_list *l);
#define docs_list_auto __attribute__((cleanup(docs_list_done)))

#endif
