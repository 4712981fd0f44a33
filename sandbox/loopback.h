#ifndef BAILIFF_SANDBOX_LOOPBACK_H
#define BAILIFF_SANDBOX_LOOPBACK_H

/*
 * Brings the loopback interface of the current network namespace up; in a new one it is down. −1 with errno.
 *
 * By default the kernel reports the multicast groups that a process has joined or left up to two seconds later, when
 * the counters of the namespace may have been compared already (supervisor/spawner/net_state.h). So loopback uses the
 * first versions of these protocols. Best effort: /proc/sys is read-only in some containers.
 */
int loopback_up(void);

#endif
