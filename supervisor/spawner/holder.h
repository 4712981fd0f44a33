#ifndef BAILIFF_SUPERVISOR_SPAWNER_HOLDER_H
#define BAILIFF_SUPERVISOR_SPAWNER_HOLDER_H

/*
 * The init of a holder: pid 1 of a sandbox that outlives its commands. After its own steps it waits for members
 * (member_msg.h) and forks a leader for each, which shares everything of the sandbox: mounts, ids, Landlock, the system
 * call filter, network and pid namespace. So a member costs two forks and an exec.
 *
 * The leader starts the command, watches its tree and reports its end (command_run.c). Members have the same uid and
 * can kill each other's leaders, but not pid 1. An init whose leader was killed kills what that leader left (every
 * child of pid 1 that is not a leader) and then reports the end itself: it has a copy of each member's status socket. A
 * status socket without other end is therefore proof that the member's tree is gone.
 */

#include <stdint.h>

struct init;

/* Does not return. `session` is the audit session of the sandbox. */
_Noreturn void holder_run(struct init *in, uint32_t session);

#endif
