#ifndef BAILIFF_STORE_CHUNK_H
#define BAILIFF_STORE_CHUNK_H

/* Checksums of output bytes (internal to runtime/store): one row for each chunk of a spool file. */

#include "runtime/store/batch.h"
#include "runtime/store/db.h"

#include <sys/types.h>

struct group_entry;
struct reader;

#define CHUNK_MAX (256u * 1024)

struct chunk_row {
	uint32_t length;
	uint32_t version; /* 0 */
	uint64_t checksum;
};

/* The files that were already synced for the current group. */
struct chunk_syncs {
	struct chunk_sync {
		dev_t dev;
		ino_t ino;
	} * files;
	size_t count, cap;
	bool dir_synced;
};
void chunk_syncs_done(struct chunk_syncs *y);

/* Writer thread, outside of a transaction: syncs the batch's ranges and computes their checksums. */
int chunk_prepare(struct store *store, struct store_batch *b, struct chunk_syncs *y, struct err *e);
int chunk_put(MDB_txn *txn, const struct db *d, const struct group_entry *range, struct err *e);
/* Removes an output's rows and marks it as expired; *ret_freed = the bytes that the rows described. */
int chunk_expire(MDB_txn *txn, const struct db *d, const char *ref, uint64_t *ret_freed, struct err *e);

/* 1 if any range of this output was committed. */
int chunk_is_known(struct reader *rd, const char *ref, struct err *e);
void chunk_key(struct db_key *k, const char *ref, uint64_t offset);
/* Parses a row; ERR_CORRUPT. ret_ref has BATCH_REF_MAX bytes. */
int chunk_parse(const MDB_val *key, const MDB_val *value, char *ret_ref, struct chunk *ret, struct err *e);
/* Reads a chunk into `dst` (CHUNK_MAX bytes) and checks its checksum: ERR_CORRUPT, ERR_SYS. */
int chunk_read(int fd, const char *ref, const struct chunk *c, char *dst, struct err *e);

#endif
