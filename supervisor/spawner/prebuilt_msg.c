#include "supervisor/spawner/prebuilt_msg.h"

#include "runtime/base/fd.h"
#include "supervisor/spawner/init.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

int prebuilt_msg_send(int link, struct prebuilt_msg_buffer *room, const void *plan, size_t plan_len,
		      const int fds[PREBUILT_MSG_FDS])
{
	struct prebuilt_msg *o = &room->msg;
	int list[PREBUILT_MSG_FDS];
	size_t n = 0, len = sizeof *o;
	o->fds = 0;
	o->plan_len = (uint32_t)plan_len;
	for (int i = 0; i < PREBUILT_MSG_FDS; i++) {
		if (fds[i] < 0)
			continue;
		o->fds |= 1u << i;
		list[n++] = fds[i];
	}
	if (fds[PREBUILT_MSG_PLAN] < 0) {
		memcpy(room->plan, plan, plan_len);
		len = offsetof(struct prebuilt_msg_buffer, plan) + plan_len;
	}
	int r = fd_send(link, room, len, list, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	/* Sandboxes are cloned from this memory: none may contain anything of another command. */
	explicit_bzero(room, len);
	return r;
}

static size_t ready_len(uint32_t marks)
{
	return offsetof(struct prebuilt_ready_msg, fingerprint.mark) + marks * sizeof(struct fingerprint_entry);
}

int prebuilt_msg_receive_ready(int link, struct prebuilt_ready_msg *ret)
{
	ssize_t n = fd_recv(link, ret, sizeof *ret, NULL, NULL, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return 0;
	return n >= (ssize_t)ready_len(0) && ret->fingerprint.count <= FINGERPRINT_MAX &&
			       (size_t)n == ready_len(ret->fingerprint.count)
		       ? 1
		       : -1;
}

int prebuilt_msg_send_ready(const struct init *in)
{
	struct prebuilt_ready_msg f = { .layers = in->steps.layers, .fingerprint = *in->steps.fingerprint };
	return fd_send(in->steps.prebuilt_fd, &f, ready_len(f.fingerprint.count), NULL, 0, MSG_NOSIGNAL);
}

int prebuilt_msg_receive_empty(int link)
{
	char byte;
	ssize_t n = fd_recv(link, &byte, 1, NULL, NULL, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return 0;
	struct pollfd p = { .fd = link };
	return n == 1 && poll(&p, 1, 0) == 0 ? 1 : -1; /* it may have been killed since */
}

int prebuilt_msg_send_empty(const struct init *in)
{
	return fd_send(in->steps.prebuilt_fd, "e", 1, NULL, 0, MSG_NOSIGNAL);
}

static void assign_descriptors(struct step_context *c, uint32_t bits, const int *list, int ret_fds[PREBUILT_MSG_FDS])
{
	for (int i = 0; i < PREBUILT_MSG_FDS; i++)
		ret_fds[i] = bits & 1u << i ? *list++ : -1;
	c->status_fd = ret_fds[PREBUILT_MSG_STATUS];
	c->gate_fd = ret_fds[PREBUILT_MSG_GATE];
	c->stdout_fd = ret_fds[PREBUILT_MSG_OUT];
	c->stderr_fd = ret_fds[PREBUILT_MSG_ERR];
	c->stdin_fd = ret_fds[PREBUILT_MSG_IN];
	c->idmap_fd = ret_fds[PREBUILT_MSG_IDMAP];
	c->placeholder_fd = ret_fds[PREBUILT_MSG_PLACEHOLDER];
	c->cow_fd = ret_fds[PREBUILT_MSG_COW];
	for (int i = 0; i < TREE_LIMITS; i++)
		c->tree.leaf[i] = ret_fds[PREBUILT_MSG_LEAF + i];
}

static const void *plan_of(struct prebuilt_msg_buffer *room, size_t len, int plan_fd)
{
	const struct prebuilt_msg *o = &room->msg;
	if (plan_fd < 0)
		return len == offsetof(struct prebuilt_msg_buffer, plan) + o->plan_len ? room->plan : NULL;
	void *plan = len == sizeof *o ? mmap(NULL, o->plan_len, PROT_READ, MAP_PRIVATE | MAP_POPULATE, plan_fd, 0)
				      : MAP_FAILED;
	return plan == MAP_FAILED ? NULL : plan;
}

static int receive_message(struct init *in)
{
	struct step_context *c = &in->steps;
	const struct prebuilt_msg *o = &in->room->msg;
	int list[PREBUILT_MSG_FDS], fds[PREBUILT_MSG_FDS];
	size_t nfds = PREBUILT_MSG_FDS;
	ssize_t n = fd_recv(c->prebuilt_fd, in->room, sizeof *in->room, list, &nfds, MSG_DONTWAIT);
	if (n < (ssize_t)sizeof *o || o->ngroups > PREBUILT_MSG_GROUPS_MAX ||
	    nfds != (size_t)__builtin_popcount(o->fds))
		return -1;
	assign_descriptors(c, o->fds, list, fds);
	if (!o->keep)
		fd_close(&c->prebuilt_fd);
	const void *plan = plan_of(in->room, (size_t)n, fds[PREBUILT_MSG_PLAN]);
	if (!plan)
		return -1;
	in->mapped = fds[PREBUILT_MSG_PLAN] < 0 ? 0 : o->plan_len;
	fd_close(&fds[PREBUILT_MSG_PLAN]);
	c->uid = o->uid;
	c->gid = o->gid;
	c->peer_uid = o->peer_uid;
	c->peer_gid = o->peer_gid;
	c->groups = o->groups;
	c->ngroups = o->ngroups;
	init_set_plan(in, plan);
	if (c->cow_fd >= 0 && snprintf(in->cow_path, sizeof in->cow_path, "%s/%.*s", in->cow_folder, PLAN_KEY_MAX - 1,
				       o->cow_name) >= (int)sizeof in->cow_path)
		return -1;
	c->cow_path = in->cow_path;
	return 0;
}

/*
 * A file or directory that was replaced on the host loses what was mounted on it in the sandbox (mount_watch.h). The
 * spawner checks all that it knows of; this finds the rest, also what happened while an earlier command ran.
 */
int prebuilt_msg_wait(struct init *in)
{
	struct pollfd p[3] = { { .fd = in->steps.prebuilt_fd, .events = POLLIN },
			       { .fd = in->steps.guard_pidfd, .events = POLLIN },
			       { .fd = in->mounts_fd, .events = POLLPRI } };
	if (in->mapped)
		munmap((void *)in->steps.plan, in->mapped); /* of the command before */
	in->mapped = 0;
	memset(in->room, 0, sizeof *in->room); /* faults its pages in before they are needed */
	while (poll(p, 3, -1) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return p[1].revents || p[2].revents ? -1 : receive_message(in);
}

int prebuilt_msg_receive_last(struct init *in)
{
	/* What is queued can still be read; later sends fail. */
	return shutdown(in->steps.prebuilt_fd, SHUT_RD) < 0 ? -1 : receive_message(in);
}
