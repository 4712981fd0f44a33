#ifndef BAILIFF_STORE_STORE_DIRS_H
#define BAILIFF_STORE_STORE_DIRS_H

/* The store's two folders (internal to runtime/store): made, locked, swept and counted at open. */

struct err;
struct store;

/* Opens (makes) both and takes the lock; ERR_CONFLICT when another process has it. Sweeps what a crash left. */
int store_dirs_open(struct store *store, struct err *e);
/* There is no database, and one would be made: ERR_CORRUPT if there was one. */
int store_dirs_check_lost(struct store *store, struct err *e);
/* The new database's name, and where permitted the folder's own, made durable. */
int store_dirs_sync_new(struct store *store, struct err *e);
/* A database that was renamed into place (s->unnamed): its name made durable. */
int store_dirs_sync_name(struct store *store, struct err *e);
/* Counts the spool; removes files of outputs that have expired (a crash came between commit and removal). */
int store_dirs_count_spool(struct store *store, struct err *e);
/* Removes a flat folder and its files. */
void store_dirs_remove(int parent_fd, const char *name);

#define STORE_DIRS_DATA "data.mdb"
#define STORE_DIRS_DATA_NEW "data.mdb.new"
#define STORE_DIRS_SCRATCH "scratch."
#define STORE_DIRS_NEW_SPOOL "new." /* a spool file that is still being written for an export */

#endif
