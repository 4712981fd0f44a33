#ifndef BAILIFF_SUPERVISOR_DAEMON_DAEMON_HOME_H
#define BAILIFF_SUPERVISOR_DAEMON_DAEMON_HOME_H

/*
 * A daemon's home: where its files are (one directory, the system's directories for root, or the user's XDG
 * directories), and the home in use: directories created, lock held, socket listening. Only the guard's process uses
 * it.
 *
 * The command line finds homes by the same rules (supervisor/client/home_candidates.c); a unit test compares the two.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
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

struct daemon_home {
	struct daemon_paths paths;
	char socket[PATH_MAX];
	char config_file[PATH_MAX];
	int run_fd, state_fd; /* directories */
	int cow_fd;           /* directory of copy-on-write runs: the guard's, never the runtime's */
	int lock_fd, listen_fd, store_fd, spool_fd; /* go to the guard */
};

struct daemon_home_options {
	mode_t socket_mode; /* 0: by the kind of home */
	const char *config; /* --config, or NULL */
	bool give;          /* store and spool belong to another user: */
	uid_t uid;
	gid_t gid;
};

void daemon_home_init(struct daemon_home *h, const struct daemon_paths *p);
/* Directories and the lock: a second daemon is rejected here. */
int daemon_home_lock(struct daemon_home *h, const struct daemon_home_options *o, struct err *e);
/* Only the directories, for a guard that has the rest from before an upgrade. */
int daemon_home_open_dirs(struct daemon_home *h, const struct daemon_home_options *o, struct err *e);
/* Replaces a stale socket; the lock proves that nothing listens on it. */
int daemon_home_listen(struct daemon_home *h, const struct daemon_home_options *o, struct err *e);
int daemon_home_write_pid(struct daemon_home *h, struct err *e);
/* Opens STATE/daemon.log for appending; a long one is rotated first. Returns the descriptor. */
int daemon_home_open_log(struct daemon_home *h, struct err *e);
/* At a regular end: removes socket and pid. */
void daemon_home_clean_up(struct daemon_home *h);

/*
 * `bailiffd --restore DIR`: replaces the store of a locked home with a backup. Runs instead of the daemon, because only
 * the daemon's program knows the owner of store and spool. The previous ones are kept as store.before-restore-TIME and
 * spool.before-restore-TIME, and printed to stdout. Nothing of the home changes before the renames at the end.
 */
int daemon_home_restore(struct daemon_home *h, const struct daemon_home_options *o, const char *from, struct err *e);

/* "bailiff-<16 digits>": names this home's cgroups, the same at every start. */
#define DAEMON_HOME_TAG_MAX 32
void daemon_home_tag(const struct daemon_home *h, char out[DAEMON_HOME_TAG_MAX]);

#endif
