#include "sandbox/steps/step.h"
#include "sandbox/userns.h"

#include <errno.h>
#include <sys/mount.h>

/*
 * Nothing mounted inside reaches the host. Without a private root it is the other way round too, so that what the host
 * unmounts is not kept busy by a long-running command. In a private root nothing may appear later: it would be neither
 * read-only nor inert.
 */
int step_mounts(struct step_context *c)
{
	if (mount(NULL, "/", NULL, MS_REC | (step_confined(c) ? MS_PRIVATE : MS_SLAVE), NULL) < 0) {
		int error = errno;
		step_path(c, c->privileged ? "/" : userns_path(userns_classify(USERNS_STAGE_MOUNT, error)));
		errno = error;
		return -1;
	}
	return 0;
}
