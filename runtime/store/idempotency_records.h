#ifndef BAILIFF_STORE_IDEMPOTENCY_RECORDS_H
#define BAILIFF_STORE_IDEMPOTENCY_RECORDS_H

/* Idempotency records (internal to runtime/store): by uid and key, and by time so that old ones can be removed. */

#include "runtime/store/db.h"

struct buf;
struct err;
struct group_entry;

#define IDEMPOTENCY_KEY_MAX 200
#define IDEMPOTENCY_METHOD_MAX 64

void idempotency_record_encode(struct buf *out, uint64_t real_us, const char *method, const uint8_t body_hash[32],
			       const char *result, size_t n);
int idempotency_record_put(MDB_txn *txn, const struct db *d, const struct group_entry *it, struct err *e);
bool idempotency_record_exists(MDB_txn *txn, const struct db *d, uint32_t uid, const char *key);
/* Removes at most `max` records older than before_us; *ret_removed < max: none is left. */
int idempotency_records_prune(MDB_txn *txn, const struct db *d, uint64_t before_us, unsigned max, unsigned *ret_removed,
			      struct err *e);

#endif
