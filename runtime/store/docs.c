#include "runtime/store/docs.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 32u
#define FIRST_BLOCK 4000u /* bytes: enough for a group of few events */
#define NEXT_BLOCK 16000u

struct docs_block {
	struct docs_block *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

/* ---- memory ---- */

static void *allocate(struct docs *d, size_t n)
{
	struct docs_block *b = d->blocks;
	void *p;

	if (!d->in_blocks)
		return mem_alloc(n);
	n = (n + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
	if (!b || b->size - b->used < n) {
		size_t size = b ? NEXT_BLOCK : FIRST_BLOCK;

		if (size < n)
			size = n;
		b = mem_alloc(sizeof(*b) + size);
		b->next = d->blocks;
		b->used = 0;
		b->size = size;
		d->blocks = b;
	}
	p = b->bytes + b->used;
	b->used += n;
	return p;
}

static void release(const struct docs *d, struct doc *n)
{
	if (!d->in_blocks)
		free(n);
}

static bool is_in_blocks(const struct docs *d, const char *text)
{
	for (const struct docs_block *b = d->blocks; b; b = b->next)
		if ((uintptr_t)text >= (uintptr_t)b->bytes && (uintptr_t)text < (uintptr_t)b->bytes + b->used)
			return true;
	return false;
}

const char *docs_keep(struct docs *d, const char *text, size_t len)
{
	return is_in_blocks(d, text) ? text : memcpy(allocate(d, len), text, len);
}

void docs_done(struct docs *d)
{
	for (size_t i = 0; i < d->nslots && !d->in_blocks; i++)
		while (d->slots[i]) {
			struct doc *n = d->slots[i];

			d->slots[i] = n->next;
			free(n);
		}
	while (d->blocks) {
		struct docs_block *b = d->blocks;

		d->blocks = b->next;
		free(b);
	}
	free(d->slots);
	*d = (struct docs){ .in_blocks = d->in_blocks };
}

/* ---- the table ---- */

static bool may_have_kind(const struct docs *d, uint8_t kind) { return d->kinds[kind / 64] >> kind % 64 & 1; }

/* By the upper bits of the hash; the lower ones select the slot of the table. */
static bool may_have_hash(const struct docs *d, uint64_t hash)
{
	return d->hashes[hash >> 62] >> (hash >> 56 & 63) & 1;
}

void docs_key(uint8_t kind, const char *id, size_t id_len, struct docs_key *ret)
{
	*ret = (struct docs_key){ .kind = kind, .id = id, .id_len = id_len, .hash = hash64(id, id_len, kind) };
}

/* The link that points to the document, or the NULL at the end of its slot. */
static struct doc **find_link(const struct docs *d, const struct docs_key *key)
{
	struct doc **link = &d->slots[key->hash & (d->nslots - 1)];

	while (*link && ((*link)->hash != key->hash || (*link)->kind != key->kind || (*link)->id_len != key->id_len ||
			 memcmp((*link)->id, key->id, key->id_len) != 0))
		link = &(*link)->next;
	return link;
}

/* Every read searches all layers. */
struct doc *docs_find(const struct docs *d, const struct docs_key *key)
{
	return may_have_hash(d, key->hash) && d->nslots ? *find_link(d, key) : NULL;
}

static void grow_table(struct docs *d)
{
	size_t nslots = d->nslots ? 2 * d->nslots : SLOTS_MIN;
	struct doc **slots = mem_zalloc(nslots, sizeof(struct doc *));

	for (size_t i = 0; i < d->nslots; i++)
		while (d->slots[i]) {
			struct doc *n = d->slots[i];

			d->slots[i] = n->next;
			n->next = slots[n->hash & (nslots - 1)];
			slots[n->hash & (nslots - 1)] = n;
		}
	free(d->slots);
	d->slots = slots;
	d->nslots = nslots;
}

/* A document that is not in the table yet, with space for `more` bytes after its id. */
static struct doc *new_doc(struct docs *d, uint64_t ordinal, const struct docs_key *key, size_t more, void **ret_more)
{
	const size_t align = alignof(max_align_t), at = (sizeof(struct doc) + key->id_len + align) / align * align;
	struct doc *n = allocate(d, at + more);

	*n = (struct doc){ .hash = key->hash, .ordinal = ordinal, .kind = key->kind, .id_len = key->id_len };
	memcpy(n->id, key->id, key->id_len);
	n->id[key->id_len] = '\0';
	*ret_more = (char *)n + at;
	return n;
}

static void insert_doc(struct docs *d, const struct docs_key *key, struct doc *n)
{
	struct doc **link, *before;

	if (d->count >= d->nslots)
		grow_table(d);
	link = find_link(d, key);
	before = *link;
	n->next = before ? before->next : NULL;
	*link = n;
	if (before)
		release(d, before);
	else
		d->count++;
	d->kinds[n->kind / 64] |= 1ull << n->kind % 64;
	d->hashes[n->hash >> 62] |= 1ull << (n->hash >> 56 & 63);
}

void docs_put(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len, const char *json,
	      size_t len)
{
	struct docs_key key;
	struct doc *n;
	void *text;

	docs_key(kind, id, id_len, &key);
	n = new_doc(d, ordinal, &key, len + 1, &text);
	memcpy(text, json, len); /* before the document that it may point into is replaced */
	((char *)text)[len] = '\0';
	n->json = text;
	n->len = len;
	insert_doc(d, &key, n);
}

/* The marker hides older versions below. */
void docs_del(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len)
{
	struct docs_key key;
	struct doc *n;
	void *none;

	docs_key(kind, id, id_len, &key);
	n = new_doc(d, ordinal, &key, 0, &none);
	n->gone = true;
	insert_doc(d, &key, n);
}

void docs_sweep(struct docs *d, uint64_t ordinal)
{
	for (size_t i = 0; i < d->nslots; i++)
		for (struct doc **link = &d->slots[i]; *link;) {
			struct doc *n = *link;

			if (n->ordinal > ordinal) {
				link = &n->next;
				continue;
			}
			*link = n->next;
			d->count--;
			release(d, n);
		}
}

/* ---- structs ---- */

void *docs_put_struct(struct docs *d, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len,
		      const struct model_form *form)
{
	struct docs_key key;
	struct doc *n;
	void *kept;

	assert(d->in_blocks);
	docs_key(kind, id, id_len, &key);
	n = docs_find(d, &key);
	if (n && n->form == form) {
		n->ordinal = ordinal;
		n->json = NULL;
		return n->kept;
	}
	n = new_doc(d, ordinal, &key, form->size, &kept);
	n->form = form;
	n->kept = kept;
	insert_doc(d, &key, n);
	return kept;
}

void docs_encode(struct docs *d, struct doc *n)
{
	buf_auto struct buf text = BUF_INIT;

	if (!n->form || n->json)
		return;
	n->form->encode(n->form, n->kept, &text);
	n->json = memcpy(allocate(d, text.len + 1), text.data, text.len + 1);
	n->len = text.len;
}

/*
 * An estimate that never is too low: every text that a struct points to is in the group's bytes or in the blocks, a
 * struct cannot have more pointers than fit into it, and each of its other bytes takes at most EXPANSION bytes of text,
 * the names of members included.
 */
#define EXPANSION 64u

static bool may_exceed(const struct docs *d, size_t size, size_t group, size_t max)
{
	size_t bytes = group;

	for (const struct docs_block *b = d->blocks; b; b = b->next)
		bytes += b->used;
	return size * EXPANSION > max || bytes > (max - size * EXPANSION) / (size / sizeof(void *) + 1);
}

int docs_check_sizes(struct docs *d, size_t group, size_t max, struct err *e)
{
	size_t largest = 0;

	for (size_t i = 0; i < d->nslots; i++)
		for (const struct doc *n = d->slots[i]; n; n = n->next)
			if (n->form && !n->json && n->form->size > largest)
				largest = n->form->size;
	if (!may_exceed(d, largest, group, max))
		return 0;
	for (size_t i = 0; i < d->nslots; i++)
		for (struct doc *n = d->slots[i]; n; n = n->next) {
			docs_encode(d, n);
			if (n->len > max)
				return err_set(e, ERR_EXHAUSTED, "a document of %zu bytes is too large for the store",
					       n->len);
		}
	return 0;
}

const char *docs_text(const struct doc *n, struct buf *space, size_t *ret_len)
{
	if (n->json || !n->form) {
		*ret_len = n->len;
		return n->json;
	}
	buf_reset(space);
	n->form->encode(n->form, n->kept, space);
	*ret_len = space->len;
	return space->data;
}

/* ---- listing ---- */

static bool is_same(const struct doc *a, const struct doc *b)
{
	return a->hash == b->hash && a->kind == b->kind && a->id_len == b->id_len &&
	       memcmp(a->id, b->id, a->id_len) == 0;
}

/* The slot of the document, or the empty one for it. */
static const struct doc **find_seen(const struct docs_list *l, const struct doc *n)
{
	size_t i = n->hash & (l->nseen - 1);

	while (l->seen[i] && !is_same(l->seen[i], n))
		i = (i + 1) & (l->nseen - 1);
	return &l->seen[i];
}

/* For `more` documents; at most half of the slots are in use. */
static void reserve_list(struct docs_list *l, size_t more)
{
	size_t nseen = l->nseen ? l->nseen : SLOTS_MIN;

	l->all = mem_realloc(l->all, (l->count + more) * sizeof(*l->all));
	while (nseen < 2 * (l->count + more))
		nseen *= 2;
	if (nseen == l->nseen)
		return;
	free(l->seen);
	l->seen = mem_zalloc(nseen, sizeof(*l->seen));
	l->nseen = nseen;
	for (size_t i = 0; i < l->count; i++)
		*find_seen(l, l->all[i]) = l->all[i];
}

void docs_list_add(struct docs_list *l, const struct docs *d, int kind, const char *prefix)
{
	const size_t prefix_len = prefix ? strlen(prefix) : 0;

	if (d->count == 0 || (kind >= 0 && !may_have_kind(d, (uint8_t)kind)))
		return;
	reserve_list(l, d->count);
	for (size_t i = 0; i < d->nslots; i++)
		for (const struct doc *n = d->slots[i]; n; n = n->next) {
			const struct doc **seen;

			if ((kind >= 0 && n->kind != kind) || (prefix_len && strncmp(n->id, prefix, prefix_len) != 0))
				continue;
			seen = find_seen(l, n);
			if (*seen)
				continue;
			*seen = n;
			l->all[l->count++] = n;
		}
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
	free(l->seen);
	*l = DOCS_LIST_INIT;
}
