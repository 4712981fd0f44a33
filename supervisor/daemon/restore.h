#ifndef BAILIFF_SUPERVISOR_DAEMON_RESTORE_H
#define BAILIFF_SUPERVISOR_DAEMON_RESTORE_H

/*
 * `bailiffd --restore DIR`: replaces a home's store with a backup. Runs instead of the daemon, with the home's lock
 * held, because only the daemon's program knows the owner of store and spool.
 */

struct err;
struct daemon_home;
struct daemon_home_options;

/*
 * The home is locked (daemon_home_lock). The previous store and spool are kept as store.before-restore-TIME and
 * spool.before-restore-TIME, and printed to stdout. Nothing of the home changes before the renames at the end.
 */
int restore_backup(struct daemon_home *h, const struct daemon_home_options *o, const char *from, struct err *e);

#endif
