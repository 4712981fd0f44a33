#include "supervisor/spawner/holder.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/autorun.h"
#include "sandbox/plan.h"
#include "sandbox/status.h"
#include "sandbox/steps/step.h"
#include "supervisor/spawner/command_run.h"
#include "supervisor/spawner/descendants.h"
#include "supervisor/spawner/dialer.h"
#include "supervisor/spawner/inherited.h"
#include "supervisor/spawner/init.h"
#include "supervisor/spawner/leader.h"
#include "supervisor/spawner/member_msg.h"
#include "supervisor/spawner/mount_watch.h"
#include "supervisor/spawner/placeholder_helper.h"
#include "supervisor/spawner/resolver_answer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEADERS_MAX 512u
#define REAP_MAX 64
#define KILL_MS 10000u
#define ORPHANS_MS 2 /* pause between two attempts to kill what a dead leader left */

struct known_leader {
	pid_t pid;
	int slot;       /* −1 = it exits with its member */
	int deposit_fd; /* has the status socket of its member, if one runs */
	bool lost;      /* it is dead and has not reported the end of its member */
	int status_fd;  /* then: of that member; −1 = not taken yet */
};

struct holder {
	struct init *in;
	struct leader_pool pool;
	struct known_leader leader[LEADERS_MAX];
	size_t count;
	uint64_t slots;            /* that leaders have: bits 1 << slot */
	bool link_unread;          /* leaders that were woken for messages may have died before they took them */
	bool orphans;              /* children that are not leaders may exist */
	uint64_t orphans_until_ms; /* when the sandbox is ended because of them; 0 = not begun */
	struct resolver_names names;
	uint64_t named_starts; /* starts of idle leaders when `names` was last emptied */
	struct port_watch ports;
	struct mount_watch mounts;
};

static size_t leaders_of(const struct holder *h, pid_t ret[LEADERS_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i < h->count; i++) {
		if (!h->leader[i].lost)
			ret[n++] = h->leader[i].pid;
	}
	return n;
}

static bool runs_member(const struct known_leader *l)
{
	struct plan_key key;
	return l->lost || leader_deposit_exists(l->deposit_fd, &key);
}

/* It is dead, and nothing is left of its member. */
static void remove_leader(struct holder *h, size_t i)
{
	struct known_leader *l = &h->leader[i];
	if (l->status_fd >= 0)
		leader_finish_status(l->status_fd);
	fd_close(&l->status_fd);
	fd_close(&l->deposit_fd);
	*l = h->leader[--h->count];
	atomic_store(&h->pool.shared->leaders, (uint32_t)h->count);
}

/* For a member whose leader was killed: reports it as killed, once nothing of its tree is left. */
static void report_lost(struct holder *h)
{
	for (size_t i = 0; i < h->count;) {
		const struct status_msg m = {
			.kind = STATUS_EXITED,
			.wait_status = SIGKILL,
			/* Only its leader could have compared them. */
			.autorun = autorun_applies(h->in->steps.plan) ? AUTORUN_FAILED : AUTORUN_NONE,
		};
		struct known_leader *l = &h->leader[i];
		if (!l->lost) {
			i++;
			continue;
		}
		/* Sent before the socket closes: a socket that closes without a last message means that this init died.
		 */
		if ((l->status_fd < 0 && leader_deposit_take(l->deposit_fd, &l->status_fd) < 0) ||
		    (l->status_fd >= 0 &&
		     fd_send(l->status_fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
		     (fd_recv_again(errno) || errno == ENOBUFS || errno == ENOMEM))) {
			h->orphans = true; /* tries again */
			i++;
			continue;
		}
		remove_leader(h, i);
	}
}

/*
 * A member can stop a leader, which would neither enforce its limits nor report its end any longer: such a leader is
 * killed.
 */
static void on_child(struct holder *h, pid_t pid, int status)
{
	for (size_t i = 0; i < h->count; i++) {
		struct known_leader *l = &h->leader[i];
		if (l->pid != pid || l->lost)
			continue;
		if (WIFSTOPPED(status)) {
			kill(pid, SIGKILL);
			return;
		}
		if (l->slot >= 0) {
			leader_pool_remove(&h->pool, l->slot);
			h->slots &= ~(UINT64_C(1) << l->slot);
			h->link_unread = true;
		}
		if (runs_member(l) && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
			l->lost = true;
			h->orphans = true;
			return;
		}
		(void)!leader_deposit_take(l->deposit_fd, &l->status_fd);
		remove_leader(h, i);
		return;
	}
}

/* Returns true if there may be more. */
static bool reap_children(struct holder *h)
{
	int status, n = 0;
	for (pid_t pid; n < REAP_MAX && (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0; n++)
		on_child(h, pid, status);
	return n == REAP_MAX;
}

/*
 * Kills what dead leaders left. Killed processes are reaped by the loop, which then calls this again. False: they fork
 * faster than they can be found; only the end of the sandbox ends them for certain.
 */
static bool kill_orphans(struct holder *h)
{
	pid_t leaders[LEADERS_MAX];
	size_t n = leaders_of(h, leaders);
	if (descendants_kill(getpid(), leaders, n)) {
		if (!h->orphans_until_ms)
			h->orphans_until_ms = clock_boot_ms() + KILL_MS;
		return clock_boot_ms() < h->orphans_until_ms;
	}
	h->orphans_until_ms = 0;
	h->orphans = false;
	report_lost(h);
	return true;
}

/* In the child: gives up the holder's descriptors and leads the member. */
static _Noreturn void lead(struct holder *h, const struct leader *l, const struct plan_head *plan, int fds[MEMBER_FDS])
{
	struct step_context *c = &h->in->steps;
	for (size_t i = 0; i < h->count; i++) {
		fd_close(&h->leader[i].status_fd);
		fd_close(&h->leader[i].deposit_fd);
	}
	fd_close(&h->pool.forward[0]);
	fd_close(&h->ports.dialer_fd);
	fd_close(&c->status_fd);
	fd_close(&c->resolver_fd);
	c->oom_fd = -1; /* the holder's own */
	c->placeholder_fd = -1;
	leader_run(l, plan, fds);
}

/* A slot for a leader that can be idle after this member; −1 = it exits. */
static int find_slot(struct holder *h, bool plain)
{
	if (!plain || !~h->slots || inherited_read(0, &h->pool.own) < 0)
		return -1;
	return __builtin_ctzll(~h->slots);
}

/* Forks a leader for the member, whose status socket is deposited first. 0, or an errno. */
static int fork_leader(struct holder *h, const struct plan_head *plan, int fds[MEMBER_FDS])
{
	struct leader l = { .pool = &h->pool, .slot = find_slot(h, leader_pool_is_plain(&h->pool, plan, fds)) };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, l.deposit) < 0)
		return errno;
	fd_auto int deposit_fd = l.deposit[0], leaders_end = l.deposit[1];
	if (leader_deposit(l.deposit, &h->pool.buffer->msg.key, fds[MEMBER_FD_STATUS]) < 0)
		return errno;
	init_set_oom_score(h->in, "200");
	pid_t pid = fork();
	if (pid == 0)
		lead(h, &l, plan, fds);
	int error = errno;
	fd_close(&leaders_end);
	init_set_oom_score(h->in, "0");
	if (pid < 0)
		return error;
	if (l.slot >= 0)
		h->slots |= UINT64_C(1) << l.slot;
	h->leader[h->count++] = (struct known_leader){
		.pid = pid, .slot = l.slot, .deposit_fd = fd_take(&deposit_fd), .status_fd = -1
	};
	atomic_store(&h->pool.shared->leaders, (uint32_t)h->count);
	return 0;
}

static void start_member(struct holder *h, const struct plan_head *plan, int fds[MEMBER_FDS])
{
	const int status_fd = fds[MEMBER_FD_STATUS];
	if (status_fd < 0)
		return;
	const char *reject = leader_pool_reject(&h->pool, plan, fds);
	if (reject) {
		leader_fail_member(status_fd, EINVAL, reject);
		return;
	}
	if (h->count == LEADERS_MAX) {
		leader_fail_member(status_fd, EAGAIN, "members of the sandbox");
		return;
	}
	h->names.count = 0; /* each command's lookups are reported */
	int error = fork_leader(h, plan, fds);
	if (error)
		leader_fail_member(status_fd, error, "");
}

static void kill_member(const struct holder *h, const struct plan_key *key)
{
	for (size_t i = 0; i < h->count; i++) {
		const struct known_leader *l = &h->leader[i];
		struct plan_key runs;
		if (!l->lost && leader_deposit_exists(l->deposit_fd, &runs) && memcmp(&runs, key, sizeof runs) == 0)
			kill(l->pid, SIGKILL);
	}
}

/*
 * Takes one message of the link, or one that a leader has forwarded. False: it cannot be received, so the starts in the
 * link would never be answered.
 */
static bool receive_member(struct holder *h, int fd)
{
	struct member_msg_buffer *buffer = h->pool.buffer;
	int fds[MEMBER_FDS];
	const void *plan = NULL;
	int r = member_msg_receive(fd, MSG_DONTWAIT, buffer, fds, &plan);
	if (r < 0 && errno)
		return false;
	if (r < 0)
		fd_close(&h->pool.link); /* no more members; the status socket decides about the sandbox */
	if (r <= 0)
		return true;
	if (buffer->msg.kind == MEMBER_START)
		start_member(h, plan, fds);
	else if (buffer->msg.kind == MEMBER_KILL)
		kill_member(h, &buffer->msg.key);
	if (plan && plan != buffer->plan)
		munmap((void *)plan, buffer->msg.plan_len);
	for (int i = 0; i < MEMBER_FDS; i++)
		fd_close(&fds[i]);
	return true;
}

/* A request to end the sandbox: KILL_TREE, or a signal that ends a command. False = the request is something else. */
static bool ends_sandbox(struct holder *h)
{
	struct status_msg m;
	fd_auto int fd = -1;
	size_t nfds = 1;
	ssize_t n = fd_recv(h->in->steps.status_fd, &m, sizeof m, &fd, &nfds, MSG_DONTWAIT);
	if (n == 0)
		_exit(1);
	if (n < (ssize_t)STATUS_MSG_LEAST)
		return false;
	port_watch_take(&h->ports, &m, &fd);
	return m.kind == STATUS_KILL_TREE || (m.kind == STATUS_SIGNAL && (m.signal == SIGTERM || m.signal == SIGHUP ||
									  m.signal == SIGINT || m.signal == SIGKILL));
}

/* Kills and reaps everything in the sandbox. Members get their end with the end of their status sockets. */
static uint32_t kill_all(struct holder *h)
{
	uint32_t left = 0;
	for (size_t i = 0; i < h->count; i++)
		left += runs_member(&h->leader[i]);
	do
		kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR);
	for (size_t i = 0; i < h->count; i++)
		h->leader[i].lost = true;
	report_lost(h);
	return left;
}

/* Refuses lookups. Names are reported once for each command, as far as it is known when one has started. */
static void answer_lookups(struct holder *h)
{
	uint64_t starts = atomic_load(&h->pool.shared->starts);
	if (starts != h->named_starts)
		h->names.count = 0;
	h->named_starts = starts;
	resolver_answer(&h->in->steps, &h->names);
}

static bool link_has_message(const struct holder *h)
{
	char byte;
	return h->pool.link >= 0 && recv(h->pool.link, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static bool read_link(struct holder *h, bool readable)
{
	while (h->link_unread && link_has_message(h)) {
		if (!receive_member(h, h->pool.link))
			return false;
	}
	h->link_unread = false;
	return !readable || h->pool.link < 0 || !leader_pool_is_for_holder(&h->pool) || receive_member(h, h->pool.link);
}

static void serve(struct holder *h)
{
	const struct step_context *c = &h->in->steps;
	for (bool more = false;;) {
		/* Without a leader there is no command, and nothing can begin to listen. */
		bool watches = h->count || h->ports.listening.ports.count;
		struct pollfd p[] = {
			{ .fd = h->pool.signal_fd, .events = POLLIN },
			{ .fd = c->status_fd, .events = POLLIN },
			{ .fd = c->guard_pidfd, .events = POLLIN },
			{ .fd = c->resolver_fd, .events = POLLIN },
			{ .fd = h->pool.link < 0 ? -1 : h->pool.link_watch, .events = POLLIN },
			{ .fd = h->ports.dialer_fd, .events = POLLIN },
			{ .fd = h->mounts.fd, .events = POLLPRI },
			{ .fd = h->pool.forward[0], .events = POLLIN },
		};
		int timeout = more ? 0 : h->orphans ? ORPHANS_MS : -1;
		if (poll(p, countof(p), watches ? port_watch_timeout(&h->ports, timeout) : timeout) < 0)
			continue;
		if (p[2].revents)
			_exit(1);
		if (p[6].revents && !mount_watch_is_intact(&h->mounts))
			return;
		if (more || p[0].revents) {
			struct signalfd_siginfo info;
			(void)!read(h->pool.signal_fd, &info, sizeof info);
			more = reap_children(h);
		}
		if (h->orphans && !kill_orphans(h))
			return;
		if (p[1].revents && ends_sandbox(h))
			return;
		if (p[3].revents)
			answer_lookups(h);
		if (p[7].revents && !receive_member(h, h->pool.forward[0]))
			return;
		if (!read_link(h, p[4].revents))
			return;
		port_watch_run(&h->ports, p[5].revents, c->status_fd);
	}
}

_Noreturn void holder_run(struct init *in, uint32_t session)
{
	struct step_context *c = &in->steps;
	const struct status_msg ready = { .kind = STATUS_READY, .layers = c->layers, .session = session };
	const struct status_msg execed = { .kind = STATUS_EXECED };
	struct holder *h = mem_zalloc(1, sizeof *h);
	h->in = in;
	port_watch_init(&h->ports, in->steps.plan->network != PLAN_NET_HOST);
	c->core_fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC); /* read again for each member */
	/* Without a /proc of the sandbox's own, the tree of a single member could not be found. */
	if (!(c->layers & PLAN_LAYER_MOUNTS))
		init_fail(in, STEP_PROC, EOPNOTSUPP);
	if (mount_watch_init(&h->mounts) < 0)
		init_fail(in, STEP_PROC, errno);
	if (leader_pool_init(&h->pool, in, &c->stdin_fd) < 0)
		init_fail(in, STEP_CLONE, errno);
	init_send_status(c->status_fd, &ready, c->listen_fd, -1);
	fd_close(&c->listen_fd);
	fd_close(&c->stdout_fd);
	fd_close(&c->stderr_fd);
	if (step_gate(c) < 0)
		init_fail(in, STEP_GATE, errno);
	fd_close(&c->gate_fd);
	init_send_status(c->status_fd, &execed, -1, -1);
	serve(h);
	struct status_msg m = { .kind = STATUS_EXITED, .left_behind = kill_all(h) };
	placeholder_helper_finish(c->placeholder_fd);
	tree_files_read(&c->tree, &m.count);
	m.oom_kills = m.count.oom_kills;
	m.pids_refused = m.count.pids_refused;
	init_send_status(c->status_fd, &m, -1, -1);
	_exit(0);
}
