#include "sandbox/status.h"
#include "sandbox/steps/step.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A KILL_TREE that came while the gate was shut: peeked, so that the init still finds it. */
static int kill_requested(int status_fd, int *watch)
{
	struct status_msg m;
	ssize_t n = recv(status_fd, &m, sizeof m, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0)
		return 0;
	if (n == 0 || (n >= (ssize_t)STATUS_MSG_LEAST && m.kind == STATUS_KILL_TREE))
		return 1;
	*watch = -1; /* something for later: the init takes it once the command runs */
	return 0;
}

static int fail(int errnum)
{
	errno = errnum;
	return -1;
}

/*
 * One byte opens, end of file aborts. The gate may stay shut for as long as the disk stalls, so a request to kill and
 * the guard's death must get through meanwhile: the init itself sleeps until the command has executed (see init.c).
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
			return fail(EOWNERDEAD);
		if (p[1].revents && kill_requested(c->status_fd, &p[1].fd))
			return fail(ECANCELED);
		if (p[0].revents) {
			char byte;
			ssize_t n = read(c->gate_fd, &byte, 1);
			if (n == 1)
				return 0;
			if (n == 0)
				return fail(ECANCELED);
			if (errno != EINTR && errno != EAGAIN)
				return -1;
		}
	}
}
