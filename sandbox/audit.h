#ifndef BAILIFF_SANDBOX_AUDIT_H
#define BAILIFF_SANDBOX_AUDIT_H

/*
 * The kernel's audit subsystem as the source of violations. Records are read from the multicast group, so an audit
 * daemon and other bailiff daemons on the same host do not disturb each other; each daemon's rules have its own key
 * (audit_rules.c).
 *
 * Sandboxes are identified by a login uid that is reserved for them. A process that sets it gets a new session id,
 * which every record contains (`ses=`). The rules report only denials of tasks with that login uid. If audit was off
 * before, one more rule keeps the kernel from preparing records for any other task, so that the rest of the host has no
 * overhead.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define AUDIT_LOGIN_UID 0xfffffff0u /* the login uid of sandboxes: no account may have it */
#define AUDIT_NO_SESSION 0xffffffffu

/*
 * Adds the rules, switches audit on and makes a trial whose record must arrive within trial_ms. `fd` receives the
 * records of the whole host until its last copy is closed. The calling process must live as long as that: the rules are
 * registered under its pid. Rules of a dead daemon are removed. On failure ERR_UNAVAILABLE has the reason.
 */
int audit_take(unsigned trial_ms, int *ret_fd, struct err *e);
/*
 * Call periodically: other programs can remove all rules or switch audit off. Returns 0 if nothing was missing, 1 if it
 * was repaired, in which case records may have been lost.
 */
int audit_keep(struct err *e);
/*
 * Called by the same process: removes its rules; switches audit off if it was off before and no other program uses it.
 */
void audit_leave(void);
/* True for a socket of audit_take(); false for that of an earlier version, which was the host's only recipient. */
bool audit_is_reader(int fd);
/*
 * Number of records that did not fit into the socket since it was opened. The records read are known to be complete
 * only while this does not change.
 */
uint32_t audit_congestions(int fd);

/* Returns the process that the kernel sends records to; 0 = none, or a dead one. −1 with errno if unknown. */
int audit_owner(pid_t *ret);
/*
 * Registers the caller as the recipient of records, which it ignores: without a recipient the kernel prints them to its
 * log. −1 with errno.
 */
int audit_recipient_open(void);
/* Call when the socket is readable: true if another program wants to be the recipient. */
bool audit_recipient_wanted(int fd);
/* Must be called by the process that opened it. */
void audit_recipient_close(int fd);

/* A socket for audit_mark; −1 with errno. */
int audit_open(void);
/*
 * Inserts a mark after every record that exists now: the reader finds it after them (audit_mark_of). Needs
 * CAP_AUDIT_WRITE.
 */
int audit_mark(int fd, uint64_t token);

/*
 * Gives the calling process and its future children the sandboxes' login uid. Returns the new session, or
 * AUDIT_NO_SESSION.
 */
uint32_t audit_enter_session(void);
/* Reads another process's session from /proc; AUDIT_NO_SESSION if it has none or does not exist. */
uint32_t audit_session_of(pid_t pid);

#endif
