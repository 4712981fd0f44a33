#include "sandbox/steps/step.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROOM_WAIT_MS 10000u
#define ROOM_LOOK_MS 10u

/*
 * An empty session keyring instead of the daemon's. Where the calls are refused or missing, they are inside too. The
 * kernel gives a plain user room for 200 keys: with so many sandboxes at once, this one waits for one that leaves.
 */
int step_keyring(struct step_context *c)
{
	const struct timespec pause = { .tv_nsec = ROOM_LOOK_MS * 1000000L };

	if (!step_confined(c))
		return 0;
	for (unsigned waited = 0; syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0; waited += ROOM_LOOK_MS) {
		if (errno == ENOSYS || errno == EPERM)
			return 0;
		if (errno != EDQUOT || waited >= ROOM_WAIT_MS)
			return -1;
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}
