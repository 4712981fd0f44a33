#ifndef BAILIFF_STORE_LMDB_CHECK_H
#define BAILIFF_STORE_LMDB_CHECK_H

/*
 * The structure of data.mdb, checked without LMDB (internal to runtime/store). LMDB trusts what it maps: a flipped bit
 * in a page's head makes it read outside of the page, or of the file. So before it follows pointers, this reads the
 * pages with pread and checks every one that LMDB would follow. (LMDB's data format 1, as all of 0.9 writes it.)
 */

#include <stdbool.h>
#include <stdint.h>

struct err;

/*
 * Checks the pages of a transaction's snapshot (0 = the newest) until `budget` bytes have been read. 0 fine; 1 the
 * snapshot's meta page has been replaced meanwhile; −1 ERR_CORRUPT or ERR_SYS.
 */
int lmdb_check_fd(int fd, uint64_t txn_id, uint64_t budget, struct err *e);
/* <dir>/data.mdb before it is opened; 1 when there is none yet, or a blank one. */
int lmdb_check_file(int dir_fd, uint64_t budget, struct err *e);

#endif
