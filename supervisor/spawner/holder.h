#ifndef BAILIFF_SUPERVISOR_SPAWNER_HOLDER_H
#define BAILIFF_SUPERVISOR_SPAWNER_HOLDER_H

/*
 * The init of a holder: pid 1 of a session sandbox. After its own steps it waits for members (member_msg.h) and forks
 * leaders for them. A leader inherits everything of the sandbox: mounts, ids, Landlock domain, system call filter,
 * network and pid namespace. So a member costs a fork, a vfork and an exec.
 *
 * A leader whose tree is gone can lead another member, which saves the fork, its page faults and its exit. It reports
 * the end of its member as final (EXITED with `kept`), tells the holder that it is done, and waits for the next
 * message. The holder then closes its copy of the member's status socket. While starts follow each other it does so
 * when it needs a leader, which saves a wakeup per member. A member with a terminal or limits of its own gets a leader
 * that exits with it; the end of that member is the end of its status socket.
 *
 * The leader (leader.h) starts the command, watches its tree and reports its end (command_run.c). Members have the same
 * uid and can kill each other's leaders, but not pid 1. If a leader is killed, its children become children of pid 1,
 * because nothing else above them is a subreaper. The init then kills every child of its own that is not a leader, and
 * reports the member as killed: it has a copy of each member's status socket. So while the init lives, a closed status
 * socket proves that the member's tree is gone. If the init dies, the kernel kills the whole pid namespace.
 *
 * Before its exec a command's process can be stopped by another member, too. Its leader sleeps in vfork until then and
 * receives no request. So the leader shares with the init how far it is, and the init looks for a stopped process only
 * until the exec: it continues the process, and kills it after a number of attempts.
 */

#include <stdint.h>

struct init;

/* Does not return. `session` is the audit session of the sandbox. */
_Noreturn void holder_run(struct init *in, uint32_t session);

#endif
