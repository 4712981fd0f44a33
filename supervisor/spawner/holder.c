#include "supervisor/spawner/holder.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/audit.h"
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMBERS_MAX 512u
#define REAP_MAX 64
#define KILL_MS 10000u
#define ORPHANS_MS 2 /* pause between two attempts to kill what a dead leader left */
#define IDLE_MAX 8u  /* leaders that wait for another member */
#define IDLE_MS 4000u
#define IDLE_SHARE 1024u /* of a limit on processes */
#define BUSY_MS 20       /* after the last start */
#define LEADERS_MAX (MEMBERS_MAX + IDLE_MAX)
#define START_CHECK_MS 250 /* between two checks of starts that take long */
#define STOPS_MAX 8u       /* checks in a row that find the process of a start stopped */
#define WAITS_MAX 40u      /* checks in a row that find a leader waiting for a file system */

struct member {
	struct plan_key key;
	pid_t leader;
	int leader_fd;      /* to its leader, if that can lead another member afterwards; −1 = it exits */
	int status_fd;      /* a copy: the leader may die without a report */
	bool lost;          /* its leader is dead and has not reported the end */
	uint16_t flag;      /* of its leader, in holder.state */
	bool late;          /* an earlier check has found that it was not executed yet */
	bool stopped;       /* so did the last one, and its process was stopped */
	uint8_t stops;      /* how many checks in a row */
	uint8_t waits;      /* … found its leader in LEADER_CHECKING_PATHS */
	uint64_t oom_kills; /* in the sandbox before it */
};

struct idle_leader {
	pid_t pid;
	int fd;
	uint16_t flag;
	uint64_t until_ms; /* when it is told to exit */
};

struct holder {
	struct init *in;
	int signal_fd;
	struct member member[MEMBERS_MAX];
	size_t count;
	struct idle_leader idle[IDLE_MAX]; /* without children; the last one is used first */
	size_t idle_count;
	struct leader_state *state; /* shared with the leaders, one for each */
	bool flag_used[LEADERS_MAX];
	uint64_t check_ms;         /* the next check of starts; 0 = none is due */
	bool busy;                 /* starts follow each other: done leaders are looked for when one is needed */
	struct inherited own;      /* what new leaders have; commands cannot change the holder's */
	bool orphans;              /* children that are not leaders may exist */
	uint64_t orphans_until_ms; /* when the sandbox is ended because of them; 0 = not begun */
	struct resolver_names names;
	struct port_watch ports;
	struct member_msg_buffer *buffer;
	struct mount_watch mounts;
	struct status_msg end; /* the cause of the sandbox's end, with its path */
};

static size_t leaders_of(const struct holder *h, pid_t ret[LEADERS_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i < h->count; i++) {
		if (!h->member[i].lost)
			ret[n++] = h->member[i].leader;
	}
	for (size_t i = 0; i < h->idle_count; i++)
		ret[n++] = h->idle[i].pid;
	return n;
}

/*
 * The last copy of the socket: the leader is dead. If a request were left unread in it, the runtime's end would report
 * an error instead of the end of file, which libevent's EV_CLOSED does not see. So none may arrive, and none is left.
 */
static void remove_member(struct holder *h, size_t i)
{
	int *status_fd = &h->member[i].status_fd;
	char byte;
	fd_close(&h->member[i].leader_fd);
	shutdown(*status_fd, SHUT_RD);
	do
		errno = 0;
	while (recv(*status_fd, &byte, 1, MSG_DONTWAIT) > 0 || errno == EINTR);
	fd_close(status_fd);
	h->flag_used[h->member[i].flag] = false;
	h->member[i] = h->member[--h->count];
}

static void remove_idle(struct holder *h, size_t i)
{
	fd_close(&h->idle[i].fd); /* a leader that is alive exits */
	h->flag_used[h->idle[i].flag] = false;
	h->idle_count--;
	memmove(&h->idle[i], &h->idle[i + 1], (h->idle_count - i) * sizeof h->idle[0]);
}

/* True if the leader of the member has reported its end, and waits for another member. */
static bool leader_is_done(struct holder *h, size_t i)
{
	char byte;
	if (h->member[i].leader_fd < 0)
		return false;
	ssize_t n = recv(h->member[i].leader_fd, &byte, 1, MSG_DONTWAIT);
	if (n == 0 || (n < 0 && !fd_recv_again(errno)))
		fd_close(&h->member[i].leader_fd); /* it exits, which SIGCHLD reports */
	return n == 1;
}

/*
 * How many leaders may be idle. They count for the sandbox's limits, which are for its commands. So they take at most a
 * small part of a limit on processes; where that is less than one, and with a limit on memory, only one is kept, and
 * only while no command runs.
 */
static size_t idle_max(const struct holder *h)
{
	const uint64_t *limit = h->in->steps.plan->limits.value;
	uint64_t most = limit[PLAN_LIMIT_PIDS] ? limit[PLAN_LIMIT_PIDS] / IDLE_SHARE : IDLE_MAX;
	if (limit[PLAN_LIMIT_MEMORY] || limit[PLAN_LIMIT_MEMORY_HIGH])
		most = 0;
	if (!most)
		return h->count ? 0 : 1;
	return most < IDLE_MAX ? (size_t)most : IDLE_MAX;
}

static void keep_leader(struct holder *h, size_t i)
{
	struct idle_leader idle = { .pid = h->member[i].leader,
				    .fd = fd_take(&h->member[i].leader_fd),
				    .flag = h->member[i].flag,
				    .until_ms = clock_boot_ms() + IDLE_MS };
	remove_member(h, i);
	if (h->idle_count >= idle_max(h)) {
		fd_close(&idle.fd);
		return;
	}
	h->flag_used[idle.flag] = true;
	h->idle[h->idle_count++] = idle;
}

/* Before a start. A member that ended soon is one of the newest. */
static void find_done_leader(struct holder *h)
{
	for (size_t i = h->count; i-- > 0 && !h->idle_count;) {
		if (leader_is_done(h, i))
			keep_leader(h, i);
	}
}

static uint64_t count_oom_kills(const struct holder *h)
{
	struct tree_count count = { 0 };
	if (h->in->steps.plan->limits.value[PLAN_LIMIT_MEMORY])
		tree_files_read_denials(&h->in->steps.tree, &count);
	return count.oom_kills;
}

/* Reports members whose leader was killed, alone or with the sandbox, once nothing of their trees is left. */
static void report_lost(struct holder *h)
{
	struct status_msg m = h->end;
	const uint64_t oom_kills = count_oom_kills(h);
	m.wait_status = SIGKILL;
	/* Only its leader could have compared them. */
	m.autorun = autorun_applies(h->in->steps.plan) ? AUTORUN_FAILED : AUTORUN_NONE;
	for (size_t i = 0; i < h->count;) {
		if (!h->member[i].lost) {
			i++;
			continue;
		}
		m.oom_kills = oom_kills - h->member[i].oom_kills;
		/* Sent before the socket closes: one that closes without a last message means that this init died. */
		if (fd_send(h->member[i].status_fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
		    (fd_recv_again(errno) || errno == ENOBUFS || errno == ENOMEM)) {
			h->orphans = true; /* tries again */
			i++;
			continue;
		}
		remove_member(h, i);
	}
}

/* The leader of this member has ended. */
static void note_hidden(struct holder *h, size_t i)
{
	const struct leader_state *s = &h->state[h->member[i].flag];
	if (s->stage != LEADER_FOUND_PATH)
		return;
	h->end.cause = STATUS_CAUSE_HIDDEN;
	mount_watch_path(&h->mounts, s->hidden, h->end.path, sizeof h->end.path);
}

/*
 * A member can stop a leader, which would neither enforce its limits nor report its end any longer: such a leader is
 * killed.
 */
static void on_child(struct holder *h, pid_t pid, int status)
{
	for (size_t i = 0; i < h->count; i++) {
		if (h->member[i].leader != pid || h->member[i].lost)
			continue;
		if (WIFSTOPPED(status)) {
			kill(pid, SIGKILL);
			return;
		}
		note_hidden(h, i);
		if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) || leader_is_done(h, i)) {
			remove_member(h, i);
			return;
		}
		h->member[i].lost = true;
		h->orphans = true;
		/* What killed it may have killed the others, too; a member is not given to one that is dying. */
		while (h->idle_count)
			remove_idle(h, 0);
		return;
	}
	for (size_t i = 0; i < h->idle_count; i++) {
		if (h->idle[i].pid != pid)
			continue;
		if (WIFSTOPPED(status))
			kill(pid, SIGKILL);
		remove_idle(h, i);
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

static void continue_stopped(void *ctx, int process_fd, const char *stat)
{
	struct holder *h = ctx;
	const char *p = strrchr(stat, ')'); /* then " T PARENT" */
	if (!p || strlen(p) < 4 || p[2] != 'T')
		return;
	pid_t parent = (pid_t)strtol(p + 4, NULL, 10);
	for (size_t i = 0; i < h->count; i++) {
		struct member *m = &h->member[i];
		if (m->leader != parent || m->lost || !h->state[m->flag].stage)
			continue;
		m->stopped = true;
		fd_pidfd_signal(process_fd, ++m->stops < STOPS_MAX ? SIGCONT : SIGKILL);
		return;
	}
}

static bool is_starting(const struct holder *h)
{
	for (size_t i = 0; i < h->count; i++) {
		if (!h->member[i].lost && h->state[h->member[i].flag].stage)
			return true;
	}
	return false;
}

static void fail_member(int status_fd, enum sandbox_step step, int error, const char *what)
{
	struct status_msg m = { .kind = STATUS_FAILED, .step = step, .error = error };
	snprintf(m.path, sizeof m.path, "%s", what);
	(void)!fd_send(status_fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The leader may be beyond the reach of signals until the file system answers or is gone. Its member has failed. */
static void limit_wait(struct holder *h, struct member *m)
{
	char path[61], why[STATUS_CAUSE_TEXT]; /* the end of a long path */
	if (h->state[m->flag].stage != LEADER_CHECKING_PATHS || m->lost || m->waits == WAITS_MAX ||
	    ++m->waits < WAITS_MAX)
		return;
	mount_watch_path(&h->mounts, h->state[m->flag].hidden, path, sizeof path);
	snprintf(why, sizeof why, "the file system of the hidden path %s does not answer", path);
	fail_member(m->status_fd, STEP_CLONE, 0, why);
	kill(m->leader, SIGKILL);
}

/*
 * Until exec the command's process shares the memory of its leader, which sleeps meanwhile (vfork). A member can stop
 * that process, and then neither of the two reacts to anything. So it is continued, and killed if that does not help:
 * its leader wakes up then and reports a failed step. A leader that waits for the exec has no other child.
 */
static void check_starts(struct holder *h)
{
	bool late = false;
	for (size_t i = 0; i < h->count; i++) {
		struct member *m = &h->member[i];
		late |= m->late;
		m->late = !m->lost && h->state[m->flag].stage;
		m->stops = m->stopped ? m->stops : 0;
		m->stopped = false;
		limit_wait(h, m);
	}
	if (late)
		(void)descendants_each(getpid(), NULL, 0, continue_stopped, h);
	h->check_ms = is_starting(h) ? clock_boot_ms() + START_CHECK_MS : 0;
}

/* Returns the timeout, shortened to the moment of the next check. */
static int check_late_starts(struct holder *h, int timeout)
{
	uint64_t now = h->check_ms ? clock_boot_ms() : 0;
	if (h->check_ms && now >= h->check_ms)
		check_starts(h);
	if (!h->check_ms)
		return timeout;
	int left = h->check_ms > now ? (int)(h->check_ms - now) : 0;
	return timeout < 0 || left < timeout ? left : timeout;
}

/* A member of the leader with this flag begins. */
static void begin_start(struct holder *h, uint16_t flag)
{
	h->state[flag].stage = LEADER_CHECKING_PATHS;
	h->flag_used[flag] = true;
	if (!h->check_ms)
		h->check_ms = clock_boot_ms() + START_CHECK_MS;
}

/* In the child: gives up the holder's descriptors and leads the member. */
static _Noreturn void lead(struct holder *h, const struct plan_head *plan, int fds[MEMBER_FDS],
			   const struct leader *leader)
{
	struct step_context *c = &h->in->steps;
	for (size_t i = 0; i < h->count; i++) {
		fd_close(&h->member[i].status_fd);
		fd_close(&h->member[i].leader_fd);
	}
	for (size_t i = 0; i < h->idle_count; i++)
		fd_close(&h->idle[i].fd);
	for (unsigned i = 0; i < c->host_roots; i++)
		fd_close(&c->host_root_fd[i]);
	fd_close(&h->ports.dialer_fd);
	fd_close(&c->stdin_fd);
	fd_close(&c->status_fd);
	fd_close(&c->resolver_fd);
	c->oom_fd = c->placeholder_fd = -1; /* the holder's own */
	leader_run(leader, plan, fds);
}

/* True if members of this leader inherit what they would inherit from a new one. */
static bool is_like_new(struct holder *h, pid_t leader)
{
	struct inherited now;
	if (inherited_read(leader, &now) < 0)
		return false;
	if (memcmp(&now, &h->own, sizeof now) == 0)
		return true;
	/* The host can have changed all of them. */
	return inherited_read(0, &h->own) == 0 && memcmp(&now, &h->own, sizeof now) == 0;
}

/* The member of the message that was received last, with descriptors that the holder keeps. */
static void add_member(struct holder *h, pid_t leader, int *leader_fd, uint16_t flag, int *status_fd)
{
	h->member[h->count++] = (struct member){ .key = h->buffer->msg.key,
						 .leader = leader,
						 .leader_fd = fd_take(leader_fd),
						 .flag = flag,
						 .status_fd = fd_take(status_fd),
						 .oom_kills = count_oom_kills(h) };
}

/* Gives the member to a leader that waits for one. The holder has checked the plan, which is in the message. */
static bool start_with_idle(struct holder *h, const struct plan_head *plan, int fds[MEMBER_FDS])
{
	const struct member_msg *m = &h->buffer->msg;
	while (h->idle_count) {
		struct idle_leader *idle = &h->idle[h->idle_count - 1];
		begin_start(h, idle->flag);
		if (!is_like_new(h, idle->pid) ||
		    member_msg_send_start(idle->fd, &m->key, plan, m->plan_len, fds) < 0) {
			remove_idle(h, h->idle_count - 1);
			continue;
		}
		add_member(h, idle->pid, &idle->fd, idle->flag, &fds[MEMBER_FD_STATUS]);
		h->idle_count--;
		return true;
	}
	return false;
}

/* Before a member starts: if the sandbox is not what it was, both end with the reason, which is returned. */
static enum status_cause check_places(struct holder *h, int status_fd)
{
	if (mount_watch_is_in_place(&h->mounts, h->end.path, sizeof h->end.path))
		return STATUS_CAUSE_NONE;
	h->end.cause = STATUS_CAUSE_MOUNTS;
	(void)!fd_send(status_fd, &h->end, sizeof h->end, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT);
	return STATUS_CAUSE_MOUNTS;
}

static void start_member(struct holder *h, const struct plan_head *plan, int fds[MEMBER_FDS])
{
	struct init *in = h->in;
	const struct member_msg *m = &h->buffer->msg;
	struct err e = ERR_INIT;
	int status = fds[MEMBER_FD_STATUS];
	if (status < 0)
		return;
	if (!plan || plan_check(plan, m->plan_len, &e) < 0 || !(plan->flags & PLAN_MEMBER)) {
		fail_member(status, STEP_CLONE, EINVAL, "plan");
		return;
	}
	const char *missing = member_msg_missing(plan, fds);
	if (missing || !plan_fits_holder(in->steps.plan, plan)) {
		fail_member(status, STEP_CLONE, EINVAL, missing ? missing : "the plan is for another sandbox");
		return;
	}
	if (h->count == MEMBERS_MAX) {
		fail_member(status, STEP_CLONE, EAGAIN, "members of the sandbox");
		return;
	}
	h->names.count = 0; /* each command's lookups are reported */
	h->busy = true;
	/* A terminal and cgroups of its own stay with the leader. */
	bool plain = !(plan->flags & PLAN_TTY) && fds[MEMBER_FD_LIMITS] < 0 && (const void *)plan == h->buffer->plan;
	if (plain && start_with_idle(h, plan, fds))
		return;
	fd_auto int holder_fd = -1, leader_fd = -1;
	int pair[2];
	if (plain && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
		holder_fd = pair[0];
		leader_fd = pair[1];
	}
	/* There are as many flags as leaders can be. */
	const uint16_t flag = (uint16_t)((bool *)memchr(h->flag_used, false, sizeof h->flag_used) - h->flag_used);
	begin_start(h, flag);
	const struct leader leader = { .in = in,
				       .state = h->state + flag,
				       .mounts = &h->mounts,
				       .buffer = h->buffer,
				       .signal_fd = h->signal_fd,
				       .holder_fd = holder_fd };
	init_raise_oom_score(in, true);
	pid_t pid = fork();
	if (pid == 0) {
		fd_close(&leader_fd);
		lead(h, plan, fds, &leader);
	}
	init_raise_oom_score(in, false);
	if (pid < 0) {
		h->flag_used[flag] = false;
		fail_member(status, STEP_CLONE, errno, errno == EAGAIN ? "limit on processes of the sandbox" : "");
		return;
	}
	add_member(h, pid, &leader_fd, flag, &fds[MEMBER_FD_STATUS]);
	while (h->idle_count > idle_max(h))
		remove_idle(h, 0);
}

static void kill_member(const struct holder *h, const struct plan_key *key)
{
	for (size_t i = 0; i < h->count; i++) {
		if (!h->member[i].lost && memcmp(&h->member[i].key, key, sizeof *key) == 0)
			kill(h->member[i].leader, SIGKILL);
	}
}

/* Takes one message of the link. Returns why the sandbox ends, or NONE. */
static enum status_cause receive_member(struct holder *h)
{
	int fds[MEMBER_FDS];
	const void *plan = NULL;
	enum status_cause end = STATUS_CAUSE_NONE;
	int r = member_msg_receive(h->in->steps.stdin_fd, MSG_DONTWAIT, h->buffer, fds, &plan);
	if (r < 0 && errno)
		return STATUS_CAUSE_LINK; /* the starts in the link would never be answered */
	if (r < 0)
		fd_close(&h->in->steps.stdin_fd); /* no more members; the status socket decides about the sandbox */
	if (r <= 0)
		return STATUS_CAUSE_NONE;
	if (h->buffer->msg.kind == MEMBER_START)
		end = check_places(h, fds[MEMBER_FD_STATUS]);
	if (h->buffer->msg.kind == MEMBER_START && !end) {
		find_done_leader(h);
		start_member(h, plan, fds);
	} else if (h->buffer->msg.kind == MEMBER_KILL) {
		kill_member(h, &h->buffer->msg.key);
	}
	if (plan && plan != h->buffer->plan)
		munmap((void *)plan, h->buffer->msg.plan_len);
	for (int i = 0; i < MEMBER_FDS; i++)
		fd_close(&fds[i]);
	return end;
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
		left += !leader_is_done(h, i);
	do
		kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR);
	for (size_t i = 0; i < h->count; i++)
		h->member[i].lost = true;
	report_lost(h);
	return left;
}

/* Makes leaders exit that were idle for IDLE_MS. Returns the timeout, shortened to the moment when that is due. */
static int expire_idle(struct holder *h, int timeout)
{
	uint64_t now = h->idle_count ? clock_boot_ms() : 0;
	while (h->idle_count && now >= h->idle[0].until_ms) /* the first one has been idle for longest */
		remove_idle(h, 0);
	if (!h->idle_count)
		return timeout;
	int left = (int)(h->idle[0].until_ms - now);
	return timeout < 0 || left < timeout ? left : timeout;
}

/* Returns why the sandbox ends. */
static enum status_cause serve(struct holder *h)
{
	const struct step_context *c = &h->in->steps;
	for (bool more = false;;) {
		/* Without a command nothing can begin to listen. */
		bool watches = h->count || h->ports.listening.ports.count;
		struct pollfd p[7 + MEMBERS_MAX];
		const struct pollfd first[7] = {
			{ .fd = h->signal_fd, .events = POLLIN },   { .fd = c->status_fd, .events = POLLIN },
			{ .fd = c->guard_pidfd, .events = POLLIN }, { .fd = c->resolver_fd, .events = POLLIN },
			{ .fd = c->stdin_fd, .events = POLLIN },    { .fd = h->ports.dialer_fd, .events = POLLIN },
			{ .fd = h->mounts.fd, .events = POLLPRI },
		};
		memcpy(p, first, sizeof first);
		size_t leaders = h->busy ? 0 : h->count;
		for (size_t i = 0; i < leaders; i++)
			p[7 + i] = (struct pollfd){ .fd = h->member[i].leader_fd, .events = POLLIN };
		int timeout = expire_idle(h, more ? 0 : h->orphans ? ORPHANS_MS : h->busy ? BUSY_MS : -1);
		timeout = check_late_starts(h, timeout);
		int n = poll(p, 7 + leaders, watches ? port_watch_timeout(&h->ports, timeout) : timeout);
		if (n < 0)
			continue;
		h->busy &= n > 0;
		if (!h->busy && h->check_ms && !is_starting(h))
			h->check_ms = 0;
		if (p[2].revents)
			_exit(1);
		if (p[6].revents && !mount_watch_is_intact(&h->mounts, h->end.path, sizeof h->end.path))
			return STATUS_CAUSE_MOUNTS;
		for (size_t i = leaders; i-- > 0;) { /* a removed one is replaced by one that was checked */
			if (p[7 + i].revents && leader_is_done(h, i))
				keep_leader(h, i);
		}
		if (more || p[0].revents) {
			struct signalfd_siginfo info;
			(void)!read(h->signal_fd, &info, sizeof info);
			more = reap_children(h);
		}
		if (h->end.cause == STATUS_CAUSE_HIDDEN)
			return STATUS_CAUSE_HIDDEN;
		if (h->orphans && !kill_orphans(h))
			return STATUS_CAUSE_ORPHANS;
		if (p[1].revents && ends_sandbox(h))
			return STATUS_CAUSE_CLOSED;
		if (p[3].revents)
			resolver_answer(c, &h->names);
		enum status_cause end = p[4].revents ? receive_member(h) : STATUS_CAUSE_NONE;
		if (end)
			return end;
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
	h->end = (struct status_msg){ .kind = STATUS_EXITED, .cause = STATUS_CAUSE_LEADER };
	port_watch_init(&h->ports, in->steps.plan->network != PLAN_NET_HOST);
	h->buffer = mem_zalloc(1, sizeof *h->buffer);
	h->state = mmap(NULL, LEADERS_MAX * sizeof *h->state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			0);
	if (h->state == MAP_FAILED)
		init_fail(in, STEP_CLONE, errno);
	h->signal_fd = command_run_signal_fd(); /* a leader uses it for its own children */
	c->core_fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC); /* read again for each member */
	/* Without a /proc of the sandbox's own, the tree of a single member could not be found. */
	if (!(c->layers & PLAN_LAYER_MOUNTS))
		init_fail(in, STEP_PROC, EOPNOTSUPP);
	if (mount_watch_init(&h->mounts, c) < 0)
		init_fail(in, STEP_PROC, errno);
	if (h->signal_fd < 0 || fd_nonblock(c->stdin_fd, true) < 0)
		init_fail(in, STEP_CLONE, errno);
	init_send_status(c->status_fd, &ready, c->listen_fd, -1);
	fd_close(&c->listen_fd);
	fd_close(&c->stdout_fd);
	fd_close(&c->stderr_fd);
	if (step_gate(c) < 0)
		init_fail(in, STEP_GATE, errno);
	fd_close(&c->gate_fd);
	init_send_status(c->status_fd, &execed, -1, -1);
	h->end.cause = serve(h);
	struct status_msg m = h->end;
	m.left_behind = kill_all(h);
	if (m.cause == STATUS_CAUSE_CLOSED)
		m.cause = STATUS_CAUSE_NONE; /* its end was requested */
	placeholder_helper_finish(c->placeholder_fd);
	tree_files_read(&c->tree, &m.count);
	m.oom_kills = m.count.oom_kills;
	m.pids_refused = m.count.pids_refused;
	init_send_status(c->status_fd, &m, -1, -1);
	_exit(0);
}
