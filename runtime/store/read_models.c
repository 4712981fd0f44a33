#include "runtime/store/read_models.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/store/layer.h"
#include "runtime/store/reader.h"
#include "runtime/store/speculative.h"
#include "runtime/store/store.h"
#include "runtime/store/store_private.h"

#include <string.h>

static int model_key(struct db_key *k, uint8_t kind, const char *id, size_t id_len, struct err *e)
{
	if (id_len == 0 || id_len > MODEL_ID_MAX)
		return err_set(e, ERR_INTERNAL, "a model's id of %zu bytes", id_len);
	db_key_reset(k);
	db_key_u8(k, kind);
	db_key_add(k, id, id_len);
	return 0;
}

static int wrap(struct err *e, uint8_t kind, const char *id, size_t id_len)
{
	return err_wrap(e, "model %u '%.*s'", kind, id_len < 80 ? (int)id_len : 80, id);
}

int models_get(struct models *m, uint8_t kind, const char *id, size_t id_len, const char **ret, size_t *ret_len,
	       struct err *e)
{
	struct db_key k;
	const void *p;
	int rc;

	if (id_len == 0 || id_len > MODEL_ID_MAX)
		return 1;
	if (m->docs && (rc = docs_get(m->docs, kind, id, id_len, ret, ret_len)) < 2)
		return rc;
	if (m->over && (rc = layer_doc(m->over, kind, id, id_len, ret, ret_len)) < 2)
		return rc;
	if (!m->txn)
		return 1; /* in memory only (memory_models.h) */
	if (model_key(&k, kind, id, id_len, e) != 0)
		return -1;
	MDB_val kv = db_key_val(&k);
	rc = db_seal_get(m->txn, m->dbi, &kv, &p, ret_len, e);
	if (rc < 0)
		return wrap(e, kind, id, id_len);
	if (rc == 0)
		*ret = p;
	return rc;
}

int models_put(struct models *m, uint8_t kind, const char *id, size_t id_len, const char *json, size_t len,
	       struct err *e)
{
	struct db_key k;

	if (model_key(&k, kind, id, id_len, e) != 0)
		return -1;
	if (m->docs) {
		if (len > DB_SEALED_MAX)
			return err_set(e, ERR_EXHAUSTED, "a document of %zu bytes is too large for the store", len);
		docs_put(m->docs, m->ordinal, kind, id, id_len, json, len);
		return 0;
	}
	MDB_val kv = db_key_val(&k), old;
	/* What is there already is not written again: in a copy-on-write tree that would cost its page, and those above
	 * it. */
	if (mdb_get(m->txn, m->dbi, &kv, &old) == 0 && db_seal_same(&old, json, len))
		return 0;
	m->puts++;
	if (db_seal_put(m->txn, m->dbi, &kv, json, len, e) != 0)
		return wrap(e, kind, id, id_len);
	return 0;
}

int models_del(struct models *m, uint8_t kind, const char *id, size_t id_len, struct err *e)
{
	struct db_key k;
	int rc;

	if (model_key(&k, kind, id, id_len, e) != 0)
		return -1;
	if (m->docs) {
		docs_del(m->docs, m->ordinal, kind, id, id_len);
		return 0;
	}
	MDB_val kv = db_key_val(&k);
	m->puts++;
	rc = mdb_del(m->txn, m->dbi, &kv, NULL);
	return rc == 0 || rc == MDB_NOTFOUND ? 0 : db_err(e, rc, "remove a model");
}

void store_snapshot_begin(struct store *store)
{
	struct err e = ERR_INIT;

	if (store->snapshot_depth++)
		return;
	/* Without one every reader has its own, and tells what is wrong. */
	if (reader_begin(store, &store->snapshot, &e) != 0 ||
	    reader_models(&store->snapshot, &store->snapshot_models, &e) != 0)
		reader_end(&store->snapshot);
}

void store_snapshot_end(struct store **s)
{
	if (*s && --(*s)->snapshot_depth == 0)
		reader_end(&(*s)->snapshot);
}

/* The transaction that is held, or one of the caller's own; `now`: that in any case. */
static int begin(struct store *store, bool now, struct reader *own, struct models *ret, struct err *e)
{
	if (!now && pthread_equal(store->loop, pthread_self()) && store->snapshot.store) {
		ret->txn = store->snapshot.txn;
		ret->over = store->snapshot.over;
		ret->dbi = store->snapshot_models;
		return 0;
	}
	if (reader_begin(store, own, e) != 0 || reader_models(own, &ret->dbi, e) != 0)
		return -1;
	ret->txn = own->txn;
	ret->over = own->over;
	return 0;
}

static int model_get(struct store *store, struct speculative *ahead, uint8_t kind, const char *id, struct buf *out,
		     struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	struct models m = { .docs = ahead ? &ahead->docs : NULL };
	const char *p;
	size_t n;
	int rc;

	if ((ahead && speculative_refresh(store, e) != 0) || begin(store, ahead != NULL, &r, &m, e) != 0)
		return -1;
	rc = models_get(&m, kind, id, strlen(id), &p, &n, e);
	if (rc == 0)
		buf_append(out, p, n);
	return rc;
}

int store_model_get(struct store *store, uint8_t kind, const char *id, struct buf *out, struct err *e)
{
	return model_get(store, NULL, kind, id, out, e);
}

int store_model_get_speculative(struct store *store, uint8_t kind, const char *id, struct buf *out, struct err *e)
{
	return model_get(store, &store->speculative, kind, id, out, e);
}

/* The first key that is larger than every key with this prefix; false when there is none. */
static bool key_after_prefix(struct db_key *k)
{
	while (k->len > 0) {
		if (k->bytes[k->len - 1] != 0xff) {
			k->bytes[k->len - 1]++;
			return true;
		}
		k->len--;
	}
	return false;
}

/* Puts the cursor on the scan's first entry. */
static int scan_start(MDB_cursor *cur, const struct db_key *prefix, const struct db_key *after, bool descending,
		      MDB_val *kv, MDB_val *v)
{
	struct db_key from = after ? *after : *prefix;
	size_t common = prefix->len < from.len ? prefix->len : from.len;
	int cmp = memcmp(from.bytes, prefix->bytes, common);
	int rc;

	/* `after` may lie outside the prefix: then the scan starts at the prefix's own end */
	if (descending) {
		bool bounded = true;

		if (!after || cmp > 0) {
			from = *prefix;
			bounded = key_after_prefix(&from);
		}
		*kv = db_key_val(&from);
		rc = bounded ? mdb_cursor_get(cur, kv, v, MDB_SET_RANGE) : MDB_NOTFOUND;
		if (rc != 0 && rc != MDB_NOTFOUND)
			return rc;
		return mdb_cursor_get(cur, kv, v, rc == 0 ? MDB_PREV : MDB_LAST);
	}
	if (after && (cmp < 0 || (cmp == 0 && from.len < prefix->len))) {
		from = *prefix;
		after = NULL;
	}
	*kv = db_key_val(&from);
	rc = mdb_cursor_get(cur, kv, v, MDB_SET_RANGE);
	if (rc == 0 && after && kv->mv_size == from.len && memcmp(kv->mv_data, from.bytes, from.len) == 0)
		rc = mdb_cursor_get(cur, kv, v, MDB_NEXT);
	return rc;
}

typedef bool (*scan_fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len);

/* A scan of the table, and the documents that lie over it, both in the scan's order. */
struct scan {
	struct docs_list over;
	size_t at;
	bool descending, stopped;
	scan_fn fn;
	void *ctx;
};

static bool give_doc(struct scan *c, const struct doc *n)
{
	if (!n->gone)
		c->stopped = !c->fn(c->ctx, n->id, n->id_len, n->json, n->len);
	return !c->stopped;
}

/* What lies over the table up to this id; true when a document of it stands for the table's, or the scan has ended. */
static bool give_over(struct scan *c, const char *id, size_t id_len)
{
	for (; c->at < c->over.count; c->at++) {
		const struct doc *n = c->over.all[c->at];
		size_t common = n->id_len < id_len ? n->id_len : id_len;
		int cmp = memcmp(n->id, id, common);

		if (cmp == 0 && n->id_len == id_len) {
			c->at++;
			(void)give_doc(c, n);
			return true;
		}
		if (cmp == 0)
			cmp = n->id_len > id_len ? 1 : -1;
		if (c->descending ? cmp < 0 : cmp > 0)
			return false;
		if (!give_doc(c, n))
			return true;
	}
	return false;
}

static int scan_table(struct scan *c, const struct models *m, const struct db_key *pk, const struct db_key *after,
		      struct err *e)
{
	MDB_cursor *cur;
	MDB_val kv, v;
	int rc = mdb_cursor_open(m->txn, m->dbi, &cur);

	if (rc != 0)
		return db_err(e, rc, "list models");
	rc = scan_start(cur, pk, after, c->descending, &kv, &v);
	for (; rc == 0 && !c->stopped; rc = mdb_cursor_get(cur, &kv, &v, c->descending ? MDB_PREV : MDB_NEXT)) {
		const char *id = (const char *)kv.mv_data + 1;
		const void *json;
		size_t len;

		if (kv.mv_size < pk->len || memcmp(kv.mv_data, pk->bytes, pk->len) != 0)
			break;
		if (c->over.count && give_over(c, id, kv.mv_size - 1))
			continue;
		if (db_seal_open(&kv, &v, &json, &len, e) != 0) {
			mdb_cursor_close(cur);
			return wrap(e, pk->bytes[0], id, kv.mv_size - 1);
		}
		c->stopped = !c->fn(c->ctx, id, kv.mv_size - 1, json, len);
	}
	mdb_cursor_close(cur);
	return rc == 0 || rc == MDB_NOTFOUND ? 0 : db_err(e, rc, "list models");
}

/* Of the documents over the table those that the scan has passed already: `after` may lie anywhere. */
static void skip_over(struct scan *c, const char *after)
{
	while (after && c->at < c->over.count) {
		int cmp = strcmp(c->over.all[c->at]->id, after);

		if (c->descending ? cmp < 0 : cmp > 0)
			break;
		c->at++;
	}
}

static int scan(struct store *store, const struct speculative *ahead, uint8_t kind, const char *prefix,
		const char *after, bool descending, scan_fn fn, void *ctx, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	struct db_key pk = { .len = 0 }, ak = { .len = 0 };
	struct scan c = { .descending = descending, .fn = fn, .ctx = ctx };
	struct models m = { 0 };
	int rc;

	db_key_u8(&pk, kind);
	if (prefix)
		db_key_add(&pk, prefix, strlen(prefix));
	db_key_u8(&ak, kind);
	if (after)
		db_key_add(&ak, after, strlen(after));
	if (!db_key_ok(&pk) || !db_key_ok(&ak))
		return 0; /* longer than any id is */
	if (begin(store, ahead != NULL, &r, &m, e) != 0)
		return -1;
	if (ahead)
		docs_list_add(&c.over, &ahead->docs, kind, prefix);
	layer_docs(m.over, &c.over, kind, prefix);
	docs_list_sort(&c.over, descending);
	skip_over(&c, after);
	rc = scan_table(&c, &m, &pk, after ? &ak : NULL, e);
	while (rc == 0 && !c.stopped && c.at < c.over.count)
		(void)give_doc(&c, c.over.all[c.at++]);
	docs_list_done(&c.over);
	return rc;
}

int store_model_scan(struct store *store, uint8_t kind, const char *prefix, const char *after, bool descending,
		     scan_fn fn, void *ctx, struct err *e)
{
	return scan(store, NULL, kind, prefix, after, descending, fn, ctx, e);
}

int store_model_scan_speculative(struct store *store, uint8_t kind, const char *prefix, scan_fn fn, void *ctx,
				 struct err *e)
{
	if (speculative_refresh(store, e) != 0)
		return -1;
	return scan(store, &store->speculative, kind, prefix, NULL, false, fn, ctx, e);
}
