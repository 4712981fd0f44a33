#include "runtime/base/fd.h"
#include "sandbox/plan.h"
#include "sandbox/steps/public_view.h"
#include "sandbox/steps/step.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
			     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
			     SECBIT_NO_SETUID_FIXUP_LOCKED;
	return prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
}

/*
 * Who is not said to have logged in yet, as nobody is below a daemon that the system started, may say so once himself,
 * and be anybody in the host's audit trail. So it is said here; where audit reads along, that was done long before
 * (init.c).
 */
static int settle_login(uid_t uid)
{
	char text[12] = "";
	fd_auto int fd = open("/proc/self/loginuid", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == EACCES ? 0
							  : -1; /* a kernel without audit, or a sandbox without /proc */
	if (read(fd, text, sizeof text - 1) <= 0 || strtoul(text, NULL, 10) != UINT32_MAX)
		return 0;
	int n = snprintf(text, sizeof text, "%u", uid);
	return pwrite(fd, text, (size_t)n, 0) == n || errno == EPERM ? 0
								     : -1; /* what we may not, the command may not */
}

/* With it come all capabilities there, and a full bounding set: they are given up again below, and mean nothing
 * outside. */
static int enter_userns(struct step_context *c)
{
	if (setns(c->userns_fd, CLONE_NEWUSER) < 0) {
		step_path(c, "user namespace");
		return -1;
	}
	fd_close(&c->userns_fd);
	step_drop_bounds();
	return 0;
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
	/* With the ids goes the right to write there. */
	if (step_confined(c) && settle_login(c->uid) < 0) {
		step_path(c, "/proc/self/loginuid");
		return -1;
	}
	if (c->outer_root && c->layers & PLAN_LAYER_MOUNTS && public_view_shut_init(c) < 0)
		return -1;
	if (c->userns_fd >= 0 && enter_userns(c) < 0)
		return -1;
	if (step_confined(c) && lock_securebits() < 0)
		return -1;
	if (!step_confined(c) && c->uid != 0)
		step_drop_bounds();
	if (c->privileged || c->outer_root) {
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
