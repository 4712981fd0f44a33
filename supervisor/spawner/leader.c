#include "supervisor/spawner/leader.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/audit.h"
#include "sandbox/plan.h"
#include "sandbox/status.h"
#include "sandbox/steps/step.h"
#include "supervisor/common/earlier_use.h"
#include "supervisor/common/process_title.h"
#include "supervisor/spawner/command_run.h"
#include "supervisor/spawner/init.h"
#include "supervisor/spawner/member_join.h"
#include "supervisor/spawner/proc_stat.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE_MAX 8u /* leaders that wait for another member */
#define IDLE_MS 4000
#define IDLE_SHARE 1024u /* of a limit on processes */

/* ---- who reads the link ---- */

static void watch_link(const struct leader_pool *p, bool on)
{
	struct epoll_event e = { .events = on ? EPOLLIN : 0 };
	for (int i = 0; i < 3 && epoll_ctl(p->link_watch, EPOLL_CTL_MOD, p->link, &e) < 0; i++)
		continue;
}

int leader_pool_init(struct leader_pool *p, struct init *in, int *link)
{
	struct epoll_event e = { .events = EPOLLIN };
	*p = (struct leader_pool){ .in = in,
				   .plan = in->steps.plan,
				   .buffer = mem_zalloc(1, sizeof *p->buffer),
				   .signal_fd = command_run_signal_fd(),
				   .link = *link,
				   .link_watch = epoll_create1(EPOLL_CLOEXEC) };
	p->shared = mmap(NULL, sizeof *p->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p->signal_fd < 0 || p->link_watch < 0 || p->shared == MAP_FAILED || fd_nonblock(p->link, true) < 0 ||
	    epoll_ctl(p->link_watch, EPOLL_CTL_ADD, p->link, &e) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->forward) < 0)
		return -1;
	*link = -1;
	return 0;
}

void leader_pool_remove(struct leader_pool *p, int slot)
{
	const uint64_t bit = UINT64_C(1) << slot;
	if (!(atomic_fetch_and(&p->shared->idle, ~bit) & ~bit))
		watch_link(p, true);
}

bool leader_pool_is_for_holder(struct leader_pool *p)
{
	struct epoll_event e = { 0 };
	if (!atomic_load(&p->shared->idle) ||
	    (epoll_wait(p->link_watch, &e, 1, 0) == 1 && e.events & EPOLLHUP)) /* which cannot be switched off */
		return true;
	watch_link(p, false);
	if (!atomic_load(&p->shared->idle)) /* the last one has stopped being idle meanwhile */
		watch_link(p, true);
	return false;
}

/*
 * True if idle leaders may exist next to commands. They count for the sandbox's limits, which are for its commands. So
 * they take at most a small part of a limit on processes; where that is less than one, and with a limit on memory, only
 * one is kept, and only while no command runs.
 */
static bool has_room(const struct leader_pool *p, unsigned *ret_most)
{
	const uint64_t *limit = p->plan->limits.value;
	uint64_t most = limit[PLAN_LIMIT_PIDS] ? limit[PLAN_LIMIT_PIDS] / IDLE_SHARE : IDLE_MAX;
	if (limit[PLAN_LIMIT_MEMORY] || limit[PLAN_LIMIT_MEMORY_HIGH])
		most = 0;
	*ret_most = most == 0 ? 1 : most < IDLE_MAX ? (unsigned)most : IDLE_MAX;
	return most > 0;
}

/* False: there are enough. */
static bool become_idle(const struct leader *l)
{
	struct leader_shared *s = l->pool->shared;
	unsigned most;
	if (!has_room(l->pool, &most) && atomic_load(&s->leaders) > 1)
		return false;
	uint64_t idle = atomic_load(&s->idle);
	do {
		if ((unsigned)__builtin_popcountll(idle) >= most)
			return false;
	} while (!atomic_compare_exchange_weak(&s->idle, &idle, idle | UINT64_C(1) << l->slot));
	if (!idle)
		watch_link(l->pool, false);
	return true;
}

/* ---- starts ---- */

/* What is missing of the descriptors that this plan needs, or NULL. */
static const char *missing_descriptor(const struct plan_head *plan, const int fds[MEMBER_FDS])
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

const char *leader_pool_reject(const struct leader_pool *p, const struct plan_head *plan, const int fds[MEMBER_FDS])
{
	struct err e = ERR_INIT;
	if (!plan || plan_check(plan, p->buffer->msg.plan_len, &e) < 0 || !(plan->flags & PLAN_MEMBER))
		return "plan";
	const char *missing = missing_descriptor(plan, fds);
	return missing ? missing : plan_fits_holder(p->plan, plan) ? NULL : "the plan is for another sandbox";
}

bool leader_pool_is_plain(const struct leader_pool *p, const struct plan_head *plan, const int fds[MEMBER_FDS])
{
	return (const void *)plan == p->buffer->plan && !(plan->flags & PLAN_TTY) && fds[MEMBER_FD_LIMITS] < 0;
}

void leader_fail_member(int status_fd, int error, const char *what)
{
	struct status_msg m = { .kind = STATUS_FAILED, .step = STEP_CLONE, .error = error };
	snprintf(m.path, sizeof m.path, "%s", what);
	(void)!fd_send(status_fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void leader_finish_status(int status_fd)
{
	char byte;
	shutdown(status_fd, SHUT_RD);
	do
		errno = 0;
	while (recv(status_fd, &byte, 1, MSG_DONTWAIT) > 0 || errno == EINTR);
}

int leader_deposit(const int deposit[2], const struct plan_key *key, int status_fd)
{
	return fd_send(deposit[1], key, sizeof *key, &status_fd, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool leader_deposit_exists(int fd, struct plan_key *ret)
{
	*ret = (struct plan_key){ 0 };
	ssize_t n = recv(fd, ret, sizeof *ret, MSG_PEEK | MSG_DONTWAIT);
	return n > 0 || (n < 0 && errno != EAGAIN);
}

int leader_deposit_take(int fd, int *ret_status_fd)
{
	struct plan_key key;
	size_t n = 1;
	ssize_t got = fd_recv(fd, &key, sizeof key, ret_status_fd, &n, MSG_DONTWAIT);
	return got < 0 && errno != EAGAIN ? -1 : 0;
}

/* ---- in the leader ---- */

static void lead_member(const struct leader *l, const struct plan_head *plan, int fds[MEMBER_FDS],
			uint64_t leader_start, bool keep)
{
	struct init *in = l->pool->in;
	struct step_context *c = &in->steps;
	c->status_fd = fds[MEMBER_FD_STATUS];
	c->gate_fd = fds[MEMBER_FD_GATE];
	c->stdout_fd = fds[MEMBER_FD_OUT];
	c->stderr_fd = fds[MEMBER_FD_ERR];
	c->stdin_fd = fds[MEMBER_FD_IN];
	init_set_plan(in, plan);
	if (!leader_start && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		init_fail(in, STEP_CLONE, errno);
	if (fds[MEMBER_FD_LIMITS] >= 0 && member_join(in, fds[MEMBER_FD_LIMITS]) < 0)
		init_fail(in, STEP_LIMITS, errno);
	fd_close(&fds[MEMBER_FD_LIMITS]);
	if (step_terminal(c) < 0)
		init_fail(in, STEP_TERMINAL, errno);
	command_run(in, &(struct command_run){ .session = AUDIT_NO_SESSION,
					       .signal_fd = l->pool->signal_fd,
					       .leader_start = leader_start,
					       .again = leader_start,
					       .keep = keep });
	if (!in->kept)
		_exit(0); /* the holder closes the status socket */
}

static void close_status(const struct leader *l)
{
	int *status_fd = &l->pool->in->steps.status_fd;
	struct plan_key key;
	leader_finish_status(*status_fd);
	if (recv(l->deposit[0], &key, sizeof key, MSG_DONTWAIT) < 0) /* closes the copy */
		_exit(0);
	fd_close(status_fd);
}

/* Gives the message to the holder. */
static void forward_message(const struct leader_pool *p, const int fds[MEMBER_FDS])
{
	const struct member_msg *m = &p->buffer->msg;
	const void *plan = fds[MEMBER_FD_PLAN] < 0 ? p->buffer->plan : NULL;
	struct pollfd writable = { .fd = p->forward[1], .events = POLLOUT };
	while ((m->kind == MEMBER_START ? member_msg_send_start(p->forward[1], &m->key, plan, m->plan_len, fds)
					: member_msg_send_kill(p->forward[1], &m->key)) < 0) {
		if (errno == EAGAIN)
			poll(&writable, 1, -1);
		else if (errno == ENOBUFS || errno == ENOMEM)
			poll(NULL, 0, 1);
		else if (m->kind == MEMBER_START) /* ETOOMANYREFS: members can keep it from ever sending descriptors */
			return leader_fail_member(fds[MEMBER_FD_STATUS], errno, "");
		else
			_exit(1);
	}
}

/* True if members of this leader inherit what they would inherit from a new one. */
static bool is_like_new(const struct leader_pool *p)
{
	struct inherited now;
	return inherited_read(0, &now) == 0 && memcmp(&now, &p->own, sizeof now) == 0;
}

/* True if the message is a start for this leader; false if it is done with. */
static bool take_start(const struct leader *l, const struct plan_head *plan, int fds[MEMBER_FDS])
{
	struct leader_pool *p = l->pool;
	const struct member_msg *m = &p->buffer->msg;
	const int status_fd = fds[MEMBER_FD_STATUS];
	unsigned most;
	if (m->kind != MEMBER_START || (plan && !leader_pool_is_plain(p, plan, fds))) {
		forward_message(p, fds);
		if (m->kind == MEMBER_START && !has_room(p, &most))
			_exit(0); /* a command is about to run */
		return false;
	}
	const char *reject = leader_pool_reject(p, plan, fds);
	if (!reject && leader_deposit(l->deposit, &m->key, status_fd) == 0) {
		atomic_fetch_add(&p->shared->starts, 1);
		return true;
	}
	leader_fail_member(status_fd, reject ? EINVAL : errno, reject ? reject : "");
	return false;
}

/* Receives a message, after which this leader is not idle. Exits if there is none for it. */
static const void *receive_message(const struct leader *l, int wait_fd, int fds[MEMBER_FDS])
{
	struct leader_pool *p = l->pool;
	const void *plan = NULL;
	struct epoll_event e;
	int r = 0;
	while (r == 0) {
		int n = epoll_wait(wait_fd, &e, 1, IDLE_MS);
		if (n < 0 && errno == EINTR)
			continue;
		/* The holder reads the link once this process is gone. */
		r = n > 0 && is_like_new(p) ? member_msg_receive(p->link, MSG_DONTWAIT, p->buffer, fds, &plan) : -1;
	}
	leader_pool_remove(p, l->slot);
	if (r < 0)
		_exit(0);
	return plan;
}

/* Waits for a start. Idle when it is called. */
static const struct plan_head *wait_for_start(const struct leader *l, int wait_fd, int fds[MEMBER_FDS])
{
	struct leader_pool *p = l->pool;
	for (;;) {
		const void *plan = receive_message(l, wait_fd, fds);
		if (take_start(l, plan, fds)) {
			fd_close(&fds[MEMBER_FD_PLAN]);
			return plan;
		}
		if (plan && plan != p->buffer->plan)
			munmap((void *)plan, p->buffer->msg.plan_len);
		for (int i = 0; i < MEMBER_FDS; i++)
			fd_close(&fds[i]);
		if (!become_idle(l))
			_exit(0);
	}
}

static int open_wait(const struct leader_pool *p)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLEXCLUSIVE };
	int fd = epoll_create1(EPOLL_CLOEXEC);
	return fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, p->link, &e) < 0 ? -1 : fd;
}

_Noreturn void leader_run(const struct leader *l, const struct plan_head *plan, int fds[MEMBER_FDS])
{
	struct init *in = l->pool->in;
	uint64_t start = 0;
	int wait_fd = -1;
	in->leader = true;
	process_title_set(in->title, "bailiffd: leader");
	for (uint32_t led = 1;; led++) {
		lead_member(l, plan, fds, start,
			    l->slot >= 0 && led < COMMAND_RUN_MAX && in->title->size >= EARLIER_USE_MAX);
		if (!start)
			start = proc_start_time(getpid());
		if (wait_fd < 0)
			wait_fd = open_wait(l->pool);
		/* Before the end of the status socket: a start that is sent after that finds an idle leader. */
		bool idle = start && wait_fd >= 0 && become_idle(l);
		close_status(l);
		if (!idle)
			_exit(0);
		plan = wait_for_start(l, wait_fd, fds);
	}
}
