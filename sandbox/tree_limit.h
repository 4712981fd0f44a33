#ifndef BAILIFF_SANDBOX_TREE_LIMIT_H
#define BAILIFF_SANDBOX_TREE_LIMIT_H

/*
 * Limits on a whole tree, by cgroup: memory and the number of processes. Each controller is used where it is: on the v2
 * tree if that has it, else on its v1 hierarchy. A limit that cannot be enforced is refused, never left out.
 *
 * Leaves are <own cgroup>/<tag>/<process id>-<attempt>. On v2 the leaf is the one that cgroup.h makes and the init is
 * cloned into; on v1 the init writes itself into it first of all (step_limits), before anything of the command exists.
 */

#include "sandbox/plan.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

enum tree_limit { TREE_LIMIT_MEMORY, TREE_LIMIT_PIDS, TREE_LIMITS };

struct tree_limiter {
	struct {
		int folder;          /* of the tag in this controller's hierarchy; −1 = the controller is not there */
		bool v2;
		char why[96];        /* why it is not there */
	} of[TREE_LIMITS];
	char tag_path[TREE_LIMITS][PATH_MAX];
};

/* What the init of one sandbox gets: −1 = nothing to do. */
struct tree_limit_fds {
	int attach[TREE_LIMITS];   /* cgroup.procs of a v1 leaf */
	int events[TREE_LIMITS];   /* where the kernel counts what the limit stopped */
};

const char *tree_limit_name(enum tree_limit l); /* "memory" */

void tree_limiter_open(struct tree_limiter *t, const char *tag);
void tree_limiter_close(struct tree_limiter *t); /* removes the folders if they are empty */
/*
 * Sets the plan's limits for this key; `leaf` names its cgroup on v2 (cgroup.h), and is the key itself as a rule.
 * What cannot be enforced here is left out, unless the plan requires the layer: then
 * ERR_UNAVAILABLE with field "memory" or "pids".
 */
int tree_limiter_make(struct tree_limiter *t, const struct plan_key *key, const struct plan_key *leaf, const struct plan_head *plan,
		      struct tree_limit_fds *ret, struct err *e);
void tree_limiter_remove(struct tree_limiter *t, const struct plan_key *key);

void tree_limit_fds_init(struct tree_limit_fds *f);
void tree_limit_fds_close(struct tree_limit_fds *f);
/* How often the limit stopped something; no malloc, for the init. */
uint64_t tree_limit_count(const struct tree_limit_fds *f, enum tree_limit l);

#endif
