#include "runtime/store/store_meta.h"

#include "runtime/base/buf.h"
#include "runtime/store/damage.h"
#include "runtime/store/read_models.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_dirs.h"
#include "runtime/store/store_private.h"

#include <string.h>

#define CHECK_LAST 64u /* events whose records are checked when a store is opened */

static int check_version(const struct db *d, MDB_txn *txn, uint32_t *ret, struct err *e)
{
	uint32_t version;
	int rc = db_meta_get(txn, d, META_VERSION, &version, sizeof(version), e);

	if (rc > 0)
		return err_set(e, ERR_CORRUPT, "the store has no version");
	if (rc < 0)
		return -1;
	if (version > STORE_VERSION)
		return err_set(e, ERR_UNAVAILABLE,
			       "the store has version %u, but this program supports only versions up to %u", version,
			       STORE_VERSION);
	*ret = version;
	return 0;
}

/*
 * Follows the chain from the record under the cursor to the newest one. `tip` is the record before it; if that one was
 * not read (!chained) its checksum is taken from the first record.
 */
static int follow_to_end(MDB_cursor *cur, MDB_val kv, MDB_val v, bool chained, struct tip *tip, struct err *e)
{
	int rc = 0;

	for (; rc == 0; rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT)) {
		struct record_head h;
		uint64_t sequence;

		if (kv.mv_size != 8)
			return err_set(e, ERR_CORRUPT, "an event has a malformed key");
		sequence = db_u64_at(kv.mv_data);
		if (!chained) {
			if (record_check(v.mv_data, v.mv_size, sequence, &h, e) != 0)
				return -1;
			tip->sequence = sequence - 1;
			tip->checksum = h.previous;
			chained = true;
		}
		if (record_follow(v.mv_data, v.mv_size, sequence, tip, e) != 0)
			return -1;
	}
	return rc == MDB_NOTFOUND ? 0 : db_err(e, rc, "read the log");
}

/* The newest event. The records of the newest CHECK_LAST events must match their checksums and their chain. */
static int load_tip(const struct db *d, MDB_txn *txn, const struct tip *floor, struct tip *ret, struct err *e)
{
	struct tip tip = *floor;
	db_cursor_auto MDB_cursor *cur = NULL;
	MDB_val kv, v;
	uint64_t newest;
	bool chained;
	int rc = mdb_cursor_open(txn, d->t[DB_EVENTS], &cur);

	if (rc != 0)
		return db_err(e, rc, "read the log");
	rc = mdb_cursor_get(cur, &kv, &v, MDB_LAST);
	newest = rc == 0 && kv.mv_size == 8 ? db_u64_at(kv.mv_data) : 0;
	while (rc == 0 && kv.mv_size == 8 && newest - db_u64_at(kv.mv_data) < CHECK_LAST)
		rc = mdb_cursor_get(cur, &kv, &v, MDB_PREV);
	chained = rc == MDB_NOTFOUND; /* so short a log is checked from the floor on */
	if (chained)
		rc = mdb_cursor_get(cur, &kv, &v, MDB_FIRST);
	if (rc == 0)
		rc = follow_to_end(cur, kv, v, chained, &tip, e);
	else
		rc = rc == MDB_NOTFOUND ? 0 : db_err(e, rc, "read the log");
	if (rc != 0)
		return err_wrap(e, "the end of the log");
	*ret = tip;
	return 0;
}

static int load_txn(struct store *store, struct db *d, MDB_txn *txn, struct err *e)
{
	MDB_val key = db_key_text(META_RUNTIME);
	struct tip floor = { 0 }, tip;
	uint64_t applied = 0;
	uint8_t models = 0;
	const void *id;
	size_t n;

	if (check_version(d, txn, &store->version, e) != 0 ||
	    db_meta_get(txn, d, META_FLOOR, &floor, sizeof(floor), e) < 0 ||
	    db_meta_get(txn, d, META_MODELS, &models, sizeof(models), e) < 0 ||
	    db_meta_get(txn, d, META_APPLIED, &applied, sizeof(applied), e) < 0)
		return -1;
	if (db_seal_get(txn, d->t[DB_META], &key, &id, &n, e) != 0 || n >= sizeof(store->runtime_id))
		return err_set(e, ERR_CORRUPT, "the store has no runtime id");
	if (load_tip(d, txn, &floor, &tip, e) != 0)
		return -1;
	if (!store->runtime_id[0])
		memcpy(store->runtime_id, id, n); /* only once: after a reopen other threads may be reading it */
	store->settled = tip;
	atomic_store(&store->settled_until, tip.sequence);
	store->applied_there = applied;
	pthread_mutex_lock(&store->mutex);
	store->models = models ? DB_MODELS_B : DB_MODELS_A;
	store->models_since = store->read_only ? SIZE_MAX : mdb_txn_id(txn); /* another process may change it */
	pthread_mutex_unlock(&store->mutex);
	atomic_store(&store->first, floor.sequence + 1);
	return 0;
}

int store_meta_load(struct store *store, struct db *d, struct err *e)
{
	MDB_txn *txn;
	int rc = mdb_txn_begin(d->env, NULL, MDB_RDONLY, &txn);

	if (rc != 0)
		return db_err(e, rc, "read the store");
	rc = load_txn(store, d, txn, e);
	mdb_txn_abort(txn);
	return rc;
}

/* The version is in the first transaction, so a store without one is damaged and not new. */
int store_meta_create(struct store *store, struct err *e)
{
	char id[ID_TEXT_MAX];
	uint32_t version = STORE_VERSION;
	MDB_txn *txn;
	int rc = mdb_txn_begin(store->db.env, NULL, 0, &txn);

	if (rc != 0)
		return db_err(e, rc, "create the store");
	id_make(ID_KIND_RUNTIME, id);
	if (db_make(&store->db, txn, e) != 0 ||
	    models_put_fences(txn, store->db.t[DB_MODELS_A], store->growing_models, e) != 0 ||
	    db_meta_put(txn, &store->db, META_VERSION, &version, sizeof(version), e) != 0 ||
	    db_meta_put(txn, &store->db, META_RUNTIME, id, strlen(id), e) != 0) {
		mdb_txn_abort(txn);
		return -1;
	}
	rc = mdb_txn_commit(txn);
	if (rc != 0)
		return db_err(e, rc, "create the store");
	store->is_new = true;
	return 0;
}

int store_meta_get(struct store *store, const char *key, struct buf *out, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	const struct group_entry *newer;
	struct db_key k = { .len = 0 };
	const void *p;
	MDB_val kv;
	size_t n;
	int rc;

	db_key_add(&k, META_USER, strlen(META_USER));
	db_key_add(&k, key, strlen(key));
	if (!db_key_ok(&k))
		return 1;
	if (reader_begin(store, &r, e) != 0)
		return -1;
	newer = layer_note(r.over, 1u << GROUP_META, 0, key);
	if (newer) {
		buf_append(out, newer->data, newer->len);
		return newer->len == 0; /* it is removed */
	}
	kv = db_key_val(&k);
	rc = db_seal_get(r.txn, r.db->t[DB_META], &kv, &p, &n, e);
	if (rc == 0)
		buf_append(out, p, n);
	return damage_note(store, rc, e);
}
