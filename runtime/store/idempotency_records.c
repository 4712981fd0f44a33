#include "runtime/store/idempotency_records.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/store/damage.h"
#include "runtime/store/layer.h"
#include "runtime/store/reader.h"

#include <string.h>

/* The stored form; the result follows. The hash of the body detects a key that is used again for another request. */
struct idempotency_row {
	uint64_t real_us;
	uint8_t body_hash[32];
	char method[IDEMPOTENCY_METHOD_MAX];
};

void idempotency_record_encode(struct buf *out, uint64_t real_us, const char *method, const uint8_t body_hash[32],
			       const char *result, size_t n)
{
	struct idempotency_row row = { .real_us = real_us };

	memcpy(row.body_hash, body_hash, sizeof(row.body_hash));
	snprintf(row.method, sizeof(row.method), "%s", method);
	buf_append(out, &row, sizeof(row));
	buf_append(out, result, n);
}

static void row_key(struct db_key *k, uint32_t uid, const void *key, size_t len)
{
	db_key_reset(k);
	db_key_u32(k, uid);
	db_key_add(k, key, len);
}

static void time_key(struct db_key *k, uint64_t real_us, uint32_t uid, const void *key, size_t len)
{
	db_key_reset(k);
	db_key_u64(k, real_us);
	db_key_u32(k, uid);
	db_key_add(k, key, len);
}

static int parse_row(const void *p, size_t n, struct idempotency_row *ret, const char **ret_result, size_t *ret_len,
		     struct err *e)
{
	if (n < sizeof(*ret))
		return err_set(e, ERR_CORRUPT, "an idempotency record is too short");
	memcpy(ret, p, sizeof(*ret));
	*ret_result = (const char *)p + sizeof(*ret);
	*ret_len = n - sizeof(*ret);
	return 0;
}

static int get_row(MDB_txn *txn, const struct db *d, uint32_t uid, const char *key, struct idempotency_row *ret,
		   const char **ret_result, size_t *ret_len, struct err *e)
{
	struct db_key k;
	const void *p;
	size_t n;
	int rc;

	row_key(&k, uid, key, strlen(key));
	MDB_val kv = db_key_val(&k);
	rc = db_seal_get(txn, d->t[DB_IDEM], &kv, &p, &n, e);
	return rc != 0 ? rc : parse_row(p, n, ret, ret_result, ret_len, e);
}

bool idempotency_record_exists(MDB_txn *txn, const struct db *d, uint32_t uid, const char *key)
{
	struct idempotency_row row;
	const char *result;
	size_t n;

	return get_row(txn, d, uid, key, &row, &result, &n, NULL) == 0;
}

/* A key that is used again replaces its record and its entry by time. */
int idempotency_record_put(MDB_txn *txn, const struct db *d, const struct group_entry *it, struct err *e)
{
	size_t len = it->key_len, n;
	struct idempotency_row old;
	const char *result;
	struct db_key k;
	MDB_val kv, none = { 0 };
	int rc;

	rc = get_row(txn, d, it->uid, it->key, &old, &result, &n, NULL);
	if (rc == 0) {
		time_key(&k, old.real_us, it->uid, it->key, len);
		kv = db_key_val(&k);
		rc = mdb_del(txn, d->t[DB_IDEM_TIME], &kv, NULL);
		if (rc != 0 && rc != MDB_NOTFOUND)
			return db_err(e, rc, "replace an idempotency record");
	}
	row_key(&k, it->uid, it->key, len);
	kv = db_key_val(&k);
	if (db_seal_put(txn, d->t[DB_IDEM], &kv, it->data, it->len, e) != 0)
		return err_wrap(e, "idempotency record");
	time_key(&k, it->real_us, it->uid, it->key, len);
	kv = db_key_val(&k);
	rc = mdb_put(txn, d->t[DB_IDEM_TIME], &kv, &none, 0);
	return rc == 0 ? 0 : db_err(e, rc, "idempotency record");
}

/* In the order of time, so it stops at the first record that is young enough. */
int idempotency_records_prune(MDB_txn *txn, const struct db *d, uint64_t before_us, unsigned max, unsigned *ret_removed,
			      struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	MDB_val kv, v;
	unsigned removed = 0;
	int rc = mdb_cursor_open(txn, d->t[DB_IDEM_TIME], &cur);

	if (rc != 0)
		return db_err(e, rc, "remove old idempotency records");
	while (removed < max && (rc = mdb_cursor_get(cur, &kv, &v, MDB_FIRST)) == 0) {
		struct db_key k;

		if (kv.mv_size <= 12 || db_u64_at(kv.mv_data) >= before_us)
			break;
		db_key_reset(&k);
		db_key_add(&k, (char *)kv.mv_data + 8, kv.mv_size - 8);
		MDB_val row = db_key_val(&k);
		rc = mdb_cursor_del(cur, 0);
		if (rc == 0)
			rc = mdb_del(txn, d->t[DB_IDEM], &row, NULL);
		if (rc != 0 && rc != MDB_NOTFOUND)
			break;
		removed++;
	}
	if (rc != 0 && rc != MDB_NOTFOUND)
		return db_err(e, rc, "remove old idempotency records");
	*ret_removed = removed;
	return 0;
}

int store_idempotency_get(struct store *store, uint32_t uid, const char *key, char method[64], uint8_t body_hash[32],
			  struct buf *result, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	const struct group_entry *newer;
	struct idempotency_row row;
	const char *text;
	size_t n;
	int rc;

	if (strlen(key) > IDEMPOTENCY_KEY_MAX)
		return 1;
	if (reader_begin(store, &r, e) != 0)
		return -1;
	newer = layer_note(r.over, 1u << GROUP_IDEM, uid, key);
	rc = newer ? parse_row(newer->data, newer->len, &row, &text, &n, e)
		   : get_row(r.txn, r.db, uid, key, &row, &text, &n, e);
	if (rc != 0)
		return damage_note(store, rc, e);
	memcpy(method, row.method, sizeof(row.method));
	memcpy(body_hash, row.body_hash, sizeof(row.body_hash));
	buf_append(result, text, n);
	return 0;
}
