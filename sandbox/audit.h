#ifndef BAILIFF_SANDBOX_AUDIT_H
#define BAILIFF_SANDBOX_AUDIT_H

/*
 * The kernel's audit subsystem as the source of violations. Records are read from the multicast group, so an audit
 * daemon and other bailiff daemons on the same host do not disturb each other; the rules of each daemon carry its own
 * key (audit_rules.c).
 *
 * Sandboxes are known by a login uid that is reserved for them; a process that sets it gets a session id of its own,
 * and every record carries that (`ses=`). The rules report refusals of tasks with that login uid and nothing else.
 * Where audit was switched off before, one more rule keeps the kernel from preparing records for any other task, so
 * that the rest of the host pays nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define AUDIT_LOGIN_UID 0xfffffff0u /* the login uid of sandboxes: no account may have it */
#define AUDIT_NO_SESSION 0xffffffffu

/*
 * Adds the rules, switches audit on and makes a trial, whose record has so long to come. `fd` gets the records of the
 * whole host for as long as it is open anywhere. To be called by a process that lives as long as that: the rules are in
 * its name. Rules of a daemon that is dead are removed. ERR_UNAVAILABLE says why not.
 */
int audit_take(unsigned trial_ms, int *ret_fd, struct err *e);
/* From time to time: other programs may remove all rules, or switch audit off. 0 = nothing was missing; 1 = it was, and
 * is repaired: records may be missing. */
int audit_keep(struct err *e);
/* By the same process: its rules go, and audit is switched off if it was off before and nobody else uses it. */
void audit_leave(void);
/* A socket of audit_take(); not that of an earlier version, which was the host's only recipient. */
bool audit_is_reader(int fd);
/* How many records did not fit into the socket since it was opened: what came is complete for certain only while this
 * stays the same. */
uint32_t audit_congestions(int fd);

/* The process that the kernel sends records to; 0 = none, or one that is dead. Returns −1 with errno if the kernel does
 * not say. */
int audit_owner(pid_t *ret);
/* Registers the caller as the recipient of records, which it ignores: without one the kernel prints them to its log. −1
 * with errno. */
int audit_recipient_open(void);
/* The socket is readable: true = another program wants to be the recipient. */
bool audit_recipient_wanted(int fd);
/* By the process that opened it. */
void audit_recipient_close(int fd);

/* A socket for audit_mark; −1 with errno. */
int audit_open(void);
/* Puts a mark behind every record that exists now: the reader finds it after them (audit_mark_of). Needs
 * CAP_AUDIT_WRITE. */
int audit_mark(int fd, uint64_t token);

/* Gives the calling process, and what it forks from now on, the sandboxes' login uid; its new session, or
 * AUDIT_NO_SESSION. */
uint32_t audit_enter_session(void);
/* The session that another process got that way, from /proc; AUDIT_NO_SESSION if it did not, or is not there. */
uint32_t audit_session_of(pid_t pid);

#endif
