#include "sandbox/landlock.h"

#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

/* Init and command are in one domain, so the init can still signal its tree; the guard is outside and reaches both. */
int step_landlock(struct step_context *c)
{
	int abi = c->plan->layers & PLAN_LAYER_LANDLOCK ? landlock_abi() : 0;
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
