#include "sandbox/steps/step.h"

#include <errno.h>
#include <unistd.h>

/*
 * Nothing of the host's name inside, and the same for every sandbox. Podman's default filter refuses this to a
 * container without CAP_SYS_ADMIN: the name that is seen then is the container's, which says nothing of the host's.
 */
int step_hostname(struct step_context *c)
{
	static const char name[] = "bailiff";
	if (!step_confined(c) || sethostname(name, sizeof name - 1) == 0)
		return 0;
	return errno == EPERM && !c->privileged ? 0 : -1;
}
