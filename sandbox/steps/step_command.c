/* The steps in the command's own process, between the init's vfork and exec; rlimits are in step_limits.c. */

#include "sandbox/steps/step.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/plan.h"
#include "sandbox/status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int step_session(struct step_context *c)
{
	umask(022); /* the daemon's own is stricter */
	if (setsid() < 0)
		return -1;
	return c->slave_fd >= 0 && ioctl(c->slave_fd, TIOCSCTTY, 0) < 0 ? -1 : 0;
}

static int connect_stdio(int in, int out, int err)
{
	return dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 ? -1 : 0;
}

int step_stdio(struct step_context *c)
{
	if (c->slave_fd >= 0)
		return connect_stdio(c->slave_fd, c->slave_fd, c->slave_fd);
	int in = c->stdin_fd;
	if (in < 0) {
		in = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (in < 0) {
			step_path(c, "/dev/null");
			return -1;
		}
	}
	int err = c->stderr_fd >= 0 ? c->stderr_fd : c->stdout_fd;
	return connect_stdio(in, c->stdout_fd, err);
}

/* In the command's own table of descriptors, which is a copy: all but those that the next steps need. */
static int close_others(const struct step_context *c)
{
	const int keep[] = { c->status_fd, c->gate_fd, c->guard_pidfd, c->core_fd };
	for (unsigned from = 3;;) {
		unsigned next = UINT_MAX;
		for (size_t i = 0; i < countof(keep); i++) {
			if (keep[i] >= 0 && (unsigned)keep[i] >= from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		}
		if (next > from && fd_close_range(from, next == UINT_MAX ? next : next - 1) < 0)
			return -1;
		if (next == UINT_MAX)
			return 0;
		from = next + 1;
	}
}

/*
 * With the peer's identity and in the command's process: a command cannot start in a directory that its peer cannot
 * enter. Before that, the descriptors of the init are closed: some are of directories outside of the sandbox, and
 * /proc/self/fd would lead there.
 */
int step_cwd(struct step_context *c)
{
	const char *cwd = plan_string(c->plan, c->plan->cwd_off);
	if (close_others(c) < 0)
		return -1;
	if (chdir(cwd) < 0) {
		step_path(c, cwd);
		return -1;
	}
	return 0;
}

/* The spawner has reset the dispositions (spawner.c), and every init and leader keeps them. */
int step_signals(struct step_context *c)
{
	sigset_t none;
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * Checks for a KILL_TREE that arrived while the gate was closed. It is only peeked, so that the init still receives it.
 */
static int kill_requested(int status_fd, int *watch)
{
	struct status_msg m;
	ssize_t n = recv(status_fd, &m, sizeof m, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0)
		return 0;
	if (n == 0 || (n >= (ssize_t)STATUS_MSG_LEAST && m.kind == STATUS_KILL_TREE))
		return 1;
	*watch = -1; /* another message: the init handles it once the command runs */
	return 0;
}

static int fail_with(int errnum)
{
	errno = errnum;
	return -1;
}

/*
 * One byte opens the gate, end of file aborts. The gate can stay closed while the disk stalls, so a kill request and
 * the guard's death must be noticed here: the init sleeps until the command's exec (see init.c).
 */
int step_gate(struct step_context *c)
{
	struct pollfd p[3] = {
		{ .fd = c->gate_fd, .events = POLLIN },
		{ .fd = c->status_fd, .events = POLLIN },
		{ .fd = c->guard_pidfd, .events = POLLIN },
	};
	for (;;) {
		if (poll(p, 3, -1) < 0) {
			if (errno == EINTR)
				continue;
			return -1;
		}
		if (p[2].revents)
			return fail_with(EOWNERDEAD);
		if (p[1].revents && kill_requested(c->status_fd, &p[1].fd))
			return fail_with(ECANCELED);
		if (p[0].revents) {
			char byte;
			ssize_t n = read(c->gate_fd, &byte, 1);
			if (n == 1) {
				c->end_awaited = byte == GATE_OPEN_QUIETLY;
				return 0;
			}
			if (n == 0)
				return fail_with(ECANCELED);
			if (errno != EINTR && errno != EAGAIN)
				return -1;
		}
	}
}
