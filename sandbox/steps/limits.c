#include "sandbox/steps/step.h"

#include <unistd.h>

/* On v1 hierarchies: before anything of the peer's is touched. "0" is the writer itself. */
int step_limits(struct step_context *c)
{
	for (int i = 0; i < TREE_LIMITS; i++) {
		if (c->limits.attach[i] < 0)
			continue;
		step_path(c, tree_limit_name((enum tree_limit)i));
		if (write(c->limits.attach[i], "0", 1) < 0)
			return -1;
	}
	return 0;
}
