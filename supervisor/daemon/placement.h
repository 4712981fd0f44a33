#ifndef BAILIFF_SUPERVISOR_DAEMON_PLACEMENT_H
#define BAILIFF_SUPERVISOR_DAEMON_PLACEMENT_H

/*
 * The guard's placement: finds or requests the cgroup below which the daemon's sandboxes get theirs
 * (sandbox/cgroup_base.h) and moves the guard there, before it starts anything. The result, controller by controller,
 * is for get_health and `bailiff doctor`.
 *
 * Limits by cgroup are best effort: without a usable cgroup the daemon starts anyway, and `why` and `fix` of the base
 * say what is missing and what to do about it.
 */

#include "sandbox/cgroup_base.h"

struct placement {
	struct cgroup_base base;
	char *limits; /* a JSON object, see docs/operations.md; from the heap */
};

/* `companion` as in cgroup_base_find. Takes seconds at most, whatever systemd does. */
void placement_take(struct placement *ret, const char *tag, pid_t companion);

/* How a placement is passed to the daemon's other processes and across an upgrade: --cgroup-base and so on. NULL = not
 * given. */
struct placement_arguments {
	const char *base, *why, *fix, *limits;
};
/* After an upgrade the daemon is still in its cgroup. A version without placements passed no arguments. */
void placement_resume(struct placement *ret, const struct placement_arguments *a);

#endif
