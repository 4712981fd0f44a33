#ifndef BAILIFF_SUPERVISOR_SPAWNER_LEFTOVERS_H
#define BAILIFF_SUPERVISOR_SPAWNER_LEFTOVERS_H

/*
 * Whether a command has left anything in its sandbox. A sandbox in which nothing is left is like a new one, so that
 * another command of the same peer and plan can use it (prebuilt.h). Only its init, after the last other process of the
 * sandbox has ended, can tell:
 *
 * - private directories (/tmp, /var/tmp, /dev/shm, an empty home) and terminals: nothing was created, removed or
 *   changed, by inode, mode, owner and ctime; no file without a name takes up space, and no lock is held;
 * - System V IPC and POSIX message queues: none exists;
 * - the network namespace: net_state.h. If no internet socket was created since its counters were read last, and none
 *   exists, they are the same: without such a socket a command cannot send a packet, and the filter denies all other
 *   families but unix;
 * - what the next command would inherit from the init: inherited.h.
 *
 * Nothing else lasts: mounts, host name, interfaces and sysctls need capabilities, which no command has; kernel keys
 * and io_uring are denied by the filter. Whatever cannot be determined counts as left.
 *
 * Private directories belong to the command's user and have the mode 0700, so a descriptor of one that was sent out of
 * the sandbox is of no use to another user. To another command of the same user it is, in spite of Landlock, which does
 * not cover connecting to sockets and changing attributes: prebuilt_take_back looks for such a command.
 *
 * Three things remain. With an inotify instance or a directory's descriptor that a command sent out of its sandbox, a
 * process outside can see the names that later commands of the same user and plan create in the private directories,
 * and lock these directories. Numbers continue: a later command does not start at pid 2, nor do the ids of System V IPC
 * start at 0 if an earlier one made and removed such objects. And where /proc/sys is read-only, the kernel may report a
 * multicast group on loopback after the command that joined it has ended (sandbox/loopback.h).
 */

#include <stdbool.h>
#include <stdint.h>

struct leftovers;
struct step_context;

/*
 * In an init that has completed all steps: records the state of its sandbox, in which no command has run. `sockets`: a
 * count of sockets that may include those of this sandbox (socket_counter.h), or NULL. NULL = the state cannot be
 * compared, so that the sandbox is used once.
 */
struct leftovers *leftovers_new(const struct step_context *c, const volatile uint64_t *sockets);
/* Whether a change from now on will be noticed: the clock of ctime has moved on since the state was recorded. */
bool leftovers_are_settled(const struct leftovers *l);
bool leftovers_exist(struct leftovers *l);

#endif
