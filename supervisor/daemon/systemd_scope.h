#ifndef BAILIFF_SUPERVISOR_DAEMON_SYSTEMD_SCOPE_H
#define BAILIFF_SUPERVISOR_DAEMON_SYSTEMD_SCOPE_H

/*
 * A delegated scope from systemd: the daemon's own cgroup on a machine whose cgroups belong to systemd. Root uses the
 * system's manager, a user the user's own; neither needs polkit, and the calls do not permit interactive authorisation.
 *
 * The scope is named after the home's tag: a later daemon of that home stops what an earlier one left in it. It
 * disappears with its last process.
 */

#include <stdint.h>
#include <sys/types.h>

struct err;

struct systemd_scope {
	const char *const *sockets;  /* NULL-terminated; the first that can be connected to is used */
	const char *name;            /* "bailiff-….scope" */
	const char *slice;           /* "system.slice" */
	pid_t pid;                   /* the process that moves into it */
	uint64_t bus_timeout_ms;     /* for each reply of the bus */
	uint64_t manager_timeout_ms; /* for each reply of systemd, which may be busy while the machine boots */
};

/* Waits until the process is in the scope. ERR_UNAVAILABLE with the reason from the bus or systemd. */
int systemd_scope_start(const struct systemd_scope *s, struct err *e);

/* The sockets of systemd for this uid; the strings are valid until the next call. */
const char *const *systemd_sockets(uid_t uid);

#endif
