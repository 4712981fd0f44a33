#include "sandbox/steps/step.h"

#include <sys/stat.h>
#include <unistd.h>

int step_session(struct step_context *c)
{
	umask(022); /* the daemon's own is stricter */
	return setsid() < 0 ? -1 : 0;
}
