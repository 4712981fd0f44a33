#ifndef BAILIFF_SANDBOX_CGROUP_H
#define BAILIFF_SANDBOX_CGROUP_H

/*
 * A cgroup for each sandbox, where the v2 tree can be written: <base>/<tag>/<process id>-<attempt>. It proves a tree
 * empty and finds what an earlier guard may have left. Each leaf is used once: children cloned into a cgroup that was
 * killed die at birth, also later. The guard decides on the base when it starts (cgroup_base.h).
 */

#include "sandbox/plan.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct clone_args;
struct err;

#define CGROUP_PREBUILT "ahead_" /* how the ids of leaves begin that were made before there was a process for them */

struct cgroup_tree {
	int fd; /* of the tag's folder; −1 = there is none */
	char path[PATH_MAX];
	/* Leaves that were still busy when they were removed. Each stays listed until it is gone: a leaf that is
	 * forgotten stays until the daemon exits. */
	struct cgroup_pending {
		struct plan_key key;
		unsigned tries;
	} * pending;
	size_t npending, pending_cap;
	char own[32];    /* how the leaves begin that the sweep leaves alone */
	unsigned sweeps; /* so many more, while some are busy */
};

/* Where this process is in the v2 tree, wherever that is mounted. */
struct cgroup_location {
	char own[PATH_MAX]; /* the folder of our own cgroup */
	char top[PATH_MAX]; /* the mount point */
	bool whole;         /* all of the tree that our cgroup namespace can see is mounted there */
};
int cgroup_location_find(struct cgroup_location *ret, struct err *e);
int cgroup_own_folder(char ret[PATH_MAX], struct err *e);

/* Makes the tag's folder in the base ("": there is none) and proves with a throw-away child that one can be cloned into
 * it. */
int cgroup_tree_open(struct cgroup_tree *t, const char *base, const char *tag, struct err *e);
void cgroup_tree_close(struct cgroup_tree *t); /* removes the folder if it is empty */
/* A new leaf's descriptor for CLONE_INTO_CGROUP, or −1 with errno. */
int cgroup_tree_make(struct cgroup_tree *t, const struct plan_key *key);
/* Now, or once it is empty; false = there is none of that name. */
bool cgroup_tree_remove(struct cgroup_tree *t, const struct plan_key *key);
/* Leaves that were made ahead by an earlier spawner, which alone knew for whom: those that are empty by now, or soon
 * (cgroup_tree_tick). */
void cgroup_tree_sweep(struct cgroup_tree *t, const char *own);
/* Tries those again that were busy; how many ms until it is worth the next try, −1 = nothing left. */
int cgroup_tree_tick(struct cgroup_tree *t);
/* What an earlier guard of this home left: killed, waited for, removed with the tag's folder. Never a cgroup that we
 * are in. */
void cgroup_kill_leftovers(const char *base, const char *tag);

/* clone3(2), for which glibc has no function: the child's 0, the parent's pid, or −1 with errno. */
pid_t cgroup_clone(struct clone_args *a);

#endif
