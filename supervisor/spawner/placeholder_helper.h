#ifndef BAILIFF_SUPERVISOR_SPAWNER_PLACEHOLDER_HELPER_H
#define BAILIFF_SUPERVISOR_SPAWNER_PLACEHOLDER_HELPER_H

/*
 * Placeholders. A hidden or protected path inside a write root has to be covered by a mount even if it does not exist,
 * and a mount needs something to be mounted on. So an empty file or folder is created on the host for as long as the
 * sandbox lives.
 *
 * A process of its own creates and removes them, the placeholder helper, which exists only for plans that need it. It
 * runs as the peer, outside of the sandbox. It removes the placeholders when the init asks (before the end is reported)
 * or when the init is gone for any reason, also if spawner, runtime or guard were killed. The init cannot do it itself:
 * in its mount namespace they are mount points, and it has given up the right to unmount.
 *
 * Sandboxes that run at the same time share placeholders: removing one would also remove what another sandbox has
 * mounted on it. So each helper holds a lock (flock) on those that it needs, and the last one removes them, if they are
 * unchanged and still empty. Placeholders are recognised by a mode that nothing else has (sandbox/placeholder.h).
 *
 * If the helper itself is killed, or the machine loses power, an empty file or folder of that mode is left behind; the
 * next sandbox that needs it takes it over and removes it at its end.
 */

#include "sandbox/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct process_title;

/* A helper's task and the identity it works with. */
struct placeholder_job {
	const struct plan_head *plan;
	uid_t uid; /* the peer's */
	gid_t gid;
	const gid_t *groups;
	size_t ngroups;
	bool privileged; /* the helper has to switch to the peer's ids */
	struct process_title *title;
};

/*
 * *ret_fd is the helper's socket for the init, −1 if no placeholder can be needed. Does not wait: file systems can
 * hang, the spawner must not. The init receives the helper's reply (struct step_placeholders).
 */
int placeholder_helper_start(const struct placeholder_job *job, int *ret_fd, struct err *e);

/* Reaps helpers that ended; true = others still run, so call it again. */
bool placeholder_helper_reap(void);

/* In the init: asks for removal and waits for it, up to a timeout. −1 = there is no helper. */
void placeholder_helper_finish(int fd);

#endif
