#ifndef BAILIFF_SUPERVISOR_SPAWNER_PLACEHOLDER_HELPER_H
#define BAILIFF_SUPERVISOR_SPAWNER_PLACEHOLDER_HELPER_H

/*
 * Placeholders: something must be mounted where a hidden or protected path inside a write root does not exist yet, and
 * one can only mount on what exists. So an empty file or folder is made on the host for as long as the sandbox lives.
 *
 * Making and removing them is the work of a process of its own, the keeper, which exists only for plans that need it.
 * It runs as the peer, outside of the sandbox. It removes them when the init asks (before the end is reported), or when
 * the init is gone for whatever reason; also if spawner, runtime or guard were killed. The init cannot do it itself: in
 * its mount namespace they are mount points, and it has given up the right to unmount.
 *
 * Sandboxes that run at the same time share placeholders: removing one would also remove what another has mounted on
 * it. So each keeper holds a lock (flock) on those that it needs, and the last one removes them, if they are still what
 * they were and still empty. Placeholders are known by a mode that nothing else has (sandbox/placeholder.h).
 *
 * What remains: if the keeper itself is killed, or the machine loses power, an empty file or folder of that mode is
 * left; the next sandbox that needs it takes it over and removes it at its end.
 */

#include "sandbox/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct process_title;

/* What a keeper is to do, and for whom. */
struct placeholder_job {
	const struct plan_head *plan;
	uid_t uid; /* the peer's */
	gid_t gid;
	const gid_t *groups;
	size_t ngroups;
	bool privileged; /* the ids have to be taken on */
	struct process_title *title;
};

/*
 * *ret_fd is the keeper's socket for the init, −1 if no placeholder can be needed. Nobody is waited for here: file
 * systems can hang, the spawner must not. The keeper's answer (struct step_placeholders) is taken by the init.
 */
int placeholder_helper_start(const struct placeholder_job *job, int *ret_fd, struct err *e);

/* Those that ended; true = there are others, so it is to be called again. */
bool placeholder_helper_reap(void);

/* In the init: has them removed and waits for it, but not for ever. −1 is no keeper. */
void placeholder_helper_finish(int fd);

#endif
