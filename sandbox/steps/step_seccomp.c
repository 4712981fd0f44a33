#include "sandbox/plan.h"
#include "sandbox/steps/step.h"
#include "sandbox/sysfilter.h"

#include <errno.h>

/*
 * The last step of the init's: what it does from here on, the filter must allow. A private root always has it: without
 * the filter a command could make setuid files in an idmapped write root, which are root's outside, and the sender of a
 * plan must not be able to leave it out.
 */
int step_seccomp(struct step_context *c)
{
	if (step_confined(c) && !c->filter) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (!(step_confined(c) || c->plan->layers & PLAN_LAYER_SECCOMP) || !c->filter)
		return 0;
	if (sysfilter_install(c->filter, c->logged) < 0)
		return -1;
	c->layers |= PLAN_LAYER_SECCOMP;
	return 0;
}
