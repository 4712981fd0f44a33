#ifndef BAILIFF_SUPERVISOR_GUARD_H
#define BAILIFF_SUPERVISOR_GUARD_H

/*
 * The guard: the main process. It starts the runtime, the spawner and, on demand, the proxy and the exporter, restarts
 * whichever dies, and holds the descriptors of every live process meanwhile. It is one poll loop that allocates
 * everything at the start and parses nothing.
 */

#include "runtime/base/err.h"
#include "supervisor/guard/fd_store.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pollfd;

/*
 * Violations come from the kernel's audit, which may not be available when the daemon starts, or later lose its rules
 * to another program. The guard checks every `check_ms`. `state` and `since` are arguments of the runtime and the
 * spawner (--audit-state, --audit-since). Their argv points here, so a child that is started later gets the current
 * values.
 */
struct guard_audit {
	uint64_t check_ms;           /* 0 = never: no privilege, or switched off */
	char state[ERR_MESSAGE_MAX]; /* "on", or why not */
	char since[24];              /* boot time in ns at which audit was taken, if after the start; else 0 */
};

struct guard_options {
	const char *exe;         /* program of the children; NULL: this program's own file */
	int spawner_fd;          /* program of the spawner; −1: the same as the others */
	const char *otlp_exe;    /* program of the exporter; NULL: none */
	const char *socket;      /* path of the control socket, for the exporter */
	const char *otlp_cursor; /* the exporter's cursor file, created if missing */
	const char *fleet_exe;   /* program of the fleet's node; NULL: none */
	uid_t fleet_uid;         /* the user of its tasks, if the guard is root */
	gid_t fleet_gid;
	const gid_t *fleet_groups;
	size_t nfleet_groups;
	char *const *argv[GUARD_ROLES];
	int listen_fd, store_fd, spool_fd; /* for the runtime; −1 = none */
	int cow_fd;                        /* for the spawner; −1 = none */
	int lock_fd;                       /* only kept open */
	int audit_fd;                      /* of audit_take(), for the runtime; −1 = none. audit_leave() at the end */
	struct guard_audit *audit;         /* NULL = never checked */
	int ready_fd;                      /* "R" is written here once the runtime serves; −1 = none */
	const char *file[GUARD_FILES];     /* opened for each new runtime if they exist; NULL = none */
	bool drop;                         /* the runtime runs with its own identity */
	uid_t runtime_uid, proxy_uid;      /* … and so does the proxy */
	gid_t runtime_gid, proxy_gid;
	const char *upgrade_exe;   /* SIGUSR2: program to execute, with upgrade_argv and "--resume FD" */
	char *const *upgrade_argv; /* NULL-terminated */
	int resume_fd;             /* ≥ 0: state left by the previous program in this process */
};

/* A child and its pending messages. They are state, not a queue, so a child that does not read costs nothing. */
struct guard_child {
	enum guard_role role;
	pid_t pid; /* 0 = not running */
	int pidfd, link;
	int peer_fd[GUARD_ROLES]; /* ends of links to the other children that are still to be sent to this one */
	bool wanted;              /* it should be running */
	bool ready;
	unsigned failures; /* consecutive starts that did not reach READY */
	uint32_t grace_ms; /* the runtime's: maximum time to end commands */
	uint64_t start_at; /* not running: when to start it (boot time, ns) */
	bool tell_stop, tell_reload, tell_next, tell_fleet, blocked;
	uint32_t reload_token; /* of the last WANT_RELOAD; 0 = none */
	uint32_t next_index;
	unsigned members; /* the runtime's: deposits of members in the messages that were read last … */
	bool urgent;      /* … and whether others were among them */
};

struct guard {
	struct guard_options *o;
	struct guard_child child[GUARD_ROLES];
	struct fd_store store;
	struct pollfd *polls;
	int pidfd; /* the guard's own, for children and sandboxes */
	int signal_fd;
	int watch_fd; /* inotify on the policy files; −1 = not watched */
	bool served;  /* a runtime has been ready at least once */
	bool stopping;
	uint64_t stop_by;
	bool strays; /* a spawner died: there may be inits that it did not deposit */
	bool upgrade;
	uint64_t last_read;     /* when messages of the runtime were read (boot time, ns) … */
	uint64_t read_at;       /* … and when the next ones will be; 0 = as soon as they come */
	uint64_t audit_at;      /* time of the next audit check; 0 = not scheduled yet */
	uint64_t audit_changes; /* consecutive checks that found a change */
	int audit_recipient;    /* of audit_recipient_open(); −1 = another program is the recipient */
	unsigned audit_free;    /* checks in a row that found no recipient */
	bool audit_asked;       /* another program has tried to register */
	bool leaving;
	int status;
};

/* Returns the exit status. Takes over the descriptors of the options. */
int guard_run(const struct guard_options *o);

const char *guard_role_name(enum guard_role role);

/* guard_child.c */
int guard_open(const struct guard *g, enum guard_file file); /* −1 with errno; ENOENT also if no path is configured */
void guard_child_init(struct guard_child *c, enum guard_role role);
int guard_child_start(struct guard *g, struct guard_child *c);
bool guard_child_due(const struct guard_child *c, uint64_t now); /* whether to start it now */
bool guard_child_find(const struct guard *g, pid_t pid);         /* whether the pid is a child's */
/*
 * Reaps children that are neither in the store nor ours: inits cloned by a spawner that died before it deposited them
 * (they exit because their gate closes when the start is released), and orphans if the guard is a container's pid 1.
 * Inits in the store stay zombies until they are released.
 */
void guard_child_sweep(struct guard *g);
/* Closes the ends of links to a dead child that the others have not received yet. */
void guard_child_drop_links(struct guard *g, const struct guard_child *c);
/* Reaps a dead child, resets its state and schedules its restart. Returns the raw wait status. */
int guard_child_reap(struct guard_child *c);

/* guard_audit.c */
uint64_t guard_audit_due(const struct guard *g); /* boot time, ns; UINT64_MAX = never */
void guard_audit_check(struct guard *g);         /* if it is due */
void guard_audit_on_recipient(struct guard *g);  /* the recipient's socket is readable */
void guard_audit_resume(struct guard *g);        /* after an upgrade: takes over what an earlier version left */
void guard_audit_leave(struct guard *g);

/* guard_state.c: saves and loads the guard's state across an exec of itself */
int guard_state_save(
	const struct guard *g); /* a descriptor without CLOEXEC, like all that the state names; −1 with errno */
int guard_state_load(struct guard *g, struct guard_options *o, int fd); /* −1: invalid */
void guard_state_set_inheritable(const struct guard *g,
				 bool across_exec); /* sets or clears CLOEXEC on everything named */

#endif
