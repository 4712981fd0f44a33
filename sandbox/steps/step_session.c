#include "sandbox/steps/step.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

int step_session(struct step_context *c)
{
	umask(022); /* the daemon's own is stricter */
	if (setsid() < 0)
		return -1;
	return c->slave_fd >= 0 && ioctl(c->slave_fd, TIOCSCTTY, 0) < 0 ? -1 : 0;
}
