#ifndef BAILIFF_SUPERVISOR_DAEMON_SYSTEMD_SCOPE_H
#define BAILIFF_SUPERVISOR_DAEMON_SYSTEMD_SCOPE_H

/*
 * A delegated scope from systemd: a cgroup of our own on a machine whose cgroups belong to systemd. The system's
 * manager is asked by root, a user's by that user; neither needs polkit for that, and the calls do not permit it to ask
 * anybody.
 *
 * The scope bears the home's tag, so a later daemon of that home finds what an earlier one left in it, and systemd
 * stops that first. It disappears when its last process does.
 */

#include <stdint.h>
#include <sys/types.h>

struct err;

struct systemd_scope {
	const char *const *sockets;  /* NULL-terminated; the first that can be connected to is used */
	const char *name;            /* "bailiff-….scope" */
	const char *slice;           /* "system.slice" */
	pid_t pid;                   /* who moves into it */
	uint64_t bus_timeout_ms;     /* for each answer of the bus */
	uint64_t manager_timeout_ms; /* for each answer of systemd, which may be busy on a machine that just boots */
};

/* Waits until the process is in the scope. ERR_UNAVAILABLE with what the bus or systemd said. */
int systemd_scope_start(const struct systemd_scope *s, struct err *e);

/* Where systemd is listening, for this uid; the strings are kept until the next call. */
const char *const *systemd_sockets(uid_t uid);

#endif
