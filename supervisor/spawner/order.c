#include "supervisor/spawner/order.h"

#include "runtime/base/fd.h"
#include "supervisor/spawner/init.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

int order_send(int link, struct order *o, const int fds[ORDER_FDS])
{
	int list[ORDER_FDS];
	size_t n = 0;
	o->fds = 0;
	for (int i = 0; i < ORDER_FDS; i++) {
		if (fds[i] < 0)
			continue;
		o->fds |= 1u << i;
		list[n++] = fds[i];
	}
	return fd_send(link, o, sizeof *o, list, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void spread(struct step_context *c, uint32_t bits, const int *list, int ret_fds[ORDER_FDS])
{
	for (int i = 0; i < ORDER_FDS; i++)
		ret_fds[i] = bits & 1u << i ? *list++ : -1;
	c->status_fd = ret_fds[ORDER_STATUS];
	c->gate_fd = ret_fds[ORDER_GATE];
	c->stdout_fd = ret_fds[ORDER_OUT];
	c->stderr_fd = ret_fds[ORDER_ERR];
	c->stdin_fd = ret_fds[ORDER_IN];
	c->idmap_fd = ret_fds[ORDER_IDMAP];
	c->keeper_fd = ret_fds[ORDER_KEEPER];
	for (int i = 0; i < TREE_LIMITS; i++) {
		c->limits.attach[i] = ret_fds[ORDER_ATTACH + i];
		c->limits.events[i] = ret_fds[ORDER_EVENTS + i];
	}
}

static int take(struct init *in)
{
	struct step_context *c = &in->steps;
	struct order *o = &in->order;
	int list[ORDER_FDS], fds[ORDER_FDS];
	size_t n = ORDER_FDS;
	if (fd_recv(c->order_fd, o, sizeof *o, list, &n, MSG_DONTWAIT) != (ssize_t)sizeof *o || o->ngroups > ORDER_GROUPS_MAX ||
	    n != (size_t)__builtin_popcount(o->fds))
		return -1;
	spread(c, o->fds, list, fds);
	fd_close(&c->order_fd);
	void *plan = mmap(NULL, o->plan_len, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fds[ORDER_PLAN], 0);
	if (plan == MAP_FAILED)
		return -1;
	fd_close(&fds[ORDER_PLAN]);
	c->uid = o->uid;
	c->gid = o->gid;
	c->peer_uid = o->peer_uid;
	c->peer_gid = o->peer_gid;
	c->groups = o->groups;
	c->ngroups = o->ngroups;
	init_set_plan(in, plan);
	return 0;
}

int order_wait(struct init *in)
{
	struct pollfd p[2] = { { .fd = in->steps.order_fd, .events = POLLIN }, { .fd = in->steps.guard_pidfd, .events = POLLIN } };
	while (poll(p, 2, -1) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return p[1].revents ? -1 : take(in);
}

int order_take_last(struct init *in)
{
	/* What is queued can still be read; who sends from now on is refused. */
	return shutdown(in->steps.order_fd, SHUT_RD) < 0 ? -1 : take(in);
}
