#ifndef BAILIFF_SANDBOX_CGROUP_BASE_H
#define BAILIFF_SANDBOX_CGROUP_BASE_H

/*
 * The base: the cgroup v2 directory below which a daemon's sandboxes have their cgroups, <base>/<tag>/<leaf>.
 *
 * A controller can be enabled for the children of a cgroup only while no process is in the cgroup itself. An attempt to
 * do it anyway does harm: "+memory" fails with EBUSY, but "+pids" succeeds, turns the populated cgroup into the root of
 * a threaded subtree and makes every cgroup below it invalid. So the guard searches for a base that is empty, or that
 * it may empty, before it starts anything, and never enables a controller where there are processes. Only the real root
 * of the hierarchy is exempt; the root that a container sees is not the real one.
 *
 *   situation                                             base                     action
 *   no v2 tree has a controller (v1, hybrid, none)        own cgroup               nothing; limits come from v1
 *   delegated cgroup with nothing but the daemon in it    own cgroup               the guard moves into
 *                                                         <base>/supervisor
 *   other cgroup of a machine with systemd                a delegated scope        the caller asks systemd for it,
 *                                                         then as above
 *   root, no systemd, real root of the hierarchy visible  that root                nothing: it is exempt
 *   root of a container, in the container's own cgroups   the container's root     its processes move into
 *                                                         <base>/init
 *   anything else                                         own cgroup               nothing; `why` and `fix` say what
 *                                                         is missing
 *
 * In the last case each sandbox still gets a cgroup where one can be created, which proves that a tree is empty, but no
 * v2 controller.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CGROUP_BASE_TEXT_MAX 256

struct cgroup_base {
	char path[PATH_MAX];            /* "" = no v2 tree */
	char why[CGROUP_BASE_TEXT_MAX]; /* why no controller of the v2 tree can be used; "" = the base is usable, or
					   there are none */
	char fix[CGROUP_BASE_TEXT_MAX]; /* what to do about it */
};

enum cgroup_base_result {
	CGROUP_BASE_DONE,
	CGROUP_BASE_NEEDS_SCOPE, /* *ret is our own cgroup; ask systemd for a delegated scope, then call again */
};

/*
 * Called by the guard before it starts anything. `companion` is another process of ours that may be in the same cgroup
 * and moves along (the one that waits for a daemon to detach), or 0. `granted`: systemd has just put us into a
 * delegated scope.
 */
enum cgroup_base_result cgroup_base_find(struct cgroup_base *ret, pid_t companion, bool granted);

/*
 * Enables a controller for the children of a cgroup, if it exists and no process is in the cgroup; −1 with the reason
 * in `why`.
 */
int cgroup_base_enable(const char *folder, const char *controller, char *why, size_t cap);

#endif
