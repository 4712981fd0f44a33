#include "runtime/store/reader.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/store/layer.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"

#include <string.h>

/* With the mutex held. A transaction that is begun again costs no memory and no slot in LMDB's table of readers. */
static int begin_txn(struct db *d, MDB_txn **ret)
{
	int rc;

	if (!d->spare)
		return mdb_txn_begin(d->env, NULL, MDB_RDONLY, ret);
	*ret = mem_take(&d->spare);
	rc = mdb_txn_renew(*ret);
	if (rc != 0)
		mdb_txn_abort(*ret);
	return rc;
}

/* Transaction and layers must belong to the same moment, hence the mutex around both. */
int reader_begin(struct store *store, struct reader *ret, struct err *e)
{
	struct layer *over = NULL;
	MDB_txn *txn;
	int rc, models = -1;

	pthread_rwlock_rdlock(&store->db_lock);
	if (!store->db.env) {
		pthread_rwlock_unlock(&store->db_lock);
		return err_set(e, ERR_UNAVAILABLE, "the store's disk has failed; the daemon keeps retrying");
	}
	pthread_mutex_lock(&store->mutex);
	rc = begin_txn(&store->db, &txn);
	/* a transaction at or after the one that settles the layers already contains them */
	if (rc == 0 && mdb_txn_id(txn) < store->settling)
		over = layer_ref(store->layers);
	if (rc == 0 && mdb_txn_id(txn) >= store->models_since)
		models = store->models;
	pthread_mutex_unlock(&store->mutex);
	if (rc != 0) {
		pthread_rwlock_unlock(&store->db_lock);
		return db_err(e, rc, "read the store");
	}
	*ret = (struct reader){ .store = store, .db = &store->db, .txn = txn, .over = over, .models = models };
	return 0;
}

void reader_end(struct reader *r)
{
	if (!r->store)
		return;
	mdb_txn_reset(r->txn);
	pthread_mutex_lock(&r->store->mutex);
	if (!r->store->db.spare)
		r->store->db.spare = mem_take(&r->txn);
	pthread_mutex_unlock(&r->store->mutex);
	if (r->txn)
		mdb_txn_abort(r->txn);
	layer_unref(r->over);
	pthread_rwlock_unlock(&r->store->db_lock);
	*r = READER_INIT;
}

/* An absent value is the zero tip: nothing was removed yet. */
int reader_floor(const struct reader *r, struct tip *ret, struct err *e)
{
	struct tip t = { 0 };

	if (db_meta_get(r->txn, r->db, META_FLOOR, &t, sizeof(t), e) < 0)
		return -1;
	*ret = t;
	return 0;
}

int reader_last(const struct reader *r, uint64_t *ret, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	MDB_val kv, v;
	int rc;

	if (r->over) {
		*ret = r->over->last_sequence;
		return 0;
	}
	rc = mdb_cursor_open(r->txn, r->db->t[DB_EVENTS], &cur);
	if (rc != 0)
		return db_err(e, rc, "read the log's end");
	rc = mdb_cursor_get(cur, &kv, &v, MDB_LAST);
	if (rc != 0 && rc != MDB_NOTFOUND)
		return db_err(e, rc, "read the log's end");
	struct record_head h = { 0 };
	if (rc == 0 && v.mv_size >= sizeof(h))
		memcpy(&h, v.mv_data, sizeof(h));
	*ret = rc == 0 && kv.mv_size == 8 ? db_u64_at(kv.mv_data) + h.more : 0;
	return 0;
}

/* The table changes only in a rebuild; META_MODELS is the truth for transactions around it. */
int reader_models(const struct reader *r, MDB_dbi *ret, struct err *e)
{
	uint8_t which = 0;

	if (r->models >= 0) {
		*ret = r->db->t[r->models];
		return 0;
	}
	if (db_meta_get(r->txn, r->db, META_MODELS, &which, sizeof(which), e) < 0)
		return -1;
	*ret = r->db->t[which ? DB_MODELS_B : DB_MODELS_A];
	return 0;
}
