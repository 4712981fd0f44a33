#include "sandbox/landlock.h"

#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

/*
 * A private root always gets it where the kernel has it: whether it is wanted is not for the sender of the plan to
 * decide. Init and command are in one domain, so the init can still signal its tree; the guard is outside and reaches
 * both.
 */
int step_landlock(struct step_context *c)
{
	int abi = step_confined(c) || c->plan->layers & PLAN_LAYER_LANDLOCK ? landlock_abi() : 0;
	if (step_confined(c) && landlock_shuts_abstract_sockets(abi, c->plan->network))
		c->layers |= PLAN_LAYER_ABSTRACT_SOCKETS;
	if (abi == 0)
		return 0;
	const char *path;
	if (landlock_confine(abi, c->plan, c->logged, &path) < 0) {
		if (path)
			step_path(c, path);
		return -1;
	}
	c->layers |= PLAN_LAYER_LANDLOCK;
	return 0;
}
