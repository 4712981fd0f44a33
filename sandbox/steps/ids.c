#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int clear_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };
	return (int)syscall(SYS_capset, &head, none);
}

/* Whatever becomes of this process: uid 0 means nothing to it, and no capability is handed on over exec. */
static int lock_securebits(void)
{
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED |
			     SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED;
	return prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
}

/*
 * Raw system calls: glibc's wrappers would signal all threads, and there is only one. A command of uid 0 keeps its
 * capabilities; everyone else's process, and the init that shares its uid, has none left, not even in the bounding set.
 */
int step_ids(struct step_context *c)
{
	if (step_confined(c) && c->uid == 0) {
		errno = EPERM;
		return -1;
	}
	if (step_confined(c) && lock_securebits() < 0)
		return -1;
	if (!step_confined(c) && c->uid != 0)
		step_drop_bounds();
	if (c->privileged) {
		if (syscall(SYS_setgroups, c->ngroups, c->groups) < 0 ||
		    syscall(SYS_setresgid, c->gid, c->gid, c->gid) < 0 ||
		    syscall(SYS_setresuid, c->uid, c->uid, c->uid) < 0)
			return -1;
	}
	if (c->uid != 0) {
		if (clear_capabilities() < 0)
			return -1;
		c->layers |= PLAN_LAYER_CAPABILITIES;
	}
	return 0;
}
