#include "sandbox/sysfilter.h"
#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

#include <errno.h>

/*
 * The last step of the init's: what it does from here on, the filter must allow. Where ids are mapped it is no matter of
 * the plan's: files made in a write root are root's outside, and only the filter keeps the command from making them setuid.
 */
int step_seccomp(struct step_context *c)
{
	bool mandatory = step_confined(c) && c->idmap_fd >= 0;
	if (mandatory && !c->filter) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (!(mandatory || c->plan->layers & PLAN_LAYER_SECCOMP) || !c->filter)
		return 0;
	if (sysfilter_install(c->filter, c->logged) < 0)
		return -1;
	c->layers |= PLAN_LAYER_SECCOMP;
	return 0;
}
