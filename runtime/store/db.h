#ifndef BAILIFF_STORE_DB_H
#define BAILIFF_STORE_DB_H

/*
 * The LMDB environment and its tables (internal to runtime/store).
 *
 * No DUPSORT: keys are composite, numbers in them big-endian. Values that carry no checksum of their own (models,
 * blobs, idempotency records, meta) are *sealed*: eight bytes of hash over key and value stand before the value, so
 * that a flipped bit is an error and never data.
 */

#include <lmdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define DB_TABLES(X)                                                                                    \
	X(META, "meta")         /* name → sealed value; names of users start with "u:" */             \
	X(EVENTS, "events")     /* sequence → record.h */                                             \
	X(INDEX, "index")       /* id, id field, sequence (event_index.h) → nothing */                \
	X(MODELS_A, "models_a") /* kind, id → sealed document; meta "models" says which of the two */ \
	X(MODELS_B, "models_b")                                                                         \
	X(BASE, "base")           /* the models as they were before the first kept event */             \
	X(BLOBS, "blobs")         /* output ref → sealed: 0 and the inline bytes, or 1 = expired */   \
	X(CHUNKS, "chunks")       /* output ref, NUL, offset → struct chunk_row */                    \
	X(IDEM, "idem")           /* uid, key → sealed struct idempotency_row, method, result */      \
	X(IDEM_TIME, "idem_time") /* microseconds, uid, key → nothing */

enum db_table {
#define X(name, text) DB_##name,
	DB_TABLES(X)
#undef X
		DB_TABLE_COUNT
};

struct db {
	MDB_env *env; /* NULL = not open */
	MDB_dbi t[DB_TABLE_COUNT];
	uint64_t map_bytes;
	bool smaller; /* the address space did not allow the map that was asked for */
};

/*
 * Opens <dir>/data.mdb. The tables are there afterwards unless *ret_empty is set (a new environment): db_make then
 * makes them. Nothing is written to an existing one.
 */
int db_open(const char *dir, uint64_t map_bytes, unsigned flags, struct db *ret, bool *ret_empty, struct err *e);
int db_make(struct db *d, MDB_txn *txn, struct err *e);
void db_close(struct db *d);

/* What LMDB's return code means here: ERR_EXHAUSTED (map or disk full), ERR_CORRUPT, or ERR_SYS. Returns −1. */
int db_err(struct err *e, int rc, const char *what);

/* Composite keys. */
#define DB_KEY_MAX 511
struct db_key {
	unsigned char bytes[DB_KEY_MAX];
	size_t len;
};
void db_key_reset(struct db_key *k);
void db_key_add(struct db_key *k, const void *p, size_t n); /* what does not fit makes the key invalid (len > max) */
void db_key_u8(struct db_key *k, uint8_t v);
void db_key_u32(struct db_key *k, uint32_t v);
void db_key_u64(struct db_key *k, uint64_t v);
bool db_key_ok(const struct db_key *k);
MDB_val db_key_val(struct db_key *k);
uint64_t db_u64_at(const void *p); /* a big-endian number in a key */

#define DB_SEALED_MAX (64u << 20)
/* Sealed values. Get: 0 found, 1 not there, −1 (ERR_CORRUPT when the seal does not match). */
int db_seal_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const void *p, size_t n, struct err *e);
int db_seal_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const void **ret, size_t *ret_len, struct err *e);
bool db_seal_same(const MDB_val *value, const void *p,
		  size_t n); /* whether it holds these bytes (its seal is not checked) */
int db_seal_open(const MDB_val *key, const MDB_val *value, const void **ret, size_t *ret_len, struct err *e);

/* Meta values of a fixed size, by name. */
int db_meta_get(MDB_txn *txn, const struct db *d, const char *name, void *p, size_t n, struct err *e);
int db_meta_put(MDB_txn *txn, const struct db *d, const char *name, const void *p, size_t n, struct err *e);

uint64_t db_entries(MDB_txn *txn, MDB_dbi dbi);

#endif
