#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

#include <unistd.h>

/* As the peer and in its own process: what the peer may not enter, its command does not start in. */
int step_cwd(struct step_context *c)
{
	const char *cwd = plan_string(c->plan, c->plan->cwd_off);
	if (chdir(cwd) < 0) {
		step_path(c, cwd);
		return -1;
	}
	return 0;
}
