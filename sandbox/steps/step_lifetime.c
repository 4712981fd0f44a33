#include "sandbox/steps/step.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

/*
 * After the last change of credentials (which clears the parent-death signal). The guard may have died before the
 * prctl, and asking for the parent's pid says nothing inside a pid namespace: its pidfd does. The init goes on watching
 * that descriptor, which covers the instant between the guard's children being handed on and its pidfd turning
 * readable.
 */
int step_lifetime(struct step_context *c)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	struct pollfd p = { .fd = c->guard_pidfd, .events = POLLIN };
	if (poll(&p, 1, 0) == 0)
		return 0;
	errno = EOWNERDEAD;
	return -1;
}
