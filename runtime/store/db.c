#include "runtime/store/db.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/store/lmdb_check.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static const char *const table_names[DB_TABLE_COUNT] = {
#define X(name, text) [DB_##name] = text,
	DB_TABLES(X)
#undef X
};

/*
 * The writer acts on the code: after ERR_EXHAUSTED it waits for space, after ERR_SYS it reopens the environment and
 * retries; it does not retry after any other.
 */
int db_err(struct err *e, int rc, const char *what)
{
	switch (rc) {
	case MDB_MAP_FULL: err_set(e, ERR_EXHAUSTED, "%s: the database has reached its map size", what); return -1;
	case ENOSPC:
	case EDQUOT:
		err_sys(e, rc, "%s", what);
		if (e)
			e->code = ERR_EXHAUSTED;
		return -1;
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
	case MDB_INVALID:
	case MDB_CURSOR_FULL: return err_set(e, ERR_CORRUPT, "%s: %s", what, mdb_strerror(rc));
	case MDB_VERSION_MISMATCH:
		return err_set(e, ERR_UNAVAILABLE, "%s: another version of LMDB wrote the database", what);
	default:
		if (rc > 0)
			return err_sys(e, rc, "%s", what);
		err_set(e, ERR_SYS, "%s: %s", what, mdb_strerror(rc));
		if (e)
			e->sys = EIO;
		return -1;
	}
}

/*
 * MDB_NOTLS: a read transaction belongs to its object and not to the thread, so one thread may have several (reader.h).
 */
static int open_env(const char *dir, uint64_t map_bytes, unsigned flags, MDB_env **ret)
{
	MDB_env *env;
	int rc = mdb_env_create(&env);
	if (rc != 0)
		return rc;
	rc = mdb_env_set_maxdbs(env, DB_TABLE_COUNT + 2);
	if (rc == 0)
		rc = mdb_env_set_mapsize(env, map_bytes);
	if (rc == 0)
		rc = mdb_env_open(env, dir, flags | MDB_NOTLS, 0600);
	if (rc != 0) {
		mdb_env_close(env);
		return rc;
	}
	*ret = env;
	return 0;
}

/*
 * LMDB maps the file without checking its length; access to a missing page would raise SIGBUS. A file may lack pages
 * that are free (lmdb_check.c).
 */
static int check_length(MDB_env *env, int fd, struct err *e)
{
	MDB_envinfo info;
	MDB_stat st;
	struct stat sb;

	mdb_env_info(env, &info);
	mdb_env_stat(env, &st);
	if (fstat(fd, &sb) != 0)
		return err_sys(e, errno, "stat data.mdb");
	if (sb.st_size == 0 || (uint64_t)sb.st_size >= ((uint64_t)info.me_last_pgno + 1) * st.ms_psize)
		return 0;
	return lmdb_check_fd(fd, 0, UINT64_MAX, e) < 0 ? err_wrap(e, "data.mdb is truncated") : 0;
}

static int open_tables(struct db *d, MDB_txn *txn, unsigned flags)
{
	for (int i = 0; i < DB_TABLE_COUNT; i++) {
		int rc = mdb_dbi_open(txn, table_names[i], flags, &d->t[i]);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int db_open(const char *dir, uint64_t map_bytes, unsigned flags, struct db *ret, bool *ret_empty, struct err *e)
{
	struct db d = { .map_bytes = map_bytes };
	MDB_txn *txn;
	int rc, fd;

	/* A whole number of pages; less on 32 bits or under ulimit -v. */
	d.map_bytes &= ~(uint64_t)0xffff;
	for (;;) {
		rc = d.map_bytes > SIZE_MAX / 2 ? ENOMEM : open_env(dir, d.map_bytes, flags, &d.env);
		/* valgrind reports EINVAL */
		if ((rc != ENOMEM && rc != EINVAL) || d.map_bytes <= (64u << 20))
			break;
		d.map_bytes /= 4;
		d.smaller = true;
	}
	if (rc != 0)
		return db_err(e, rc, "open the database");

	/* LMDB opens its lock file and its meta descriptor with O_CLOEXEC, but not the data file. */
	if (mdb_env_get_fd(d.env, &fd) != 0 || fd_cloexec(fd, true) != 0) {
		db_close(&d);
		return err_sys(e, errno, "open the database");
	}
	if (check_length(d.env, fd, e) != 0) {
		db_close(&d);
		return -1;
	}
	rc = mdb_txn_begin(d.env, NULL, MDB_RDONLY, &txn);
	if (rc == 0) {
		rc = open_tables(&d, txn, 0);
		/* handles opened in a transaction survive only if it is committed */
		if (rc == 0)
			rc = mdb_txn_commit(txn);
		else
			mdb_txn_abort(txn);
	}
	if (rc != 0 && rc != MDB_NOTFOUND) {
		db_close(&d);
		return db_err(e, rc, "open the database's tables");
	}
	*ret_empty = rc == MDB_NOTFOUND;
	*ret = d;
	return 0;
}

int db_make(struct db *d, MDB_txn *txn, struct err *e)
{
	int rc = open_tables(d, txn, MDB_CREATE);

	return rc == 0 ? 0 : db_err(e, rc, "create the database's tables");
}

void db_close(struct db *d)
{
	if (d->spare)
		mdb_txn_abort(d->spare);
	d->spare = NULL;
	if (d->env)
		mdb_env_close(d->env);
	d->env = NULL;
}

/* ---- keys ---- */

void db_key_reset(struct db_key *k) { k->len = 0; }

void db_key_add(struct db_key *k, const void *p, size_t n)
{
	if (k->len > DB_KEY_MAX || n > DB_KEY_MAX - k->len) {
		k->len = DB_KEY_MAX + 1;
		return;
	}
	if (n)
		memcpy(k->bytes + k->len, p, n);
	k->len += n;
}

void db_key_u8(struct db_key *k, uint8_t v) { db_key_add(k, &v, 1); }

void db_key_u32(struct db_key *k, uint32_t v)
{
	unsigned char b[4] = { (unsigned char)(v >> 24), (unsigned char)(v >> 16), (unsigned char)(v >> 8),
			       (unsigned char)v };

	db_key_add(k, b, sizeof(b));
}

void db_key_u64(struct db_key *k, uint64_t v)
{
	db_key_u32(k, (uint32_t)(v >> 32));
	db_key_u32(k, (uint32_t)v);
}

bool db_key_ok(const struct db_key *k) { return k->len > 0 && k->len <= DB_KEY_MAX; }

MDB_val db_key_val(struct db_key *k) { return (MDB_val){ .mv_size = k->len, .mv_data = k->bytes }; }

MDB_val db_key_text(const char *text)
{
	return (MDB_val){ .mv_size = strlen(text), .mv_data = (void *)(uintptr_t)text };
}

MDB_val db_key_sequence(struct db_key *k, uint64_t sequence)
{
	db_key_reset(k);
	db_key_u64(k, sequence);
	return db_key_val(k);
}

uint64_t db_u64_at(const void *p)
{
	const unsigned char *b = p;
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | b[i];
	return v;
}

/* ---- sealed values ---- */

static uint64_t seal_of(const MDB_val *key, const void *p, size_t n)
{
	return hash64(p, n, hash64(key->mv_data, key->mv_size, 0));
}

/* Reserves the value in the page and writes it there, without a copy. */
static int seal_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const void *p, size_t n, unsigned flags, MDB_val *v,
		    struct err *e)
{
	uint64_t seal = seal_of(key, p, n);
	int rc;

	if (n > DB_SEALED_MAX)
		return err_set(e, ERR_EXHAUSTED, "a value of %zu bytes is too large for the store", n);
	v->mv_size = n + sizeof(seal);
	rc = mdb_put(txn, dbi, key, v, MDB_RESERVE | flags);
	if (rc == MDB_KEYEXIST)
		return 1;
	if (rc != 0)
		return db_err(e, rc, "write a value");
	memcpy(v->mv_data, &seal, sizeof(seal));
	if (n)
		memcpy((char *)v->mv_data + sizeof(seal), p, n);
	return 0;
}

int db_seal_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const void *p, size_t n, struct err *e)
{
	MDB_val v;

	return seal_put(txn, dbi, key, p, n, 0, &v, e);
}

int db_seal_insert(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const void *p, size_t n, MDB_val *ret_old, struct err *e)
{
	return seal_put(txn, dbi, key, p, n, MDB_NOOVERWRITE, ret_old, e);
}

bool db_seal_same(const MDB_val *value, const void *p, size_t n)
{
	return value->mv_size == n + sizeof(uint64_t) &&
	       (n == 0 || memcmp((const char *)value->mv_data + sizeof(uint64_t), p, n) == 0);
}

/* The key is part of the hash: a value under the wrong key is detected, too. */
int db_seal_open(const MDB_val *key, const MDB_val *value, const void **ret, size_t *ret_len, struct err *e)
{
	uint64_t seal;
	const char *p;
	size_t n;

	if (value->mv_size < sizeof(seal) || value->mv_size > DB_SEALED_MAX + sizeof(seal))
		return err_set(e, ERR_CORRUPT, "a stored value has an impossible length");
	memcpy(&seal, value->mv_data, sizeof(seal));
	p = (const char *)value->mv_data + sizeof(seal);
	n = value->mv_size - sizeof(seal);
	if (seal != seal_of(key, p, n))
		return err_set(e, ERR_CORRUPT, "a stored value does not match its checksum");
	*ret = p;
	*ret_len = n;
	return 0;
}

int db_seal_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const void **ret, size_t *ret_len, struct err *e)
{
	MDB_val v;
	int rc = mdb_get(txn, dbi, key, &v);

	if (rc == MDB_NOTFOUND)
		return 1;
	if (rc != 0)
		return db_err(e, rc, "read a value");
	return db_seal_open(key, &v, ret, ret_len, e);
}

int db_meta_get(MDB_txn *txn, const struct db *d, const char *name, void *p, size_t n, struct err *e)
{
	MDB_val key = db_key_text(name);
	const void *v;
	size_t len;
	int rc = db_seal_get(txn, d->t[DB_META], &key, &v, &len, e);

	if (rc < 0)
		return err_wrap(e, "meta value '%s'", name);
	if (rc > 0)
		return 1;
	if (len != n)
		return err_set(e, ERR_CORRUPT, "meta value '%s' has %zu bytes instead of %zu", name, len, n);
	memcpy(p, v, n);
	return 0;
}

int db_meta_put(MDB_txn *txn, const struct db *d, const char *name, const void *p, size_t n, struct err *e)
{
	MDB_val key = db_key_text(name);

	return db_seal_put(txn, d->t[DB_META], &key, p, n, e);
}

int db_event_missing(uint64_t sequence, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "event %llu is missing", (unsigned long long)sequence);
}

int db_event_get(MDB_txn *txn, const struct db *d, uint64_t sequence, uint64_t *ret_first, MDB_val *ret, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	struct db_key k;
	MDB_val key = db_key_sequence(&k, sequence), v;
	int rc = mdb_cursor_open(txn, d->t[DB_EVENTS], &cur);

	if (rc != 0)
		return db_err(e, rc, "read an event");
	rc = mdb_cursor_get(cur, &key, &v, MDB_SET_RANGE);
	if (rc == MDB_NOTFOUND)
		rc = mdb_cursor_get(cur, &key, &v, MDB_LAST);
	else if (rc == 0 && (key.mv_size != sizeof(sequence) || db_u64_at(key.mv_data) != sequence))
		rc = mdb_cursor_get(cur, &key, &v, MDB_PREV);
	if (rc == MDB_NOTFOUND || (rc == 0 && key.mv_size != sizeof(sequence)))
		return db_event_missing(sequence, e);
	if (rc != 0)
		return db_err(e, rc, "read an event");
	*ret_first = db_u64_at(key.mv_data);
	*ret = v;
	return 0;
}

uint64_t db_entries(MDB_txn *txn, MDB_dbi dbi)
{
	MDB_stat st;

	return mdb_stat(txn, dbi, &st) == 0 ? st.ms_entries : 0;
}
