#ifndef BAILIFF_STORE_EXPIRED_FILES_H
#define BAILIFF_STORE_EXPIRED_FILES_H

/*
 * Removal of the spool files of expired outputs (internal to runtime/store, writer thread). It follows the commit that
 * expired them: a crash in between leaves files that the next open removes.
 */

struct store;

/* Removes the files in store->unlinks, unless a backup copies spool files. */
void expired_files_remove(struct store *store);
/* Closes the last descriptor of a large file without a name, in another thread; −1 is ignored. */
void expired_files_close(int fd);

#endif
