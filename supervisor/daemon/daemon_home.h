#ifndef BAILIFF_SUPERVISOR_DAEMON_DAEMON_HOME_H
#define BAILIFF_SUPERVISOR_DAEMON_DAEMON_HOME_H

/* A daemon's home in use: folders made, the lock held, the socket listening. */

#include "supervisor/daemon/daemon_paths.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct home {
	struct paths paths;
	char socket[PATH_MAX];
	char config_file[PATH_MAX];
	int run_fd, state_fd;                       /* folders */
	int cow_fd;                                 /* folder of copy-on-write runs: ours, never the runtime's */
	int lock_fd, listen_fd, store_fd, spool_fd; /* go to the guard */
};

struct home_options {
	mode_t socket_mode; /* 0: by the kind of home */
	const char *config; /* --config, or NULL */
	bool give;          /* store and spool belong to somebody else: */
	uid_t uid;
	gid_t gid;
};

void home_init(struct home *h, const struct paths *p);
/* Folders and the lock: a second daemon is refused here, at once. */
int home_take(struct home *h, const struct home_options *o, struct err *e);
/* Only the folders, for a guard that has the rest from before an upgrade. */
int home_look(struct home *h, const struct home_options *o, struct err *e);
/* Replaces a socket that nobody listens on any more; the lock says so. */
int home_listen(struct home *h, const struct home_options *o, struct err *e);
int home_write_pid(struct home *h, struct err *e);
/* Opens STATE/daemon.log to append; a long one is put aside first. Returns the descriptor. */
int home_open_log(struct home *h, struct err *e);
/* The orderly end: no socket, no pid. */
void home_leave(struct home *h);
void home_done(struct home *h);

/* "bailiff-<16 digits>": names this home's cgroups, the same at every start. */
#define HOME_TAG_MAX 32
void home_tag(const struct home *h, char out[HOME_TAG_MAX]);

#endif
