#ifndef BAILIFF_SUPERVISOR_GUARD_H
#define BAILIFF_SUPERVISOR_GUARD_H

/*
 * The guard: the main process. It starts the runtime, the spawner and, where they are wanted, the proxy and the
 * exporter, restarts whichever dies, and keeps every live process's descriptors meanwhile. One poll loop, everything
 * allocated at the start, nothing to parse.
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
 * spawner (--audit-state,
 * --audit-since): in argv by address, so a child that is started later gets what holds then.
 */
struct guard_audit {
	uint64_t check_ms;           /* 0 = never: no privilege, or switched off */
	char state[ERR_MESSAGE_MAX]; /* "on", or why not */
	char since[24];              /* boot time, ns: when it was taken, if that was after the start; else 0 */
};

struct guard_options {
	const char *exe;         /* what the children execute; NULL: this program's own file */
	int spawner_fd;          /* the program that the spawner executes; −1: as the others */
	const char *otlp_exe;    /* what the exporter executes; NULL: there is to be none */
	const char *socket;      /* where it finds the runtime */
	const char *otlp_cursor; /* its file, made when it is not there */
	char *const *argv[GUARD_ROLES];
	int listen_fd, store_fd, spool_fd; /* for the runtime; −1 = none */
	int cow_fd;                        /* for the spawner; −1 = none */
	int lock_fd;                       /* only kept open */
	int audit_fd;                      /* of audit_take(), for the runtime; −1 = none. audit_leave() at the end */
	struct guard_audit *audit;         /* NULL = never looked at */
	int ready_fd;                      /* told "R" once the runtime serves; −1 = nobody waits */
	const char *file[GUARD_FILES];     /* opened for each new runtime, if they are there; NULL = none */
	bool drop;                         /* the runtime gets an identity of its own */
	uid_t runtime_uid, proxy_uid;      /* and so does the proxy */
	gid_t runtime_gid, proxy_gid;
	const char *upgrade_exe;   /* SIGUSR2: what to execute, with upgrade_argv and "--resume FD" */
	char *const *upgrade_argv; /* NULL-terminated */
	int resume_fd;             /* ≥ 0: state left by an earlier guard in this very process */
};

/* One of the children, and what it is still to be told: state, not a queue, so that a child that does not read costs
 * nothing. */
struct guard_child {
	enum guard_role role;
	pid_t pid; /* 0 = not running */
	int pidfd, link;
	int peer_fd[GUARD_ROLES]; /* the end of a link to that other child which this one has not got yet */
	bool wanted;              /* it is to run */
	bool ready;
	unsigned failures; /* starts in a row that did not get as far as READY */
	uint32_t grace_ms; /* the runtime's: what it takes at most to end commands */
	uint64_t start_at; /* not running: when to start it (boot time, ns) */
	bool tell_stop, tell_reload, tell_next, blocked;
	uint32_t next_index;
};

struct guard {
	struct guard_options *o;
	struct guard_child child[GUARD_ROLES];
	struct fd_store store;
	struct pollfd *polls;
	int pidfd; /* our own, for the children and the sandboxes */
	int signal_fd;
	int watch_fd; /* of the policy files; −1 = they are not watched */
	bool served;  /* some runtime has been ready */
	bool stopping;
	uint64_t stop_by;
	bool strays; /* a spawner died: there may be inits that it did not deposit */
	bool upgrade;
	uint64_t audit_at;      /* when to look at audit next; 0 = not scheduled yet */
	uint64_t audit_changes; /* times in a row that a look found something to change */
	int audit_recipient;    /* of audit_recipient_open(); −1 = another program is the recipient */
	unsigned audit_free;    /* checks in a row that found no recipient */
	bool audit_asked;       /* another program wanted to be it */
	bool leaving;
	int status;
};

/* Returns the exit status. Takes over the descriptors of the options. */
int guard_run(const struct guard_options *o);

const char *guard_role_name(enum guard_role role);

/* guard_child.c */
int guard_open(const struct guard *g, enum guard_file file); /* −1 with errno; ENOENT also when it has no name */
void guard_child_init(struct guard_child *c, enum guard_role role);
int guard_child_start(struct guard *g, struct guard_child *c);
bool guard_child_due(const struct guard_child *c, uint64_t now); /* it is to be started */
bool guard_child_find(const struct guard *g, pid_t pid);         /* one of them */
/* Ends of links to it that the others have not got yet: nobody is there any more. */
void guard_child_drop_links(struct guard *g, const struct guard_child *c);
/* It is dead: reaps it, forgets it, says when the next one is due. Returns the raw wait status. */
int guard_child_reap(struct guard_child *c);

/* guard_audit.c */
uint64_t guard_audit_due(const struct guard *g); /* boot time, ns; UINT64_MAX = never */
void guard_audit_check(struct guard *g);         /* if it is due */
void guard_audit_on_recipient(struct guard *g);  /* the recipient's socket is readable */
void guard_audit_resume(struct guard *g);        /* after an upgrade: what an earlier version left */
void guard_audit_leave(struct guard *g);

/* guard_state.c: everything a guard must know to go on, through an exec of itself */
int guard_state_save(const struct guard *g); /* a descriptor without CLOEXEC, as are all that it names; −1 with errno */
int guard_state_load(struct guard *g, struct guard_options *o, int fd);    /* −1: not understood */
void guard_state_set_inheritable(const struct guard *g, bool across_exec); /* CLOEXEC off or on for everything named */

#endif
