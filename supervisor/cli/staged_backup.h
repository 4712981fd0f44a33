#ifndef BAILIFF_CLI_STAGED_BACKUP_H
#define BAILIFF_CLI_STAGED_BACKUP_H

/*
 * The daemon writes a backup into its store's own folder, because it may have no right to write elsewhere; whoever
 * asked for it takes it away with the rights that they have.
 */

struct err;

/* Moves the folder `staged` (with its folders store and spool) to `dir`, which must not exist, and makes it the
 * caller's. */
int staged_backup_take(const char *staged, const char *dir, struct err *e);

#endif
