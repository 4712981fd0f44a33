#include "runtime/base/fd.h"
#include "sandbox/steps/step.h"
#include "sandbox/tree_limit.h"

#include <fcntl.h>
#include <unistd.h>

/* On v1 hierarchies: before anything of the peer's is touched. "0" is the writer itself. */
int step_limits(struct step_context *c)
{
	for (int i = 0; i < TREE_LIMITS; i++) {
		if (c->tree.leaf[i] < 0)
			continue;
		step_path(c, tree_limit_name((enum tree_limit)i));
		fd_auto int procs = openat(c->tree.leaf[i], "cgroup.procs", O_WRONLY | O_CLOEXEC);
		if (procs < 0 || write(procs, "0", 1) < 0)
			return -1;
		tree_files_open_v1(&c->tree, (enum tree_limit)i, c->tree.leaf[i]);
		fd_close(&c->tree.leaf[i]);
		c->layers |= PLAN_LAYER_CGROUP;
	}
	return 0;
}
