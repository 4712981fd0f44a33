#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

#include <sys/mount.h>

/*
 * A container that masks parts of /proc makes the kernel refuse a fresh one in a user namespace. The command then sees
 * the outer /proc; that is said by leaving the layer out, and whoever required the layer gets a failure for it.
 */
int step_proc(struct step_context *c)
{
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
		c->layers |= PLAN_LAYER_MOUNTS;
	return 0;
}
