#ifndef BAILIFF_CLI_STAGED_BACKUP_H
#define BAILIFF_CLI_STAGED_BACKUP_H

/*
 * The daemon writes a backup into its store's own directory, because it may lack the privilege to write elsewhere. The
 * user who requested it moves it away with their own privileges.
 */

struct err;

/*
 * Moves the directory `staged` (with its subdirectories store and spool) to `dir`, which must not exist, and makes the
 * caller its owner.
 */
int staged_backup_take(const char *staged, const char *dir, struct err *e);

#endif
