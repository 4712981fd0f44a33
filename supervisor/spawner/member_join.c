#include "supervisor/spawner/member_join.h"

#include "runtime/base/fd.h"
#include "sandbox/plan.h"
#include "supervisor/spawner/init.h"
#include "supervisor/spawner/member_limits.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static int take_files(struct init *in, const struct joined_msg *m, const int *list, size_t n)
{
	if ((size_t)__builtin_popcount(m->files) != n || m->files >= JOINED_OOM << 1) {
		errno = EPROTO;
		return -1;
	}
	for (int i = 0; i < TREE_FILES; i++)
		in->own.file[i] = m->files & 1u << i ? *list++ : -1;
	if (m->files & JOINED_OOM)
		in->steps.oom_fd = *list;
	in->has_own = true;
	in->own_memory = m->memory;
	in->steps.layers |= PLAN_LAYER_CGROUP;
	return 0;
}

int member_join(struct init *in, int fd)
{
	struct joined_msg m = { 0 };
	int list[TREE_FILES + 1];
	size_t n = TREE_FILES + 1;
	fd_auto int self = fd_pidfd_open(getpid());
	struct pollfd p[3] = { { .fd = fd, .events = POLLIN },
			       { .fd = in->steps.guard_pidfd, .events = POLLIN },
			       { .fd = in->steps.status_fd, .events = POLLIN } };
	if (self < 0 || fd_send(fd, "j", 1, &self, 1, MSG_NOSIGNAL) < 0)
		return -1;
	while (poll(p, 3, -1) < 0) {
		if (errno != EINTR)
			return -1;
	}
	if (p[1].revents || p[2].revents) /* whatever is requested of it: nothing runs yet */
		_exit(1);
	ssize_t got = fd_recv(fd, &m, sizeof m, list, &n, MSG_DONTWAIT);
	if (got == (ssize_t)sizeof m && !m.error)
		return take_files(in, &m, list, n);
	errno = got == (ssize_t)sizeof m ? m.error : got < 0 ? errno : ECONNRESET;
	return -1;
}
