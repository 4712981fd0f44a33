#ifndef BAILIFF_STORE_STORE_DIRS_H
#define BAILIFF_STORE_STORE_DIRS_H

/* The directories of database and outputs (internal to runtime/store): created, locked and cleaned at open. */

#include <stdbool.h>

struct err;
struct store;

/* Opens or creates both and takes the lock (ERR_CONFLICT). Removes what a crash left. */
int store_dirs_open(struct store *store, struct err *e);
/* Before a new database is created: ERR_CORRUPT if there must have been one. */
int store_dirs_check_lost(struct store *store, struct err *e);
/* Adds the path, which the options may not have, to the error of store_open; `database`: and what to do about damage.
 */
void store_dirs_explain(const struct store *store, bool database, struct err *e);
/* Makes the names of a new database and, where permitted, of its directories durable. */
int store_dirs_sync_new(struct store *store, struct err *e);
/* Makes the name of a compacted database durable if necessary (store->unnamed). */
int store_dirs_sync_name(struct store *store, struct err *e);
/* Counts the output files; removes those of expired outputs that a crash left. */
int store_dirs_count_spool(struct store *store, struct err *e);
/* Removes a directory and the files in it. */
void store_dirs_remove(int parent_fd, const char *name);

#define STORE_DIRS_DATA "data.mdb"
#define STORE_DIRS_DATA_NEW "data.mdb.new"
#define STORE_DIRS_SCRATCH "scratch."
#define STORE_DIRS_NEW_SPOOL "new." /* prefix of a spool file that an export is still writing */

#endif
