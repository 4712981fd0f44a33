#ifndef BAILIFF_SANDBOX_CGROUP_H
#define BAILIFF_SANDBOX_CGROUP_H

/*
 * A cgroup for each sandbox, if the v2 tree is writable: <base>/<tag>/<process id>-<attempt>. It proves that a tree is
 * empty and finds what an earlier guard may have left. Each leaf is used once, because children cloned into a cgroup
 * that was killed die immediately, even later. The guard chooses the base when it starts (cgroup_base.h).
 *
 * The first process of a session sandbox is in a cgroup inside the leaf (CGROUP_HOLDER): controllers can be enabled
 * only in a cgroup without processes, and those of single members are next to it (tree_limit.h).
 */

#include "sandbox/plan.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct clone_args;
struct err;

#define CGROUP_PREBUILT "ahead_" /* prefix of leaves that were created before there was a process for them */
#define CGROUP_HOLDER                                                                                   \
	"holder" /* inside the leaf of a session sandbox: its first process, and members without limits \
		  */
#define CGROUP_LEAF_MAX (PLAN_KEY_MAX + 16)

struct cgroup_tree {
	int fd; /* of the tag's directory; −1 = none */
	char path[PATH_MAX];
	/*
	 * Leaves that were still busy when they were removed. Each stays listed until it is gone: a leaf that is
	 * dropped from the list would remain until the daemon exits.
	 */
	struct cgroup_pending {
		struct plan_key key;
		unsigned tries;
	} * pending;
	size_t npending, pending_cap;
	char own[32];    /* prefix of the leaves that the sweep skips */
	unsigned sweeps; /* remaining retries while some are busy */
};

/* The location of this process in the v2 tree, wherever that is mounted. */
struct cgroup_location {
	char own[PATH_MAX]; /* directory of our own cgroup */
	char top[PATH_MAX]; /* the mount point */
	bool whole;         /* everything that our cgroup namespace can see is mounted there */
};
int cgroup_location_find(struct cgroup_location *ret, struct err *e);
int cgroup_own_folder(char ret[PATH_MAX], struct err *e);

/*
 * Creates the tag's directory in the base ("" = no base) and verifies with a temporary child that processes can be
 * cloned into it.
 */
int cgroup_tree_open(struct cgroup_tree *t, const char *base, const char *tag, struct err *e);
void cgroup_tree_close(struct cgroup_tree *t); /* removes the directory if it is empty */
/* A new leaf's descriptor for CLONE_INTO_CGROUP, or −1 with errno. */
int cgroup_tree_make(struct cgroup_tree *t, const struct plan_key *key);
/* Creates and opens CGROUP_HOLDER in a leaf. −1 with errno. */
int cgroup_make_holder(int leaf);
/* Moves a process that only we can end from its leaf to CGROUP_HOLDER in it. −1 with errno: it stays in its leaf. */
int cgroup_tree_enter_holder(struct cgroup_tree *t, const struct plan_key *key, pid_t pid);
/* The leaf of the session sandbox with this first process; false = that is not in CGROUP_HOLDER of a leaf. */
bool cgroup_holder_leaf(pid_t pid, char ret[CGROUP_LEAF_MAX]);
void cgroup_leaf_name(const struct plan_key *key, char ret[CGROUP_LEAF_MAX]);
/* Removes a directory of cgroups with the empty ones in it. −1 with errno. */
int cgroup_remove(int folder, const char *name);
/* Removes it now, or once it is empty; false = no such leaf. */
bool cgroup_tree_remove(struct cgroup_tree *t, const struct plan_key *key);
/*
 * Removes prebuilt leaves of an earlier spawner, which alone had the list of their owners: those that are empty now, or
 * soon (cgroup_tree_tick).
 */
void cgroup_tree_sweep(struct cgroup_tree *t, const char *own);
/* Retries those that were busy. Returns the ms until the next retry, or −1 if none is left. */
int cgroup_tree_tick(struct cgroup_tree *t);
/*
 * Kills, waits for and removes what an earlier guard of this home left, with the tag's directory. Never a cgroup that
 * contains this process.
 */
void cgroup_kill_leftovers(const char *base, const char *tag);

/* clone3(2), for which glibc has no function: the child's 0, the parent's pid, or −1 with errno. */
pid_t cgroup_clone(struct clone_args *a);

#endif
