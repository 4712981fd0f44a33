#include "runtime/store/ahead.h"

#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/models.h"
#include "runtime/store/reader.h"
#include "runtime/store/state.h"

#include <stdlib.h>
#include <string.h>

#define KEY_ROOM (MODEL_ID_MAX + 2)

void ahead_init(struct ahead *a)
{
	*a = (struct ahead){ 0 };
	TAILQ_INIT(&a->undecided);
}

static void entry_free(struct ahead_entry *n)
{
	if (!n)
		return;
	free(n->json);
	free(n);
}

static void drop(void *ctx, const char *key, void *value)
{
	entry_free(value);
}

static void forget_all(struct ahead *a)
{
	strmap_each(&a->entries, drop, NULL);
	strmap_done(&a->entries);
	a->entries = STRMAP_INIT;
}

void ahead_done(struct ahead *a)
{
	forget_all(a);
}

static void key_of(uint8_t kind, const char *id, size_t id_len, char key[KEY_ROOM])
{
	key[0] = (char)kind;
	memcpy(key + 1, id, id_len);
	key[1 + id_len] = '\0';
}

static struct ahead_entry *entry_at(struct ahead *a, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len)
{
	struct ahead_entry *n = mem_zalloc(1, sizeof(*n) + id_len + 1);
	char key[KEY_ROOM];

	n->ordinal = ordinal;
	n->id_len = id_len;
	memcpy(n->id, id, id_len);
	key_of(kind, id, id_len, key);
	entry_free(strmap_put(&a->entries, key, n));
	return n;
}

int ahead_get(const struct ahead *a, uint8_t kind, const char *id, size_t id_len, const char **ret, size_t *ret_len)
{
	char key[KEY_ROOM];

	if (a->entries.count == 0)
		return 2;
	key_of(kind, id, id_len, key);
	const struct ahead_entry *n = strmap_get(&a->entries, key);
	if (!n)
		return 2;
	if (n->gone)
		return 1;
	*ret = n->json;
	*ret_len = n->len;
	return 0;
}

void ahead_put(struct ahead *a, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len, const char *json, size_t len)
{
	char *copy = mem_strndup(json, len); /* before the old one goes, which may be what `json` points into */
	struct ahead_entry *n = entry_at(a, ordinal, kind, id, id_len);

	n->json = copy;
	n->len = len;
}

void ahead_del(struct ahead *a, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len)
{
	entry_at(a, ordinal, kind, id, id_len)->gone = true;
}

/* ---- folding ---- */

static void fold_batch(struct store *s, struct store_batch *b, struct models *m)
{
	struct err e = ERR_INIT;

	m->ordinal = b->ordinal;
	for (size_t i = 0; i < b->nevents; i++) {
		struct event_view ev;

		if (event_view_of(b->records.data + b->events[i].offset, b->events[i].length, 0, &ev, &e) != 0 ||
		    s->fold_ahead(m, &ev, &e) != 0)
			log_error("store: fold ahead: %s", e.message);
	}
}

void ahead_submitted(struct store *s, struct store_batch *b)
{
	struct ahead *a = &s->ahead;

	if (!s->fold_ahead || !b->nevents)
		return;
	b->ordinal = ++a->ordinal;
	TAILQ_INSERT_TAIL(&a->undecided, b, undecided);
	a->unfolded++;
}

/* By how many events this snapshot is ahead of what was dispatched. */
static int events_ahead(struct store *s, const struct reader *r, uint64_t *ret, struct err *e)
{
	MDB_cursor *cur;
	MDB_val kv, v;
	int rc = mdb_cursor_open(r->txn, r->db->t[DB_EVENTS], &cur);

	if (rc != 0)
		return db_err(e, rc, "read the log's end");
	rc = mdb_cursor_get(cur, &kv, &v, MDB_LAST);
	uint64_t last = rc == 0 && kv.mv_size == 8 ? db_u64_at(kv.mv_data) : 0;
	mdb_cursor_close(cur);
	if (rc != 0 && rc != MDB_NOTFOUND)
		return db_err(e, rc, "read the log's end");
	*ret = last > s->last ? last - s->last : 0;
	return 0;
}

/* What batches up to this one wrote is committed: their documents count again. */
struct sweep {
	struct ahead *ahead;
	uint64_t ordinal;
};

static void sweep_entry(void *ctx, const char *key, void *value)
{
	struct sweep *w = ctx;
	struct ahead_entry *n = value;

	if (n->ordinal <= w->ordinal)
		entry_free(strmap_del(&w->ahead->entries, key));
}

int ahead_refresh(struct store *s, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	struct ahead *a = &s->ahead;
	struct models m = { .ahead = a };
	struct store_batch *b;
	uint64_t there = 0;

	if (!a->unfolded)
		return 0;
	if (reader_begin(s, &r, e) != 0 || reader_models(&r, &m.dbi, e) != 0 || events_ahead(s, &r, &there, e) != 0)
		return -1;
	m.txn = r.txn;
	TAILQ_FOREACH(b, &a->undecided, undecided) {
		bool committed = there >= b->nevents;

		there -= committed ? b->nevents : there;
		if (b->folded)
			continue;
		/* It will not be folded, so what earlier ones left here of the same documents would hide it. */
		if (committed && a->entries.count) {
			struct sweep w = { a, b->ordinal };

			strmap_each(&a->entries, sweep_entry, &w);
		}
		if (!committed)
			fold_batch(s, b, &m);
		b->folded = true;
		a->unfolded--;
	}
	return 0;
}

/* What was folded on top of a refused batch is wrong as well: from the beginning, when somebody asks. */
static void start_over(struct ahead *a)
{
	struct store_batch *b;

	forget_all(a);
	TAILQ_FOREACH(b, &a->undecided, undecided) {
		a->unfolded += b->folded;
		b->folded = false;
	}
}

void ahead_decided(struct store *s, struct store_batch *b)
{
	struct ahead *a = &s->ahead;
	struct sweep w = { a, b->ordinal };

	if (!b->ordinal)
		return;
	TAILQ_REMOVE(&a->undecided, b, undecided);
	if (!b->folded)
		a->unfolded--;
	else if (b->status != 0)
		start_over(a);
	else if (TAILQ_EMPTY(&a->undecided))
		forget_all(a);
	else
		strmap_each(&a->entries, sweep_entry, &w);
}

/* ---- listing ---- */

struct gathering {
	struct ahead_entry **list;
	size_t count, prefix_len;
	const char *prefix;
	uint8_t kind;
};

static void gather(void *ctx, const char *key, void *value)
{
	struct gathering *g = ctx;

	if ((uint8_t)key[0] == g->kind && strncmp(key + 1, g->prefix, g->prefix_len) == 0)
		g->list[g->count++] = value;
}

static int by_id(const void *a, const void *b)
{
	const struct ahead_entry *const *x = a, *const *y = b;

	return strcmp((*x)->id, (*y)->id);
}

struct ahead_entry **ahead_list(const struct ahead *a, uint8_t kind, const char *prefix, size_t *ret_count)
{
	struct gathering g = { .kind = kind, .prefix = prefix ? prefix : "" };

	g.prefix_len = strlen(g.prefix);
	g.list = mem_zalloc(a->entries.count + 1, sizeof(struct ahead_entry *));
	strmap_each((struct strmap *)(uintptr_t)&a->entries, gather, &g);
	qsort(g.list, g.count, sizeof(struct ahead_entry *), by_id);
	*ret_count = g.count;
	return g.list;
}
