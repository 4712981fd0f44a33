#ifndef BAILIFF_SUPERVISOR_SPAWNER_MEMBER_JOIN_H
#define BAILIFF_SUPERVISOR_SPAWNER_MEMBER_JOIN_H

/* The leader's side of member_limits.h. */

struct init;

/*
 * Waits until the leader is in its cgroups. Fills in->own and, where possible, steps.oom_fd. −1 with errno. Exits when
 * the guard or the runtime is gone, or when the member is to be killed.
 */
int member_join(struct init *in, int fd);

#endif
