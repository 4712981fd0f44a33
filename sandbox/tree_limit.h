#ifndef BAILIFF_SANDBOX_TREE_LIMIT_H
#define BAILIFF_SANDBOX_TREE_LIMIT_H

/*
 * Limits on a whole tree, by cgroup (sandbox/plan_limits.def). Each controller is used where it is available: on the v2
 * tree, else on its v1 hierarchy. A requested limit that cannot be enforced is an error, never ignored.
 *
 * Leaves are <base>/<tag>/<process id>-<attempt>; on v1 the base is our own cgroup. On v2 the leaf is the one that
 * cgroup.h creates and the init is cloned into; on v1 the init enters it as its first step (step_limits), before
 * anything of the command exists.
 *
 * The limits of a single member of a session sandbox are those of a leaf inside the sandbox's, so that both apply. On
 * v1 it is inside the tag's directory where the sandbox itself has no limit of that controller.
 */

#include "sandbox/cgroup.h"
#include "sandbox/cgroup_base.h"
#include "sandbox/plan.h"
#include "sandbox/tree_files.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct fingerprint_peer;
struct tree_disks;

struct tree_limiter {
	struct {
		int folder; /* of the tag in this controller's hierarchy; −1 = not available */
		bool v2;
		char why[CGROUP_BASE_TEXT_MAX],
			fix[CGROUP_BASE_TEXT_MAX]; /* why it is not available, and what to do about it */
	} of[TREE_LIMITS];
	char tag_path[TREE_LIMITS][PATH_MAX];
};

const char *tree_limit_name(enum tree_limit l); /* "memory" */

void tree_limiter_open(struct tree_limiter *t, const struct cgroup_base *base, const char *tag);
void tree_limiter_close(struct tree_limiter *t); /* removes the directories if they are empty */
/*
 * Sets the plan's limits for this key. `leaf` names its cgroup on v2 (cgroup.h), usually the key itself. `ret` receives
 * the v1 leaves that the init has to enter. A limit that cannot be enforced here is skipped, unless the plan requires
 * it: then ERR_UNAVAILABLE with its key as the field. `disks` (tree_disk.h) are needed if the plan limits I/O.
 */
int tree_limiter_make(struct tree_limiter *t, const struct plan_key *key, const struct plan_key *leaf,
		      const struct plan_head *plan, const struct tree_disks *disks, struct tree_files *ret,
		      struct err *e);
/* Whether this plan's init has to enter a v1 leaf, which needs rights that a dedicated prebuilt one no longer has. */
bool tree_limiter_needs_init(const struct tree_limiter *t, const struct plan_limits *l);
/* The disks of the plan's write roots and of `cow` (−1 = none), if it limits I/O. */
int tree_limit_find_disks(const struct plan_head *plan, const struct fingerprint_peer *peer, int cow,
			  struct tree_disks *ret, struct err *e);
void tree_limiter_remove(struct tree_limiter *t, const struct plan_key *key);

/* The place of a session sandbox: its key, and the name of its leaf on v2 ("" = its init is not in CGROUP_HOLDER). */
struct tree_sandbox {
	struct plan_key key;
	char leaf[CGROUP_LEAF_MAX];
};
/*
 * The same for a member: all limits of the plan are required, and `ret` receives the leaves of both versions
 * (tree_limiter_enter).
 */
int tree_limiter_make_member(struct tree_limiter *t, const struct tree_sandbox *in, const struct plan_key *key,
			     const struct plan_head *plan, const struct tree_disks *disks, struct tree_files *ret,
			     struct err *e);
/* Moves a process there and opens the files that count what its tree uses. −1 with errno. */
int tree_limiter_enter(const struct tree_limiter *t, struct tree_files *leaves, pid_t pid);
/* False: processes are still in it. */
bool tree_limiter_remove_member(struct tree_limiter *t, const struct tree_sandbox *in, const struct plan_key *key);

#endif
