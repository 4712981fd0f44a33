#ifndef BAILIFF_STORE_DB_H
#define BAILIFF_STORE_DB_H

/*
 * The LMDB environment and its tables (internal to runtime/store).
 *
 * No DUPSORT: keys are composite, with big-endian numbers. Values that have no checksum of their own (models, blobs,
 * idempotency records, meta) are *sealed*: eight bytes of hash over key and value precede the value, so that a flipped
 * bit is an error and never data.
 */

#include <lmdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define DB_TABLES(X)                                                                                  \
	X(META, "meta")         /* name → sealed value (store_meta.h) */                            \
	X(EVENTS, "events")     /* sequence → record.h */                                           \
	X(INDEX, "index")       /* id, id field, first sequence → distances (event_index.h) */      \
	X(MODELS_A, "models_a") /* kind, id → sealed document; META_MODELS selects a or b */        \
	X(MODELS_B, "models_b")                                                                       \
	X(BASE, "base")           /* the models before the first kept event (retention) */            \
	X(BLOBS, "blobs")         /* output ref → sealed: 0 and the inline bytes, or 1 = expired */ \
	X(CHUNKS, "chunks")       /* output ref, NUL, offset → struct chunk_row */                  \
	X(IDEM, "idem")           /* uid, key → sealed struct idempotency_row, method, result */    \
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
	MDB_txn *spare; /* a read transaction that has ended and can be begun again (reader.c); or NULL */
	uint64_t map_bytes;
	bool smaller; /* the address space is too small for the requested map */
};

/*
 * Opens <dir>/data.mdb and its tables. *ret_empty: a new environment, for which db_make creates the tables. Writes
 * nothing to an existing one.
 */
int db_open(const char *dir, uint64_t map_bytes, unsigned flags, struct db *ret, bool *ret_empty, struct err *e);
int db_make(struct db *d, MDB_txn *txn, struct err *e);
void db_close(struct db *d);

/* Translates LMDB's return code to ERR_EXHAUSTED (map or disk full), ERR_CORRUPT or ERR_SYS. Returns −1. */
int db_err(struct err *e, int rc, const char *what);

/* Composite keys. */
#define DB_KEY_MAX 511
struct db_key {
	unsigned char bytes[DB_KEY_MAX];
	size_t len;
};
void db_key_reset(struct db_key *k);
void db_key_add(struct db_key *k, const void *p, size_t n); /* too much makes the key invalid (db_key_ok) */
void db_key_u8(struct db_key *k, uint8_t v);
void db_key_u32(struct db_key *k, uint32_t v);
void db_key_u64(struct db_key *k, uint64_t v);
bool db_key_ok(const struct db_key *k);
MDB_val db_key_val(struct db_key *k);
MDB_val db_key_text(const char *text);                        /* a key that consists of a text */
MDB_val db_key_sequence(struct db_key *k, uint64_t sequence); /* the key of an event, stored in *k */
uint64_t db_u64_at(const void *p);                            /* a big-endian number in a key */

#define DB_SEALED_MAX (64u << 20)
/* Sealed values. Get: 0 found, 1 not found, −1 (ERR_CORRUPT if the seal does not match). */
int db_seal_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const void *p, size_t n, struct err *e);
/* 1: nothing is changed, because there is a value, which is returned as it is stored. */
int db_seal_insert(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const void *p, size_t n, MDB_val *ret_old, struct err *e);
int db_seal_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const void **ret, size_t *ret_len, struct err *e);
/* Whether a sealed value consists of these bytes; the seal is not checked. */
bool db_seal_same(const MDB_val *value, const void *p, size_t n);
int db_seal_open(const MDB_val *key, const MDB_val *value, const void **ret, size_t *ret_len, struct err *e);

/* Meta values of a fixed size, by name. */
int db_meta_get(MDB_txn *txn, const struct db *d, const char *name, void *p, size_t n, struct err *e);
int db_meta_put(MDB_txn *txn, const struct db *d, const char *name, const void *p, size_t n, struct err *e);

/* The stored record of an event, valid until the transaction's next write; ERR_CORRUPT if it is missing. */
/* The last record that begins at or before this event, and the sequence of its first event; ERR_CORRUPT. */
int db_event_get(MDB_txn *txn, const struct db *d, uint64_t sequence, uint64_t *ret_first, MDB_val *ret, struct err *e);
int db_event_missing(uint64_t sequence, struct err *e); /* sets the error; −1 */

static inline void db_cursor_close(MDB_cursor **cur)
{
	if (*cur)
		mdb_cursor_close(*cur);
}
/* Declare it after the reader: LMDB wants the cursor closed before its transaction. */
#define db_cursor_auto __attribute__((cleanup(db_cursor_close)))

uint64_t db_entries(MDB_txn *txn, MDB_dbi dbi);

#endif
