/* The steps that set the command's identity and drop its privileges. */

#include "sandbox/steps/step.h"

#include "runtime/base/fd.h"
#include "sandbox/become_peer.h"
#include "sandbox/capability.h"
#include "sandbox/plan.h"
#include "sandbox/steps/public_view.h"
#include "sandbox/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int write_file(struct step_context *c, const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
	int saved = errno;
	if (fd >= 0)
		close(fd);
	if (n < 0)
		step_path(c, userns_path(userns_classify(USERNS_STAGE_MAPS, saved)));
	errno = saved;
	return n < 0 ? -1 : 0;
}

/* Root's ids are mapped by the spawner (start.c), which has a privilege that this process no longer has. */
static int await_maps(struct step_context *c)
{
	char byte;
	ssize_t n;
	while ((n = read(c->maps_fd, &byte, 1)) < 0 && errno == EINTR)
		continue;
	fd_close(&c->maps_fd);
	if (n == 1)
		return 0;
	step_path(c, userns_path(USERNS_ROOT_MAP));
	errno = EPERM;
	return -1;
}

/*
 * Maps each id onto itself: the command sees the same owners of its files as outside. The kernel lets an unprivileged
 * process map only its own gid, and only after it disabled setgroups, so supplementary groups stay as they are.
 */
int step_id_maps(struct step_context *c)
{
	if (c->privileged)
		return 0;
	if (c->maps_fd >= 0)
		return await_maps(c);
	char map[64];
	if (write_file(c, "/proc/self/setgroups", "deny") < 0)
		return -1;
	snprintf(map, sizeof map, "%u %u 1", c->uid, c->uid);
	if (write_file(c, "/proc/self/uid_map", map) < 0)
		return -1;
	snprintf(map, sizeof map, "%u %u 1", c->gid, c->gid);
	return write_file(c, "/proc/self/gid_map", map);
}

#define QUOTA_WAIT_MS 10000u
#define QUOTA_POLL_MS 10u

/*
 * Replaces the daemon's session keyring by an empty one. If the calls are denied or missing here, they are inside, too.
 * The kernel limits an unprivileged user to 200 keys: with that many sandboxes at once, this one waits for another to
 * exit.
 */
int step_keyring(struct step_context *c)
{
	const struct timespec pause = { .tv_nsec = QUOTA_POLL_MS * 1000000L };

	if (!step_confined(c))
		return 0;
	for (unsigned waited = 0; syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0; waited += QUOTA_POLL_MS) {
		if (errno == ENOSYS || errno == EPERM)
			return 0;
		if (errno != EDQUOT || waited >= QUOTA_WAIT_MS)
			return -1;
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

/* A confined command is never root; for the others step_ids handles the bounding set. */
int step_bounds(struct step_context *c)
{
	if (step_confined(c) && !c->bounded)
		capability_drop_bounds();
	return 0;
}

/* From here on uid 0 has no special meaning for this process, and no capability passes through exec. */
static int lock_securebits(void)
{
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
			     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
			     SECBIT_NO_SETUID_FIXUP_LOCKED;
	return prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
}

/*
 * A process without a login uid, as under a daemon started by the system, can set it once to any value and so
 * impersonate any user in the host's audit trail. So it is set here; if audit is used, that has already happened
 * (init.c).
 */
static int set_login_uid(uid_t uid)
{
	char text[12] = "";
	fd_auto int fd = open("/proc/self/loginuid", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == EACCES ? 0
							  : -1; /* a kernel without audit, or a sandbox without /proc */
	if (read(fd, text, sizeof text - 1) <= 0 || strtoul(text, NULL, 10) != UINT32_MAX)
		return 0;
	int n = snprintf(text, sizeof text, "%u", uid);
	return pwrite(fd, text, (size_t)n, 0) == n || errno == EPERM
		       ? 0
		       : -1; /* if the init is not permitted to, neither is the command */
}

/* Entering grants all capabilities there and a full bounding set: they are dropped below and have no effect outside. */
static int enter_userns(struct step_context *c)
{
	if (setns(c->userns_fd, CLONE_NEWUSER) < 0) {
		step_path(c, "user namespace");
		return -1;
	}
	fd_close(&c->userns_fd);
	capability_drop_bounds();
	return 0;
}

/*
 * A command of uid 0 without a sandbox keeps its capabilities. Every other command, and the init that shares its uid,
 * has none left, not even in the bounding set.
 */
int step_ids(struct step_context *c)
{
	if (step_confined(c) && c->uid == 0) {
		errno = EPERM;
		return -1;
	}
	/* After the change of ids the file is no longer writable. */
	if (step_confined(c) && set_login_uid(c->uid) < 0) {
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
		capability_drop_bounds();
	if (become_peer(c->privileged || c->outer_root, c->uid, c->gid, c->groups, c->ngroups) < 0)
		return -1;
	if (c->uid != 0)
		c->layers |= PLAN_LAYER_CAPABILITIES;
	return 0;
}

/*
 * Must run after the last change of credentials, which clears the parent-death signal. The guard may have died before
 * the prctl, and getppid() does not show that inside a pid namespace; its pidfd does. The init keeps watching that
 * descriptor, which covers the instant between the reparenting of the guard's children and its pidfd becoming readable.
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

int step_no_new_privs(struct step_context *c) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }
