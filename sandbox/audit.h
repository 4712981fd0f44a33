#ifndef BAILIFF_SANDBOX_AUDIT_H
#define BAILIFF_SANDBOX_AUDIT_H

/*
 * The kernel's audit subsystem as the source of violations. It belongs to one reader on the whole host: bailiff takes it
 * only where nobody has it, and puts it back as it was.
 *
 * Sandboxes are known by a login uid that is reserved for them; whoever sets it gets a session id of its own, and every
 * record carries that (`ses=`). The rules report refusals of tasks with that login uid and nothing else. Where audit was
 * switched off before, one more rule keeps the kernel from preparing records for any other task, so that the rest of the
 * host pays nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define AUDIT_LOGIN_UID 0xfffffff0u /* the login uid of sandboxes: no account may have it */
#define AUDIT_NO_SESSION 0xffffffffu

/*
 * Becomes the reader: `fd` gets the records for as long as it is open anywhere, also when this process hands it on.
 * To be called by a process that lives as long as that (it is the one the kernel knows). What an earlier one left behind
 * is cleared away; for one that was killed and is not quite gone it waits up to `wait_ms`. ERR_UNAVAILABLE says why not.
 */
int audit_take(unsigned wait_ms, int *ret_fd, struct err *e);
/* The process that the kernel sends records to; 0 = none, or one that is dead. Returns −1 with errno if the kernel does not say. */
int audit_owner(pid_t *ret);
/*
 * How often the kernel waited in vain for room behind that socket, since it was opened. It puts records aside then, and drops
 * them if it goes on: what came is complete for certain only while this stays the same.
 */
uint32_t audit_congestions(int fd);
/* By the same process: the rules go, the reader is gone, and audit is switched off if it was off. Just the rules go if another
 * process has become the reader meanwhile. */
void audit_leave(int fd);

/* A socket for audit_mark; −1 with errno. */
int audit_open(void);
/* Puts a mark behind every record that exists now: the reader finds it after them (audit_mark_of). Needs CAP_AUDIT_WRITE. */
int audit_mark(int fd, uint64_t token);

/* Gives the calling process, and what it forks from now on, the sandboxes' login uid; its new session, or AUDIT_NO_SESSION. */
uint32_t audit_enter_session(void);
/* The session that another process got that way, from /proc; AUDIT_NO_SESSION if it did not, or is not there. */
uint32_t audit_session_of(pid_t pid);

#endif
