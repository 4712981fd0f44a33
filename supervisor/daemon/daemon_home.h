#ifndef BAILIFF_SUPERVISOR_DAEMON_DAEMON_HOME_H
#define BAILIFF_SUPERVISOR_DAEMON_DAEMON_HOME_H

/* A daemon's home in use: folders made, the lock held, the socket listening. */

#include "supervisor/daemon/daemon_paths.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct daemon_home {
	struct daemon_paths paths;
	char socket[PATH_MAX];
	char config_file[PATH_MAX];
	int run_fd, state_fd;                       /* folders */
	int cow_fd;                                 /* folder of copy-on-write runs: ours, never the runtime's */
	int lock_fd, listen_fd, store_fd, spool_fd; /* go to the guard */
};

struct daemon_home_options {
	mode_t socket_mode; /* 0: by the kind of home */
	const char *config; /* --config, or NULL */
	bool give;          /* store and spool belong to somebody else: */
	uid_t uid;
	gid_t gid;
};

void daemon_home_init(struct daemon_home *h, const struct daemon_paths *p);
/* Folders and the lock: a second daemon is refused here, at once. */
int daemon_home_lock(struct daemon_home *h, const struct daemon_home_options *o, struct err *e);
/* Only the folders, for a guard that has the rest from before an upgrade. */
int daemon_home_open_dirs(struct daemon_home *h, const struct daemon_home_options *o, struct err *e);
/* Replaces a socket that nobody listens on any more; the lock says so. */
int daemon_home_listen(struct daemon_home *h, const struct daemon_home_options *o, struct err *e);
int daemon_home_write_pid(struct daemon_home *h, struct err *e);
/* Opens STATE/daemon.log to append; a long one is put aside first. Returns the descriptor. */
int daemon_home_open_log(struct daemon_home *h, struct err *e);
/* The orderly end: no socket, no pid. */
void daemon_home_clean_up(struct daemon_home *h);
void daemon_home_done(struct daemon_home *h);

/* "bailiff-<16 digits>": names this home's cgroups, the same at every start. */
#define DAEMON_HOME_TAG_MAX 32
void daemon_home_tag(const struct daemon_home *h, char out[DAEMON_HOME_TAG_MAX]);

#endif
