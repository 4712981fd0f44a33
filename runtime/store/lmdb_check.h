#ifndef BAILIFF_STORE_LMDB_CHECK_H
#define BAILIFF_STORE_LMDB_CHECK_H

/* The structure of data.mdb, checked without LMDB (internal to runtime/store). lmdb_check.c says why. */

#include <stdbool.h>
#include <stdint.h>

struct err;

/*
 * Checks the pages of a transaction's snapshot (0 = the newest) until `budget` bytes have been read. 0 valid; 1 the
 * meta page of the snapshot was replaced meanwhile; −1 ERR_CORRUPT or ERR_SYS.
 */
int lmdb_check_fd(int fd, uint64_t txn_id, uint64_t budget, struct err *e);
/* Checks <dir>/data.mdb before it is opened; 1 if it does not exist or is blank. */
int lmdb_check_file(int dir_fd, uint64_t budget, struct err *e);

#endif
