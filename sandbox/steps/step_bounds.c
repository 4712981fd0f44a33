#include "sandbox/steps/step.h"

#include <sys/prctl.h>

void step_drop_bounds(void)
{
	int cap = 0;
	while (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
		cap++;
}

/* A confined command is never root's; of others' commands `ids` knows. */
int step_bounds(struct step_context *c)
{
	if (step_confined(c))
		step_drop_bounds();
	return 0;
}
