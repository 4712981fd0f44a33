#ifndef BAILIFF_SUPERVISOR_DAEMON_DAEMON_PATHS_H
#define BAILIFF_SUPERVISOR_DAEMON_DAEMON_PATHS_H

/*
 * Where a daemon's files are: all under one home, or the system's directories for root, or the user's XDG directories.
 * The command line has the same rules (supervisor/client/home_candidates.c); a unit test compares the two.
 */

#include <limits.h>
#include <sys/types.h>

struct err;

enum daemon_paths_kind { DAEMON_PATHS_HOME, DAEMON_PATHS_SYSTEM, DAEMON_PATHS_USER };

struct daemon_paths {
	enum daemon_paths_kind kind;
	char label[PATH_MAX];  /* for messages: the home or the state directory */
	char run[PATH_MAX];    /* contains control.sock */
	char state[PATH_MAX];  /* contains store/, spool/, bailiffd.pid and daemon.log */
	char config[PATH_MAX]; /* contains config.json and policy.json */
};

/* home: from --home, or NULL for $BAILIFF_HOME and then the defaults of this uid. Relative homes become absolute. */
int daemon_paths_find(const char *home, uid_t uid, struct daemon_paths *ret, struct err *e);

#endif
