#include "runtime/store/reader.h"

#include "runtime/base/err.h"
#include "runtime/store/state.h"

int reader_begin(struct store *s, struct reader *ret, struct err *e)
{
	MDB_txn *txn;
	int rc;

	pthread_rwlock_rdlock(&s->db_lock);
	if (!s->db.env) {
		pthread_rwlock_unlock(&s->db_lock);
		return err_set(e, ERR_UNAVAILABLE, "the store's medium has failed; it is tried again");
	}
	rc = mdb_txn_begin(s->db.env, NULL, MDB_RDONLY, &txn);
	if (rc != 0) {
		pthread_rwlock_unlock(&s->db_lock);
		return db_err(e, rc, "read the store");
	}
	*ret = (struct reader){ .store = s, .db = &s->db, .txn = txn };
	return 0;
}

void reader_end(struct reader *r)
{
	if (!r->store)
		return;
	mdb_txn_abort(r->txn);
	pthread_rwlock_unlock(&r->store->db_lock);
	*r = READER_INIT;
}

int reader_floor(const struct reader *r, struct tip *ret, struct err *e)
{
	struct tip t = { 0 };

	if (db_meta_get(r->txn, r->db, META_FLOOR, &t, sizeof(t), e) < 0)
		return -1;
	*ret = t;
	return 0;
}

int reader_models(const struct reader *r, MDB_dbi *ret, struct err *e)
{
	uint8_t which = 0;

	if (db_meta_get(r->txn, r->db, META_MODELS, &which, sizeof(which), e) < 0)
		return -1;
	*ret = r->db->t[which ? DB_MODELS_B : DB_MODELS_A];
	return 0;
}
