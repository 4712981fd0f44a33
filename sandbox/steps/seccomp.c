#include "sandbox/sysfilter.h"
#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

/* The last step of the init's: what it does from here on, the filter must allow. */
int step_seccomp(struct step_context *c)
{
	if (!(c->plan->layers & PLAN_LAYER_SECCOMP) || !c->filter)
		return 0;
	if (sysfilter_install(c->filter, c->logged) < 0)
		return -1;
	c->layers |= PLAN_LAYER_SECCOMP;
	return 0;
}
