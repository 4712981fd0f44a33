#include "runtime/base/strmap.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Chained, because a deletion during strmap_each must not move other entries. The table doubles and never shrinks. */

#define STRMAP_FIRST 16

struct strmap_entry {
	struct strmap_entry *next;
	void *value;
	uint64_t hash;
	char key[];
};

void strmap_done(struct strmap *m)
{
	for (size_t i = 0; i < m->nslots; i++) {
		struct strmap_entry *e = m->slots[i];

		while (e) {
			struct strmap_entry *next = e->next;

			free(e);
			e = next;
		}
	}
	free(m->slots);
	*m = STRMAP_INIT;
}

/* The link that points to the entry, or the NULL at the end of its chain. */
static struct strmap_entry **strmap_link(const struct strmap *m, const char *key, uint64_t hash)
{
	struct strmap_entry **link = &m->slots[hash & (m->nslots - 1)];

	while (*link && ((*link)->hash != hash || strcmp((*link)->key, key) != 0))
		link = &(*link)->next;
	return link;
}

/* Rehashing keeps the entries and only moves links. */
static void strmap_grow(struct strmap *m)
{
	size_t n = m->nslots ? m->nslots * 2 : STRMAP_FIRST;
	struct strmap_entry **slots = mem_zalloc(n, sizeof(struct strmap_entry *));

	for (size_t i = 0; i < m->nslots; i++) {
		struct strmap_entry *e = m->slots[i];

		while (e) {
			struct strmap_entry *next = e->next;

			e->next = slots[e->hash & (n - 1)];
			slots[e->hash & (n - 1)] = e;
			e = next;
		}
	}
	free(m->slots);
	m->slots = slots;
	m->nslots = n;
}

void *strmap_get(const struct strmap *m, const char *key)
{
	if (!m->count)
		return NULL;
	const struct strmap_entry *e = *strmap_link(m, key, hash64(key, strlen(key), 0));
	return e ? e->value : NULL;
}

/* The table grows before the insertion, so that the link stays valid. */
void *strmap_put(struct strmap *m, const char *key, void *value)
{
	size_t len = strlen(key);
	uint64_t hash = hash64(key, len, 0);
	struct strmap_entry **link, *e;

	if (m->count >= m->nslots)
		strmap_grow(m);
	link = strmap_link(m, key, hash);
	if (*link) {
		void *earlier = (*link)->value;

		(*link)->value = value;
		return earlier;
	}
	assert(!m->iterating); /* would move the table under the loop; use strmap_visit */
	e = mem_alloc(sizeof(*e) + len + 1);
	e->next = NULL;
	e->value = value;
	e->hash = hash;
	memcpy(e->key, key, len + 1);
	*link = e;
	m->count++;
	return NULL;
}

/* Allowed during strmap_each for the entry that is visited: the loop has read its successor already. */
void *strmap_del(struct strmap *m, const char *key)
{
	struct strmap_entry **link, *e;
	void *value;

	if (!m->count)
		return NULL;
	link = strmap_link(m, key, hash64(key, strlen(key), 0));
	e = *link;
	if (!e)
		return NULL;
	value = e->value;
	*link = e->next;
	free(e);
	m->count--;
	return value;
}

/* `iterating` catches insertions by the callback: they could grow the table under the loop. */
void strmap_each(struct strmap *m, void (*fn)(void *ctx, const char *key, void *value), void *ctx)
{
	m->iterating++;
	for (size_t i = 0; i < m->nslots; i++) {
		struct strmap_entry *e = m->slots[i];

		while (e) {
			struct strmap_entry *next = e->next;

			fn(ctx, e->key, e->value);
			e = next;
		}
	}
	m->iterating--;
}

struct strmap_keys {
	char **key;
	size_t count;
};

static void collect_key(void *ctx, const char *key, void *value)
{
	struct strmap_keys *k = ctx;

	k->key[k->count++] = mem_strdup(key);
}

/* Looks each key up again, since the callback may have removed it. */
void strmap_visit(struct strmap *m, void (*fn)(void *ctx, const char *key, void *value), void *ctx)
{
	struct strmap_keys k = { .key = mem_zalloc(m->count + 1, sizeof *k.key) };

	strmap_each(m, collect_key, &k);
	for (size_t i = 0; i < k.count; i++) {
		void *value = strmap_get(m, k.key[i]);

		if (value)
			fn(ctx, k.key[i], value);
		free(k.key[i]);
	}
	free(k.key);
}
