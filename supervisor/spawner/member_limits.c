#include "supervisor/spawner/member_limits.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/cgroup.h"
#include "sandbox/plan.h"
#include "sandbox/tree_disk.h"
#include "supervisor/spawner/proc_stat.h"
#include "supervisor/spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define RETRY_MS 20
#define RETRIES_MAX 500u /* after that it is removed with the sandbox */

static void drop_member(struct member_limits *l, struct limited_member *m)
{
	fd_close(&m->fd);
	tree_files_close(&m->leaves);
	*m = l->member[--l->count];
}

size_t member_limits_polls(const struct member_limits *l, int ret[MEMBER_LIMITS_POLLS_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i < l->count && n < MEMBER_LIMITS_POLLS_MAX; i++) {
		if (l->member[i].fd >= 0)
			ret[n++] = l->member[i].fd;
	}
	return n;
}

static int make_leaves(struct spawner *s, const struct spawn_msg *m, const struct plan_head *plan, int client,
		       struct limited_member *ret, struct err *e)
{
	struct spawn_identity peer;
	struct tree_disks disks;
	if (!(plan->flags & PLAN_MEMBER))
		return err_field(e, "plan", "is not a member's");
	if (proc_parent(ret->holder) != getppid())
		return err_set(e, ERR_NOT_ALLOWED, "process %d is not the first one of a sandbox", ret->holder);
	if (spawner_peer(s, client, &peer, e) < 0)
		return -1;
	const struct fingerprint_peer rights = spawn_identity_peer(s, &peer);
	if (tree_limit_find_disks(plan, &rights, -1, &disks, e) < 0)
		return -1;
	if (!cgroup_holder_leaf(ret->holder, ret->in.leaf))
		ret->in.leaf[0] = 0;
	ret->memory = plan->limits.value[PLAN_LIMIT_MEMORY] != 0;
	return tree_limiter_make_member(&s->limiter, &ret->in, &m->key, plan, &disks, &ret->leaves, e);
}

int member_limits_make(struct spawner *s, const struct spawn_msg *m, int *fds, struct err *e)
{
	struct member_limits *l = &s->members;
	int waiting[MEMBER_LIMITS_POLLS_MAX];
	const int plan_fd = m->plan_len ? -1 : *fds++;
	struct limited_member one = { .key = m->key, .in.key = m->holder, .holder = m->pid, .fd = -1 };
	const struct plan_head *plan = NULL;
	size_t mapped = 0;
	tree_files_init(&one.leaves);
	if (member_limits_polls(l, waiting) == MEMBER_LIMITS_POLLS_MAX)
		return err_sys(e, EAGAIN, "too many commands with limits are being started in session sandboxes");
	if (spawner_take_plan(s, m, plan_fd, &plan, &mapped, e) < 0)
		return -1;
	int r = make_leaves(s, m, plan, fds[0], &one, e);
	if (mapped)
		munmap((void *)plan, mapped);
	if (r < 0)
		return -1;
	one.fd = fd_take(&fds[1]);
	if (l->count == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 8;
		l->member = mem_realloc(l->member, l->cap * sizeof *l->member);
	}
	l->member[l->count++] = one;
	return 0;
}

/* Returns true if it is gone from the list. */
static bool try_removal(struct spawner *s, struct limited_member *m)
{
	if (!tree_limiter_remove_member(&s->limiter, &m->in, &m->key) && ++m->tries < RETRIES_MAX)
		return false;
	drop_member(&s->members, m);
	return true;
}

bool member_limits_remove(struct spawner *s, const struct plan_key *key)
{
	struct member_limits *l = &s->members;
	for (size_t i = 0; i < l->count; i++) {
		struct limited_member *m = &l->member[i];
		if (memcmp(&m->key, key, sizeof *key) != 0)
			continue;
		m->ended = true;
		try_removal(s, m);
		return true;
	}
	return false;
}

int member_limits_tick(struct spawner *s)
{
	int ms = -1;
	for (size_t i = 0; i < s->members.count;) {
		if (s->members.member[i].ended && try_removal(s, &s->members.member[i]))
			continue;
		if (s->members.member[i++].ended)
			ms = RETRY_MS;
	}
	return ms;
}

void member_limits_done(struct spawner *s)
{
	while (s->members.count) {
		tree_limiter_remove_member(&s->limiter, &s->members.member[0].in, &s->members.member[0].key);
		drop_member(&s->members, &s->members.member[0]);
	}
	free(s->members.member);
}

/*
 * 0, or the errno. A pid can be reused once its process was reaped. Pids are assigned in turn, so that takes a whole
 * round of them between the check and the move, and the leader's death is noticed afterwards.
 */
static int move_leader(struct spawner *s, struct limited_member *m, int pidfd)
{
	pid_t pid = fd_pidfd_pid(pidfd);
	if (!pid || proc_parent(pid) != m->holder || proc_parent(m->holder) != getppid())
		return EPERM;
	if (tree_limiter_enter(&s->limiter, &m->leaves, pid) < 0)
		return errno;
	return fd_pidfd_signal(pidfd, 0) < 0 ? errno : 0;
}

static void answer_leader(const struct limited_member *m, int error, int pidfd)
{
	struct joined_msg answer = { .error = error, .memory = m->memory };
	int fds[TREE_FILES + 1];
	size_t n = 0;
	char path[48];
	for (int i = 0; !error && i < TREE_FILES; i++) {
		if (m->leaves.file[i] < 0)
			continue;
		answer.files |= 1u << i;
		fds[n++] = m->leaves.file[i];
	}
	snprintf(path, sizeof path, "/proc/%d/oom_score_adj", fd_pidfd_pid(pidfd));
	fd_auto int oom = error || !m->memory ? -1 : open(path, O_WRONLY | O_CLOEXEC);
	if (oom >= 0) {
		answer.files |= JOINED_OOM;
		fds[n++] = oom;
	}
	(void)!fd_send(m->fd, &answer, sizeof answer, fds, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void member_limits_on_request(struct spawner *s, int fd)
{
	for (size_t i = 0; i < s->members.count; i++) {
		struct limited_member *m = &s->members.member[i];
		char byte;
		fd_auto int pidfd = -1;
		size_t nfds = 1;
		if (m->fd != fd)
			continue;
		ssize_t n = fd_recv(fd, &byte, 1, &pidfd, &nfds, MSG_DONTWAIT);
		if (n < 0 && fd_recv_again(errno))
			return;
		if (n == 1 && nfds == 1)
			answer_leader(m, move_leader(s, m, pidfd), pidfd);
		fd_close(&m->fd);
		tree_files_close(&m->leaves);
		return;
	}
}
