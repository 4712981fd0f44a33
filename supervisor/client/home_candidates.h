#ifndef BAILIFF_CLIENT_HOME_CANDIDATES_H
#define BAILIFF_CLIENT_HOME_CANDIDATES_H

/*
 * The homes in which a daemon may run: only $BAILIFF_HOME if it is set; otherwise this user's, then the system's. The
 * same rules as supervisor/daemon/daemon_paths.c, which the command line may not include; a unit test compares the two.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct home {
	const char *kind;   /* "BAILIFF_HOME", "user" or "system" */
	char dir[PATH_MAX]; /* $BAILIFF_HOME, or "" */
	char socket[PATH_MAX];
	char store[PATH_MAX];
};

#define HOME_CANDIDATES_MAX 2
/* In the order in which they are tried; a daemon would be started in the first. Returns their number. */
size_t home_candidates(uid_t uid, struct home ret[HOME_CANDIDATES_MAX]);
bool home_has_store(const struct home *h);
/*
 * The system's daemon, if systemd starts it at boot. A daemon started by hand would prevent the service from starting.
 */
bool home_is_service(const struct home *h);

#endif
