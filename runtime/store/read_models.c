#include "runtime/store/read_models.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/store/damage.h"
#include "runtime/store/docs.h"
#include "runtime/store/layer.h"
#include "runtime/store/reader.h"
#include "runtime/store/speculative.h"
#include "runtime/store/store.h"
#include "runtime/store/store_private.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int model_key(struct db_key *k, uint8_t kind, const char *id, size_t id_len, struct err *e)
{
	if (id_len == 0 || id_len > MODEL_ID_MAX)
		return err_set(e, ERR_INTERNAL, "a model's id of %zu bytes", id_len);
	db_key_reset(k);
	db_key_u8(k, kind);
	db_key_add(k, id, id_len);
	return 0;
}

static int wrap_model(struct err *e, uint8_t kind, const char *id, size_t id_len)
{
	return err_wrap(e, "model %u '%.*s'", kind, id_len < 80 ? (int)id_len : 80, id);
}

/*
 * ---- fences ----
 *
 * LMDB splits a full page in the middle, except when the new key is the last one of its page: then the page stays full.
 * The documents of most kinds are created in the order of their ids, but the last page of a kind also has the first
 * documents of the next one, so each split left a page half empty for ever. A fence is an entry after all documents of
 * a kind (and before the first), of almost half a page. Two of them fill a page: the first document between them splits
 * it, and from then on the fence is the first entry of its page. This needs an empty table, so only a new or a rebuilt
 * one has fences.
 */

#define FENCE_ID 0xffu       /* no id begins with it */
#define FENCE_PAGE_MAX 4096u /* larger pages would make fences too large */

bool model_is_fence(const MDB_val *key)
{
	return key->mv_size == 2 && ((const unsigned char *)key->mv_data)[1] == FENCE_ID;
}

int models_put_fences(MDB_txn *txn, MDB_dbi dbi, const uint8_t *kinds, struct err *e)
{
	MDB_stat st;
	int rc = mdb_stat(txn, dbi, &st);

	if (rc != 0)
		return db_err(e, rc, "read the models");
	if (st.ms_psize > FENCE_PAGE_MAX)
		return 0;
	/* Half a page without its head, and without the heads of node, key and seal. */
	const size_t size = (st.ms_psize - 16) / 2 - 32;
	mem_auto char *zeroes = mem_zalloc(1, size);
	/* The first one, of kind 0, is before all documents. */
	for (uint8_t kind = 0; kinds; kind = *kinds++) {
		unsigned char bytes[2] = { kind, FENCE_ID };
		MDB_val key = { .mv_size = sizeof(bytes), .mv_data = bytes };

		if (db_seal_put(txn, dbi, &key, zeroes, size, e) != 0)
			return -1;
		if (!*kinds)
			break;
	}
	return 0;
}

/* Newest first: own changes, then the layers, then the table. */
int models_get_struct(struct models *m, const struct model_form *form, uint8_t kind, const char *id, size_t id_len,
		      const void **ret_kept, const char **ret, size_t *ret_len, struct err *e)
{
	const struct doc *n;
	struct docs_key key;
	struct db_key k;
	struct doc *own;
	size_t len = 0;
	int rc;

	*ret_kept = NULL;
	if (id_len == 0 || id_len > MODEL_ID_MAX)
		return 1;
	if (m->docs || m->over)
		docs_key(kind, id, id_len, &key);
	n = own = m->docs ? docs_find(m->docs, &key) : NULL;
	if (!n && m->over)
		n = layer_doc(m->over, &key);
	if (n && n->gone)
		return 1;
	if (n && form && n->form == form) {
		*ret_kept = n->kept;
		return 0;
	}
	if (own)
		docs_encode(m->docs, own);
	if (n) {
		*ret = n->json ? n->json : docs_text(n, expanded_add(&m->expanded), &len);
		*ret_len = n->json ? n->len : len;
		return 0;
	}
	if (!m->txn)
		return 1; /* models in memory have no table */
	if (model_key(&k, kind, id, id_len, e) != 0)
		return -1;
	MDB_val kv = db_key_val(&k);
	rc = stored_doc_get(m->txn, m->dbi, &kv, &m->expanded, ret, ret_len, e);
	return rc < 0 ? wrap_model(e, kind, id, id_len) : rc;
}

int models_get(struct models *m, uint8_t kind, const char *id, size_t id_len, const char **ret, size_t *ret_len,
	       struct err *e)
{
	const void *kept;

	return models_get_struct(m, NULL, kind, id, id_len, &kept, ret, ret_len, e);
}

void *models_put_struct(struct models *m, const struct model_form *form, uint8_t kind, const char *id, size_t id_len)
{
	if (!m->group || id_len == 0 || id_len > MODEL_ID_MAX)
		return NULL;
	return docs_put_struct(m->docs, m->ordinal, kind, id, id_len, form);
}

const char *models_keep(struct models *m, const char *text, size_t len)
{
	const uintptr_t at = (uintptr_t)text, from = (uintptr_t)m->group->data;

	return at >= from && at < from + m->group->len ? text : docs_keep(m->docs, text, len);
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
		m->bytes += len;
		return 0;
	}
	MDB_val kv = db_key_val(&k);
	int rc = stored_doc_put(m->txn, m->dbi, &kv, json, len, e);
	if (rc < 0)
		return wrap_model(e, kind, id, id_len);
	m->puts += rc == 0;
	return 0;
}

/* Deleting what is not there is not an error: projections do not check first. */
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

/*
 * The marker of an expired output (chunk_expire) also tells the next open to remove a file that is still there, so it
 * stays as long as the file does: a backup may be reading it.
 */
int models_forget_output(struct models *m, const char *output_ref, struct err *e)
{
	MDB_val key = db_key_text(output_ref);
	const void *value;
	size_t len;

	if (!m->pruned || !id_valid(output_ref, strlen(output_ref)) ||
	    faccessat(m->pruned->spool_fd, output_ref, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	int rc = db_seal_get(m->txn, m->pruned->db.t[DB_BLOBS], &key, &value, &len, e);
	if (rc != 0 || len != 1 || *(const char *)value != 1)
		return rc < 0 ? -1 : 0;
	m->puts++;
	rc = mdb_del(m->txn, m->pruned->db.t[DB_BLOBS], &key, NULL);
	return rc == 0 ? 0 : db_err(e, rc, "remove the marker of an expired output");
}

int models_write_back(struct models *m, struct err *e)
{
	docs_list_auto struct docs_list list = DOCS_LIST_INIT;
	struct models table = { .txn = m->txn, .dbi = m->dbi };
	int rc = 0;

	docs_list_add(&list, m->docs, -1, NULL);
	docs_list_sort(&list, false);
	for (size_t i = 0; rc == 0 && i < list.count; i++) {
		const struct doc *n = list.all[i];

		rc = n->gone ? models_del(&table, n->kind, n->id, n->id_len, e)
			     : models_put(&table, n->kind, n->id, n->id_len, n->json, n->len, e);
	}
	m->puts += table.puts;
	m->bytes = 0;
	docs_done(m->docs);
	return rc;
}

void store_snapshot_begin(struct store *store)
{
	struct err e = ERR_INIT;

	if (store->snapshot_depth++)
		return;
	/* If this fails every read begins its own transaction, and reports the error. */
	if (reader_begin(store, &store->snapshot, &e) != 0 ||
	    reader_models(&store->snapshot, &store->snapshot_models, &e) != 0)
		reader_end(&store->snapshot);
}

void store_snapshot_end(struct store **s)
{
	if (*s && --(*s)->snapshot_depth == 0)
		reader_end(&(*s)->snapshot);
}

/* Uses the open snapshot, if there is one and `now` is false, else begins a reader in `own`. */
static int begin_read(struct store *store, bool now, struct reader *own, struct models *ret, struct err *e)
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

/* A speculative read begins its own transaction: the open snapshot may be older than the batches. */
static int model_get(struct store *store, struct speculative *speculative, const struct model_reader *by, uint8_t kind,
		     const char *id, struct buf *out, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	struct models m = { .docs = speculative ? &speculative->docs : NULL };
	const void *kept;
	const char *p;
	size_t n;
	int rc;

	if ((speculative && speculative_refresh(store, e) != 0) ||
	    begin_read(store, speculative != NULL, &r, &m, e) != 0)
		return -1;
	rc = models_get_struct(&m, by ? by->form : NULL, kind, id, strlen(id), &kept, &p, &n, e);
	if (rc == 0 && kept)
		by->take(by->ctx, kept);
	else if (rc == 0)
		buf_append(out, p, n);
	models_release(&m);
	return rc;
}

int store_model_get(struct store *store, uint8_t kind, const char *id, struct buf *out, struct err *e)
{
	return damage_note(store, model_get(store, NULL, NULL, kind, id, out, e), e);
}

int store_model_get_speculative(struct store *store, uint8_t kind, const char *id, struct buf *out, struct err *e)
{
	return damage_note(store, model_get(store, &store->speculative, NULL, kind, id, out, e), e);
}

int store_model_read_speculative(struct store *store, const struct model_reader *by, uint8_t kind, const char *id,
				 struct buf *out, struct err *e)
{
	return damage_note(store, model_get(store, &store->speculative, by, kind, id, out, e), e);
}

/* Turns a prefix into the first key after all keys with it; false if there is none. */
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

/* Moves the cursor to the first entry of the scan. */
static int scan_start(MDB_cursor *cur, const struct db_key *prefix, const struct db_key *after, bool descending,
		      MDB_val *kv, MDB_val *v)
{
	struct db_key from = after ? *after : *prefix;
	size_t common = prefix->len < from.len ? prefix->len : from.len;
	int cmp = memcmp(from.bytes, prefix->bytes, common);
	int rc;

	/* `after` may lie outside the prefix; then the scan starts at the end of the prefix range */
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

/* A merge of the table and the documents of the layers, both in the order of the scan. */
struct doc_scan {
	struct docs_list over;
	size_t at;
	bool descending, stopped;
	struct buf text; /* of a layer's document */
	scan_fn fn;
	void *ctx;
};

/* Markers of deleted documents are not delivered, but they hide the table's document. */
static bool deliver_doc(struct doc_scan *c, const struct doc *n)
{
	if (!n->gone) {
		size_t len;
		const char *text = docs_text(n, &c->text, &len);

		c->stopped = !c->fn(c->ctx, n->id, n->id_len, text, len);
	}
	return !c->stopped;
}

/* Delivers the layers' documents up to this id; true if one of them replaces the table's, or the scan was stopped. */
static bool deliver_over(struct doc_scan *c, const char *id, size_t id_len)
{
	for (; c->at < c->over.count; c->at++) {
		const struct doc *n = c->over.all[c->at];
		size_t common = n->id_len < id_len ? n->id_len : id_len;
		int cmp = memcmp(n->id, id, common);

		if (cmp == 0 && n->id_len == id_len) {
			c->at++;
			(void)deliver_doc(c, n);
			return true;
		}
		if (cmp == 0)
			cmp = n->id_len > id_len ? 1 : -1;
		if (c->descending ? cmp < 0 : cmp > 0)
			return false;
		if (!deliver_doc(c, n))
			return true;
	}
	return false;
}

static int scan_table(struct doc_scan *c, const struct models *m, const struct db_key *pk, const struct db_key *after,
		      struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	buf_auto struct buf space = BUF_INIT;
	MDB_val kv, v;
	int rc = mdb_cursor_open(m->txn, m->dbi, &cur);

	if (rc != 0)
		return db_err(e, rc, "list models");
	rc = scan_start(cur, pk, after, c->descending, &kv, &v);
	for (; rc == 0 && !c->stopped; rc = mdb_cursor_get(cur, &kv, &v, c->descending ? MDB_PREV : MDB_NEXT)) {
		const char *id = (const char *)kv.mv_data + 1;
		const char *json;
		size_t len;

		if (kv.mv_size < pk->len || memcmp(kv.mv_data, pk->bytes, pk->len) != 0)
			break;
		if (model_is_fence(&kv))
			continue;
		if (c->over.count && deliver_over(c, id, kv.mv_size - 1))
			continue;
		if (stored_doc_open(&kv, &v, &space, &json, &len, e) != 0)
			return wrap_model(e, pk->bytes[0], id, kv.mv_size - 1);
		c->stopped = !c->fn(c->ctx, id, kv.mv_size - 1, json, len);
	}
	return rc == 0 || rc == MDB_NOTFOUND ? 0 : db_err(e, rc, "list models");
}

/* Skips the layers' documents up to `after`. */
static void skip_over(struct doc_scan *c, const char *after)
{
	while (after && c->at < c->over.count) {
		int cmp = strcmp(c->over.all[c->at]->id, after);

		if (c->descending ? cmp < 0 : cmp > 0)
			break;
		c->at++;
	}
}

/* Keys of the table and of the layers are merged; the newer document of the same id is delivered. */
static int scan_models(struct store *store, const struct speculative *speculative, uint8_t kind, const char *prefix,
		       const char *after, bool descending, scan_fn fn, void *ctx, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	struct db_key pk = { .len = 0 }, ak = { .len = 0 };
	struct doc_scan c = { .descending = descending, .fn = fn, .ctx = ctx };
	struct models m = { 0 };
	int rc;

	db_key_u8(&pk, kind);
	if (prefix)
		db_key_add(&pk, prefix, strlen(prefix));
	db_key_u8(&ak, kind);
	if (after)
		db_key_add(&ak, after, strlen(after));
	if (!db_key_ok(&pk) || !db_key_ok(&ak))
		return 0; /* no id is that long */
	if (begin_read(store, speculative != NULL, &r, &m, e) != 0)
		return -1;
	if (speculative)
		docs_list_add(&c.over, &speculative->docs, kind, prefix);
	layer_docs(m.over, &c.over, kind, prefix);
	docs_list_sort(&c.over, descending);
	skip_over(&c, after);
	rc = scan_table(&c, &m, &pk, after ? &ak : NULL, e);
	while (rc == 0 && !c.stopped && c.at < c.over.count)
		(void)deliver_doc(&c, c.over.all[c.at++]);
	docs_list_done(&c.over);
	buf_done(&c.text);
	return rc;
}

int store_model_scan(struct store *store, uint8_t kind, const char *prefix, const char *after, bool descending,
		     scan_fn fn, void *ctx, struct err *e)
{
	return damage_note(store, scan_models(store, NULL, kind, prefix, after, descending, fn, ctx, e), e);
}

int store_model_scan_speculative(struct store *store, uint8_t kind, const char *prefix, scan_fn fn, void *ctx,
				 struct err *e)
{
	if (speculative_refresh(store, e) != 0)
		return -1;
	return damage_note(store, scan_models(store, &store->speculative, kind, prefix, NULL, false, fn, ctx, e), e);
}

/* ---- models in memory only ---- */

/* Without a transaction: models_get stops at `docs`. For packs that are checked without a store (pack_check.c). */
struct models *memory_models_new(void)
{
	struct models *m = mem_zalloc(1, sizeof(*m));

	m->docs = mem_zalloc(1, sizeof(*m->docs));
	return m;
}

void memory_models_free(struct models *m)
{
	if (!m)
		return;
	docs_done(m->docs);
	free(m->docs);
	free(m);
}

void memory_models_each(struct models *m, uint8_t kind,
			bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len), void *ctx)
{
	docs_list_auto struct docs_list all = DOCS_LIST_INIT;

	docs_list_add(&all, m->docs, kind, NULL);
	docs_list_sort(&all, false);
	for (size_t i = 0; i < all.count; i++)
		if (!all.all[i]->gone &&
		    !fn(ctx, all.all[i]->id, all.all[i]->id_len, all.all[i]->json, all.all[i]->len))
			break;
}
