#include "runtime/store/docs.h"

#include "runtime/base/mem.h"

#include <stdlib.h>
#include <string.h>

static void doc_free(struct doc *n)
{
	if (!n)
		return;
	free(n->json);
	free(n);
}

static void free_value(void *ctx, const char *key, void *value) { doc_free(value); }

void docs_done(struct docs *d)
{
	strmap_each(&d->entries, free_value, NULL);
	strmap_done(&d->entries);
	memset(d->kinds, 0, sizeof(d->kinds));
	memset(d->hashes, 0, sizeof(d->hashes));
}

static bool may_have_kind(const struct docs *d, uint8_t kind) { return d->kinds[kind / 64] >> kind % 64 & 1; }

/* By the upper bits of the hash; the lower ones select the slot of the map. */
static bool may_have_hash(const struct docs *d, uint64_t hash)
{
	return d->hashes[hash >> 62] >> (hash >> 56 & 63) & 1;
}

static void make_key(uint8_t kind, const char *id, size_t id_len, char key[MODEL_ID_MAX + 2])
{
	key[0] = (char)kind;
	memcpy(key + 1, id, id_len);
	key[1 + id_len] = '\0';
}

void docs_key(uint8_t kind, const char *id, size_t id_len, struct docs_key *ret)
{
	ret->kind = kind;
	make_key(kind, id, id_len, ret->text);
	ret->hash = strmap_hash(ret->text);
}

/* The caller fills in the text or, for a deleted document, the marker that hides older versions below. */
static struct doc *replace_doc(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len)
{
	struct doc *n = mem_zalloc(1, sizeof(*n) + id_len + 1);
	char key[MODEL_ID_MAX + 2];

	n->ordinal = ordinal;
	n->kind = kind;
	n->id_len = id_len;
	memcpy(n->id, id, id_len);
	make_key(kind, id, id_len, key);
	const uint64_t hash = strmap_hash(key);
	doc_free(strmap_put(&d->entries, key, n));
	d->kinds[kind / 64] |= 1ull << kind % 64;
	d->hashes[hash >> 62] |= 1ull << (hash >> 56 & 63);
	return n;
}

/* Every read searches all layers. */
int docs_get(const struct docs *d, const struct docs_key *key, const char **ret, size_t *ret_len)
{
	const struct doc *n = may_have_hash(d, key->hash) ? strmap_get_hashed(&d->entries, key->text, key->hash) : NULL;

	if (!n)
		return 2;
	if (n->gone)
		return 1;
	*ret = n->json;
	*ret_len = n->len;
	return 0;
}

void docs_put(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len, const char *json,
	      size_t len)
{
	char *copy = mem_strndup(json, len); /* first: `json` may point into the document that is replaced */
	struct doc *n = replace_doc(d, ordinal, kind, id, id_len);

	n->json = copy;
	n->len = len;
}

void docs_del(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len)
{
	replace_doc(d, ordinal, kind, id, id_len)->gone = true;
}

struct sweep {
	struct docs *docs;
	uint64_t ordinal;
};

static void sweep_doc(void *ctx, const char *key, void *value)
{
	struct sweep *w = ctx;
	struct doc *n = value;

	if (n->ordinal <= w->ordinal)
		doc_free(strmap_del(&w->docs->entries, key));
}

void docs_sweep(struct docs *d, uint64_t ordinal)
{
	struct sweep w = { d, ordinal };

	if (d->entries.count)
		strmap_each(&d->entries, sweep_doc, &w);
}

/* ---- listing ---- */

struct doc_filter {
	struct docs_list *list;
	int kind;
	const char *prefix;
	size_t prefix_len;
};

static void collect_doc(void *ctx, const char *key, void *value)
{
	struct doc_filter *g = ctx;

	if (g->kind >= 0 && (uint8_t)key[0] != g->kind)
		return;
	if (strncmp(key + 1, g->prefix, g->prefix_len) != 0 || strmap_get(&g->list->seen, key))
		return;
	strmap_put(&g->list->seen, key, value);
	g->list->all[g->list->count++] = value;
}

void docs_list_add(struct docs_list *l, const struct docs *d, int kind, const char *prefix)
{
	struct doc_filter g = { .list = l, .kind = kind, .prefix = prefix ? prefix : "" };

	if (d->entries.count == 0 || (kind >= 0 && !may_have_kind(d, (uint8_t)kind)))
		return;
	g.prefix_len = strlen(g.prefix);
	l->all = mem_realloc(l->all, (l->count + d->entries.count) * sizeof(*l->all));
	strmap_each((struct strmap *)(uintptr_t)&d->entries, collect_doc, &g);
}

static int compare_ids(const void *a, const void *b)
{
	const struct doc *const *x = a, *const *y = b;

	return strcmp((*x)->id, (*y)->id);
}

static int compare_ids_descending(const void *a, const void *b) { return compare_ids(b, a); }

void docs_list_sort(struct docs_list *l, bool descending)
{
	if (l->count > 1)
		qsort(l->all, l->count, sizeof(*l->all), descending ? compare_ids_descending : compare_ids);
}

void docs_list_done(struct docs_list *l)
{
	free(l->all);
	strmap_done(&l->seen);
	*l = DOCS_LIST_INIT;
}
