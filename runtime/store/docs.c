#include "runtime/store/docs.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

struct docs_text {
	struct docs_text *next;
	size_t used, size;
	char bytes[];
};
#define TEXT_BYTES 4000u /* at least, in one allocation */

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
	while (d->texts) {
		struct docs_text *t = d->texts;

		d->texts = t->next;
		free(t);
	}
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

/*
 * The caller fills in the text or the struct or, for a deleted document, the marker that hides older versions below.
 */
static struct doc *replace_doc(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len,
			       const struct model_form *form)
{
	const size_t align = alignof(max_align_t), at = (sizeof(struct doc) + id_len + align) / align * align;
	struct doc *n = mem_alloc(at + (form ? form->size : 0));
	char key[MODEL_ID_MAX + 2];

	*n = (struct doc){ .ordinal = ordinal, .kind = kind, .id_len = id_len, .form = form };
	n->kept = form ? (char *)n + at : NULL;
	memcpy(n->id, id, id_len);
	n->id[id_len] = '\0';
	make_key(kind, id, id_len, key);
	const uint64_t hash = strmap_hash(key);
	doc_free(strmap_put(&d->entries, key, n));
	d->kinds[kind / 64] |= 1ull << kind % 64;
	d->hashes[hash >> 62] |= 1ull << (hash >> 56 & 63);
	return n;
}

/* Every read searches all layers. */
struct doc *docs_find(const struct docs *d, const struct docs_key *key)
{
	return may_have_hash(d, key->hash) ? strmap_get_hashed(&d->entries, key->text, key->hash) : NULL;
}

void docs_put(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len, const char *json,
	      size_t len)
{
	char *copy = mem_strndup(json, len); /* first: `json` may point into the document that is replaced */
	struct doc *n = replace_doc(d, ordinal, kind, id, id_len, NULL);

	n->json = copy;
	n->len = len;
}

void *docs_put_struct(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len,
		      const struct model_form *form)
{
	struct docs_key key;
	struct doc *n;

	docs_key(kind, id, id_len, &key);
	n = docs_find(d, &key);
	if (!n || n->form != form)
		return replace_doc(d, ordinal, kind, id, id_len, form)->kept;
	n->ordinal = ordinal;
	free(mem_take(&n->json));
	return n->kept;
}

static bool is_inside(const char *text, const char *bytes, size_t n)
{
	return (uintptr_t)text >= (uintptr_t)bytes && (uintptr_t)text < (uintptr_t)bytes + n;
}

const char *docs_keep(struct docs *d, const char *text, size_t len)
{
	struct docs_text *t;

	for (t = d->texts; t; t = t->next)
		if (is_inside(text, t->bytes, t->used))
			return text;
	t = d->texts;
	if (!t || t->size - t->used < len) {
		size_t size = len > TEXT_BYTES ? len : TEXT_BYTES;

		t = mem_alloc(sizeof(*t) + size);
		*t = (struct docs_text){ .next = d->texts, .size = size };
		d->texts = t;
	}
	text = memcpy(t->bytes + t->used, text, len);
	t->used += len;
	return text;
}

static void encode_doc(struct doc *n, struct buf *text)
{
	buf_reset(text);
	n->form->encode(n->form, n->kept, text);
	n->json = mem_strndup(text->data, text->len);
	n->len = text->len;
}

void docs_encode(struct doc *n)
{
	buf_auto struct buf text = BUF_INIT;

	if (n->form && !n->json)
		encode_doc(n, &text);
}

struct encoding {
	struct buf text;
	const struct doc *longest;
};

static void encode_value(void *ctx, const char *key, void *value)
{
	struct encoding *c = ctx;
	struct doc *n = value;

	if (n->form && !n->json)
		encode_doc(n, &c->text);
	if (!c->longest || n->len > c->longest->len)
		c->longest = n;
}

int docs_encode_all(struct docs *d, size_t max, struct err *e)
{
	struct encoding c = { .text = BUF_INIT };

	buf_reserve(&c.text, 2000);
	strmap_each(&d->entries, encode_value, &c);
	buf_done(&c.text);
	if (c.longest && c.longest->len > max)
		return err_set(e, ERR_EXHAUSTED, "a document of %zu bytes is too large for the store", c.longest->len);
	return 0;
}

void docs_del(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len)
{
	replace_doc(d, ordinal, kind, id, id_len, NULL)->gone = true;
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
