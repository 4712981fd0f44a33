#include "supervisor/spawner/member_msg.h"

#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int member_msg_send_start(int link, const struct plan_key *key, const void *plan, size_t plan_len,
			  const int fds[MEMBER_FDS])
{
	struct member_msg_buffer room; /* only as much of it is initialised as is sent */
	int list[MEMBER_FDS];
	size_t n = 0, len = sizeof room.msg;
	room.msg = (struct member_msg){ .kind = MEMBER_START, .key = *key, .plan_len = (uint32_t)plan_len };
	for (int i = 0; i < MEMBER_FDS; i++) {
		if (fds[i] < 0)
			continue;
		room.msg.fds |= 1u << i;
		list[n++] = fds[i];
	}
	if (plan) {
		memcpy(room.plan, plan, plan_len);
		len = offsetof(struct member_msg_buffer, plan) + plan_len;
	}
	return fd_send(link, &room, len, list, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int member_msg_send_kill(int link, const struct plan_key *key)
{
	const struct member_msg m = { .kind = MEMBER_KILL, .key = *key };
	return fd_send(link, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static const void *plan_of(struct member_msg_buffer *buffer, size_t len, int plan_fd)
{
	const struct member_msg *m = &buffer->msg;
	if (plan_fd < 0)
		return len == offsetof(struct member_msg_buffer, plan) + m->plan_len ? buffer->plan : NULL;
	if (len != sizeof *m || m->plan_len > PLAN_MAX)
		return NULL;
	struct stat st;
	int seals = fcntl(plan_fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(plan_fd, &st) < 0 || st.st_size != (off_t)m->plan_len)
		return NULL;
	const void *plan = mmap(NULL, m->plan_len, PROT_READ, MAP_PRIVATE | MAP_POPULATE, plan_fd, 0);
	return plan == MAP_FAILED ? NULL : plan;
}

int member_msg_receive(int link, int flags, struct member_msg_buffer *buffer, int fds[MEMBER_FDS],
		       const void **ret_plan)
{
	struct member_msg *m = &buffer->msg;
	int list[MEMBER_FDS];
	size_t nfds = MEMBER_FDS, at = 0;
	for (int i = 0; i < MEMBER_FDS; i++)
		fds[i] = -1;
	*ret_plan = NULL;
	ssize_t n = fd_recv(link, buffer, sizeof *buffer, list, &nfds, flags);
	if (n == 0) {
		errno = 0;
		return -1;
	}
	if (n < 0)
		return fd_recv_again(errno) ? 0 : -1;
	bool valid = n >= (ssize_t)sizeof *m && !(m->fds >> MEMBER_FDS) && plan_key_valid(&m->key) &&
		     nfds == (size_t)__builtin_popcount(m->fds);
	for (int i = 0; valid && i < MEMBER_FDS; i++)
		fds[i] = m->fds & 1u << i ? list[at++] : -1;
	while (at < nfds)
		fd_close(&list[at++]);
	if (!valid)
		return 0;
	if (m->kind == MEMBER_START)
		*ret_plan = plan_of(buffer, (size_t)n, fds[MEMBER_FD_PLAN]);
	fd_close(&fds[MEMBER_FD_PLAN]);
	return 1;
}

const char *member_msg_missing(const struct plan_head *plan, const int fds[MEMBER_FDS])
{
	if (fds[MEMBER_FD_GATE] < 0)
		return "gate";
	if (plan->flags & PLAN_TTY)
		return NULL;
	if (fds[MEMBER_FD_OUT] < 0)
		return "stdout";
	if (fds[MEMBER_FD_ERR] < 0 && !(plan->flags & PLAN_STDERR_MERGE))
		return "stderr";
	return fds[MEMBER_FD_IN] < 0 && plan->flags & PLAN_STDIN_PIPE ? "stdin" : NULL;
}
