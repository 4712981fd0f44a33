#ifndef BAILIFF_SUPERVISOR_DAEMON_RESTORE_H
#define BAILIFF_SUPERVISOR_DAEMON_RESTORE_H

/*
 * `bailiffd --restore DIR`: puts a backup into the place of a home's store. Runs instead of the daemon, with the home's
 * lock held, because only the daemon's program knows whom store and spool belong to.
 */

struct err;
struct daemon_home;
struct daemon_home_options;

/*
 * The home is taken (daemon_home_lock). What it held is kept beside, as store.before-restore-TIME and
 * spool.before-restore-TIME, and named on stdout. Until the renames at the end nothing of the home has changed.
 */
int restore_backup(struct daemon_home *h, const struct daemon_home_options *o, const char *from, struct err *e);

#endif
