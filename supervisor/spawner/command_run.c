/*
 * Runs one command and reports its end. Two processes do this: the init of a single-use sandbox (pid 1 of its
 * namespace), and a leader, which a holder forks for each of its members (holder.c). A leader is a child subreaper: the
 * kernel makes it the parent of every orphan below it, so that nothing of the command's tree can leave it, and it has
 * no children if and only if the tree is gone. It sends the raw wait status: exiting with 139 itself would hide a
 * SIGSEGV.
 *
 * The command's process shares the memory of its parent until exec (vfork), and the parent sleeps until then. That
 * saves a copy of the page tables, and the result of exec is known when vfork returns, without a pipe. Therefore the
 * command's process watches for a kill request while the gate is closed (step_gate).
 *
 * A terminal's master is sent to the runtime with READY. It is queued in a socket that the guard holds, too, until a
 * runtime has deposited it, and the command waits at the gate meanwhile. This process keeps the slave open: the
 * terminal ends with the tree, not when some program closes its last slave.
 *
 * The runtime can be absent: the guard holds a copy of its end of the status socket, so messages are queued. This
 * process exits only if that copy is closed, too. When an init exits, the kernel kills the rest of the namespace; when
 * a leader exits with another status than 0, its holder kills what is left of the tree.
 */

#include "supervisor/spawner/command_run.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/audit.h"
#include "sandbox/autorun.h"
#include "sandbox/plan.h"
#include "sandbox/status.h"
#include "sandbox/steps/step.h"
#include "supervisor/common/earlier_use.h"
#include "supervisor/common/process_title.h"
#include "supervisor/spawner/descendants.h"
#include "supervisor/spawner/dialer.h"
#include "supervisor/spawner/init.h"
#include "supervisor/spawner/placeholder_helper.h"
#include "supervisor/spawner/resolver_answer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPU_POLL_MS 100
#define KILL_MS 10000u
#define KILL_PAUSE_MS 20
#define EXECED_DELAY_MS 2 /* a command that ends earlier needs no EXECED if its client waits for the end */
#define REAP_MAX 64 /* per iteration: orphans can appear as fast as they are reaped, and requests must be served */

struct watch {
	struct init *in;
	int signal_fd;
	uint64_t cpu_before_us;   /* the cgroup's usage before the command started */
	struct tree_count before; /* leader: its counters at that time */
	pid_t command;
	struct rusage usage; /* of all children that were reaped, with theirs */
	bool exec_reported, end_reported;
	bool ended; /* the command was reaped and `status` is valid */
	int status;
	enum status_cause cause;
	uint32_t left_behind;
	bool signalled;          /* the runtime has ended it, or tried to */
	bool unreaped;           /* leader: zombies that another member traces are left */
	struct autorun *autorun; /* NULL = autorun files are not compared */
	enum autorun_state autorun_state;
	int report; /* report on autorun files; −1 = none */
	struct port_watch ports;
	struct resolver_names names;
};

/*
 * Members can lower their leader's limit on descriptors in flight (RLIMIT_NOFILE) for good, so after some time a leader
 * leaves the end to its holder. The limits of pid 1 cannot be changed.
 */
static bool may_wait_to_send(uint64_t *until_ms)
{
	uint64_t now = clock_boot_ms();
	if (!*until_ms)
		*until_ms = now + KILL_MS;
	return getpid() == 1 || now < *until_ms;
}

void init_send_status(int fd, const struct status_msg *m, int first, int second)
{
	const int both[] = { first >= 0 ? first : second, second };
	size_t n = (first >= 0) + (second >= 0);
	uint64_t until_ms = 0;
	while (fd_send(fd, m, sizeof *m, both, n, MSG_NOSIGNAL) < 0) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		if (errno == EAGAIN)
			poll(&p, 1, -1);
		else if (errno == ETOOMANYREFS && may_wait_to_send(&until_ms))
			poll(NULL, 0, 1);
		else if (errno != EINTR && errno != ENOBUFS && errno != ENOMEM)
			_exit(1); /* both the runtime and the guard are gone, or the holder has to report the end */
	}
}

_Noreturn void init_fail(struct init *in, enum sandbox_step step, int error)
{
	struct status_msg m = { .kind = STATUS_FAILED, .step = step, .error = error };
	memcpy(m.path, in->steps.path, sizeof m.path);
	placeholder_helper_finish(in->steps.placeholder_fd);
	init_send_status(in->steps.status_fd, &m, -1, -1);
	_exit(1);
}

/*
 * When the tree's memory limit is hit, the kernel kills the process with the highest score. If files in /tmp fill the
 * memory, that can be the init, which has to report what happened. So the command inherits a higher score, and the init
 * restores its own once the command runs.
 */
void init_raise_oom_score(const struct init *in, bool raised)
{
	if (in->steps.plan->limits.value[PLAN_LIMIT_MEMORY] || in->own_memory)
		init_write_oom_score(in, in->oom_score + (raised ? OOM_SCORE_MORE : 0));
}

void init_write_oom_score(const struct init *in, int score)
{
	char text[16];
	const int n = snprintf(text, sizeof text, "%d", score < OOM_SCORE_MAX ? score : OOM_SCORE_MAX);
	if (in->steps.oom_fd >= 0)
		(void)!pwrite(in->steps.oom_fd, text, (size_t)n, 0);
}

/* Sleeps until the command's exec or exit. The child must not modify this stack frame. */
static pid_t start_command(struct init *in)
{
	init_raise_oom_score(in, true);
	pid_t pid = vfork();
	if (pid == 0) {
		exec_command(in);
		_exit(127);
	}
	if (in->starting)
		*in->starting = 0;
	init_raise_oom_score(in, false);
	return pid;
}

static uint64_t time_us(struct timeval t) { return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec; }

/* RUSAGE_CHILDREN would have the members that this leader has led before. */
static void add_usage(struct rusage *sum, const struct rusage *one)
{
	timeradd(&sum->ru_utime, &one->ru_utime, &sum->ru_utime);
	timeradd(&sum->ru_stime, &one->ru_stime, &sum->ru_stime);
	if (one->ru_maxrss > sum->ru_maxrss)
		sum->ru_maxrss = one->ru_maxrss;
	sum->ru_minflt += one->ru_minflt;
	sum->ru_majflt += one->ru_majflt;
	sum->ru_inblock += one->ru_inblock;
	sum->ru_oublock += one->ru_oublock;
	sum->ru_nvcsw += one->ru_nvcsw;
	sum->ru_nivcsw += one->ru_nivcsw;
}

/* A child that has called PTRACE_TRACEME stops at every signal, and at exec with SIGTRAP. It continues untraced. */
static void release_traced(pid_t pid, int sig)
{
	ptrace(PTRACE_DETACH, pid, NULL, (void *)(intptr_t)(sig == SIGTRAP ? 0 : sig));
}

static pid_t reap_one(struct watch *w, int flags, bool killed)
{
	int status;
	struct rusage usage;
	pid_t pid;
	do
		pid = wait4(-1, &status, flags, &usage);
	while (pid < 0 && errno == EINTR);
	if (pid > 0 && WIFSTOPPED(status)) {
		release_traced(pid, WSTOPSIG(status));
		return pid;
	}
	if (pid > 0)
		add_usage(&w->usage, &usage);
	if (pid > 0 && pid == w->command && !w->ended) { /* later processes can have the same pid */
		w->ended = true;
		w->status = status;
	} else if (pid > 0 && killed && w->ended && w->cause == STATUS_CAUSE_NONE && WIFSIGNALED(status) &&
		   WTERMSIG(status) == SIGKILL) {
		w->left_behind++;
	}
	return pid;
}

/* Reaps children that have exited. Returns true if there may be more; otherwise errno is ECHILD if no child is left. */
static bool reap_children(struct watch *w)
{
	int n = 0;
	errno = 0;
	while (n < REAP_MAX && reap_one(w, WNOHANG, false) > 0)
		n++;
	return n == REAP_MAX;
}

/*
 * In a leader: kills everything below it. Dead processes that cannot be reaped are traced by another member that has
 * not waited for them, such as a debugger at its prompt; the holder reaps them when that one is gone. A leader that
 * does not succeed in time leaves all of it to the holder.
 */
static void kill_below(struct watch *w)
{
	const uint64_t until_ms = clock_boot_ms() + KILL_MS;
	struct pollfd p = { .fd = w->signal_fd, .events = POLLIN };
	struct signalfd_siginfo info;
	/* Twice: threads that are dead disappear a moment later, and only then can their process be reaped. */
	for (bool alive = true, was_alive = true; alive || was_alive;) {
		pid_t pid;
		was_alive = alive;
		alive = descendants_kill(getpid(), NULL, 0);
		while ((pid = reap_one(w, WNOHANG, true)) > 0)
			continue;
		if (pid < 0)
			return;
		/* EINVAL: as in watch_tree. */
		if (clock_boot_ms() > until_ms || (poll(&p, 1, KILL_PAUSE_MS) < 0 && errno == EINVAL))
			_exit(1);
		(void)!read(w->signal_fd, &info, sizeof info);
	}
	w->unreaped = true;
	if (!w->ended)
		w->status = SIGKILL;
	w->ended = true;
}

/*
 * Kills every other process of the namespace, or, in a leader, everything below it; returns when none is left. Repeated
 * before each wait: a dying process may have forked.
 */
static void kill_tree(struct watch *w)
{
	if (w->in->leader) {
		kill_below(w);
		return;
	}
	do {
		kill(-1, SIGKILL);
		if (reap_one(w, 0, true) < 0 && errno == ECHILD)
			return;
		while (reap_one(w, WNOHANG, true) > 0)
			continue;
	} while (true);
}

static void signal_command(struct watch *w, int sig)
{
	/* The command leads a session, so it cannot leave its process group. The group can outlive the command. */
	if (kill(-w->command, sig) < 0 && errno == ESRCH && !w->ended)
		kill(w->command, sig);
}

static void add_left(void *ctx, int process_fd, const char *stat)
{
	struct status_msg *m = ctx;
	const char *name = strchr(stat, '('), *end = strrchr(stat, ')');
	if (!name || !end || end[1] != ' ' || end[2] == 'Z')
		return;
	if (m->left_behind++ >= STATUS_LEFT_MAX)
		return;
	struct status_left *left = &m->left[m->left_behind - 1];
	left->pid = (int32_t)strtol(stat, NULL, 10);
	snprintf(left->name, sizeof left->name, "%.*s", (int)(end - name - 1), name + 1);
}

static void report_command_exit(const struct watch *w)
{
	struct status_msg m = { .kind = STATUS_COMMAND_EXITED, .wait_status = w->status };
	if (w->in->steps.layers & PLAN_LAYER_MOUNTS) /* /proc is the sandbox's own */
		(void)!descendants_each(getpid(), NULL, 0, add_left, &m);
	init_send_status(w->in->steps.status_fd, &m, -1, -1);
}

/* Handles one request of the runtime. Returns true if the tree was killed. */
static bool receive_request(struct watch *w)
{
	struct status_msg m;
	fd_auto int fd = -1;
	size_t nfds = 1;
	ssize_t n = fd_recv(w->in->steps.status_fd, &m, sizeof m, &fd, &nfds, MSG_DONTWAIT);
	if (n == 0)
		_exit(1);
	if (n < (ssize_t)STATUS_MSG_LEAST)
		return false;
	if (m.kind == STATUS_SIGNAL && m.signal == 0) {
		if (w->ended)
			report_command_exit(w);
		return false;
	}
	w->signalled |= m.kind == STATUS_SIGNAL || m.kind == STATUS_KILL_TREE;
	if (m.kind == STATUS_SIGNAL && m.signal < NSIG)
		signal_command(w, (int)m.signal);
	port_watch_take(&w->ports, &m, &fd);
	if (m.kind != STATUS_KILL_TREE)
		return false;
	if (!w->ended)
		w->cause = STATUS_CAUSE_KILLED;
	kill_tree(w);
	return true;
}

/* The command's own cgroups. A leader shares those of its sandbox with other members, unless its member has limits. */
static const struct tree_files *own_files(const struct init *in)
{
	return !in->leader ? &in->steps.tree : in->has_own ? &in->own : NULL;
}

/* The cgroup's CPU time; −1 = not known. */
static int cpu_stat(const struct init *in)
{
	const struct tree_files *own = own_files(in);
	return own ? own->file[TREE_FILE_CPU_TIME] : -1;
}

static bool past_cpu_limit(const struct watch *w)
{
	const struct init *in = w->in;
	int stat = cpu_stat(in);
	if (stat >= 0)
		return (cputime_cgroup_us(stat) - w->cpu_before_us) / 1000 >= in->steps.plan->cpu_ms;
	uint64_t us = cputime_tree_us(getpid()) + time_us(w->usage.ru_utime) + time_us(w->usage.ru_stime);
	return us / 1000 >= in->steps.plan->cpu_ms;
}

/* True at most once every CPU_POLL_MS. */
static bool is_due(uint64_t *at_ms)
{
	uint64_t now = clock_boot_ms();
	if (now < *at_ms)
		return false;
	*at_ms = now + CPU_POLL_MS;
	return true;
}

static void report_exec(struct watch *w)
{
	const struct status_msg m = { .kind = STATUS_EXECED };
	if (w->exec_reported)
		return;
	w->exec_reported = true;
	init_send_status(w->in->steps.status_fd, &m, -1, -1);
}

/*
 * EXECED wakes the runtime. If the client waits for the end anyway, it is sent only if the command does not end at
 * once: EXITED implies it.
 */
static int watch_timeout(const struct watch *w, bool more, bool cpu)
{
	if (more)
		return 0;
	return !w->exec_reported ? EXECED_DELAY_MS : cpu ? CPU_POLL_MS : -1;
}

enum { POLL_SIGNALS, POLL_STATUS, POLL_GUARD, POLL_RESOLVER, POLL_DIALER, POLLS };

/* False: nothing is left to watch. `ret_more`: there may be more children to reap. */
static bool watch_children(struct watch *w, bool *ret_more)
{
	struct signalfd_siginfo info;
	(void)!read(w->signal_fd, &info, sizeof info);
	*ret_more = reap_children(w);
	/* Every process left is a child of the init or descends from one, so ECHILD means that none is left. */
	if (w->ended && !*ret_more && errno == ECHILD)
		return false;
	if (w->ended && !(w->in->steps.plan->flags & PLAN_KEEP_TREE)) {
		kill_tree(w);
		return false;
	}
	if (w->ended && !w->end_reported) {
		w->end_reported = true;
		report_command_exit(w);
	}
	return true;
}

/* Runs until the command has ended and, unless PLAN_KEEP_TREE, its tree is gone; or until the tree was killed. */
static void watch_tree(struct watch *w)
{
	const struct init *in = w->in;
	bool cpu = in->steps.plan->cpu_ms != PLAN_UNLIMITED &&
		   (cpu_stat(in) >= 0 || in->steps.layers & PLAN_LAYER_MOUNTS);
	struct pollfd p[POLLS] = {
		[POLL_SIGNALS] = { .fd = w->signal_fd, .events = POLLIN },
		[POLL_STATUS] = { .fd = in->steps.status_fd, .events = POLLIN },
		[POLL_GUARD] = { .fd = in->steps.guard_pidfd, .events = POLLIN },
		[POLL_RESOLVER] = { .fd = in->steps.resolver_fd, .events = POLLIN },
		[POLL_DIALER] = { .events = POLLIN },
	};
	bool more = false;
	uint64_t poll_ms = 0;
	if (in->steps.plan->flags & PLAN_KEEP_TREE || !in->steps.end_awaited)
		report_exec(w);
	for (;;) {
		p[POLL_DIALER].fd = w->ports.dialer_fd;
		int n = poll(p, POLLS, port_watch_timeout(&w->ports, watch_timeout(w, more, cpu)));
		/* EINVAL: a member has lowered its leader's limit on open files. The holder ends them. */
		if ((n > 0 && p[POLL_GUARD].revents) || (n < 0 && errno == EINVAL))
			_exit(1);
		if ((more || (n > 0 && p[POLL_SIGNALS].revents)) && !watch_children(w, &more))
			return;
		if (!w->ended)
			report_exec(w);
		if (n > 0 && p[POLL_STATUS].revents && receive_request(w))
			return;
		if (n > 0 && p[POLL_RESOLVER].revents)
			resolver_answer(&in->steps, &w->names);
		port_watch_run(&w->ports, n > 0 && p[POLL_DIALER].revents, in->steps.status_fd);
		if (cpu && is_due(&poll_ms) && past_cpu_limit(w)) {
			if (!w->ended)
				w->cause = STATUS_CAUSE_CPU;
			kill_tree(w);
			return;
		}
	}
}

/* /tmp, /var/tmp and /dev/shm are on one file system. /dev/shm is checked because no request can mount over it. */
static bool tmp_full(const struct init *in)
{
	struct statfs s;
	if (!step_confined(&in->steps) || statfs("/dev/shm", &s) < 0)
		return false;
	return (s.f_blocks && !s.f_bavail) || (s.f_files && !s.f_ffree);
}

/* Records the autorun files before the command starts, while the runtime records the start. */
static void examine_before(struct watch *w)
{
	const struct plan_head *plan = w->in->steps.plan;
	if (!autorun_applies(plan))
		return;
	w->autorun_state = AUTORUN_FAILED;
	if (w->in->autorun)
		autorun_reset(w->in->autorun, plan);
	else
		w->in->autorun = autorun_new(plan);
	w->autorun = w->in->autorun;
	if (!w->autorun)
		return;
	autorun_use_fds(w->autorun, w->in->steps.self_fds);
	autorun_before(w->autorun);
}

/* Compares the autorun files after the tree has terminated. */
static void examine_after(struct watch *w)
{
	buf_auto struct buf report = BUF_INIT;
	if (!w->autorun)
		return;
	w->autorun_state = AUTORUN_SAME;
	if (!autorun_after(w->autorun))
		return;
	autorun_write(w->autorun, w->in->steps.peer_uid, w->in->steps.peer_gid, w->in->autorun_key, &report);
	w->report = fd_memfd_sealed("bailiff-autorun", report.data, report.len);
	w->autorun_state = w->report < 0 ? AUTORUN_FAILED : AUTORUN_REPORT;
}

static uint64_t subtract_own(uint64_t all, uint64_t own) { return all > own ? all - own : 0; }

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/*
 * What the counters of an init that has run other commands say about this one: *now without what was *before, which
 * becomes *now. A peak that is not a new one says nothing.
 */
static void subtract_earlier(struct tree_count *now, struct tree_count *before)
{
	const struct tree_count all = *now;
	now->user_us = subtract_own(now->user_us, before->user_us);
	now->system_us = subtract_own(now->system_us, before->system_us);
	now->io_read = subtract_own(now->io_read, before->io_read);
	now->io_write = subtract_own(now->io_write, before->io_write);
	now->throttled_us = subtract_own(now->throttled_us, before->throttled_us);
	now->throttled_periods = subtract_own(now->throttled_periods, before->throttled_periods);
	now->high_events = subtract_own(now->high_events, before->high_events);
	now->oom_kills = subtract_own(now->oom_kills, before->oom_kills);
	now->pids_refused = subtract_own(now->pids_refused, before->pids_refused);
	if (before->memory_peak && now->memory_peak <= before->memory_peak)
		now->known &= ~(uint32_t)TREE_COUNT_MEMORY;
	if (before->pids_peak && now->pids_peak <= before->pids_peak)
		now->known &= ~(uint32_t)TREE_COUNT_PIDS;
	*before = all;
}

/*
 * Reads the cgroup's counters and subtracts the init's own share. In the whole sandbox's cgroup a leader only counts
 * what the limits denied while its command ran; on v2 that includes what the command's own denied.
 */
static void count_tree(const struct watch *w, struct tree_count *ret)
{
	struct rusage self;
	struct tree_count shared = { 0 };
	*ret = (struct tree_count){ 0 };
	if (w->in->leader)
		tree_files_read_denials(&w->in->steps.tree, &shared);
	if (own_files(w->in))
		tree_files_read(own_files(w->in), ret);
	ret->oom_kills = larger(ret->oom_kills, shared.oom_kills - w->before.oom_kills);
	ret->pids_refused = larger(ret->pids_refused, shared.pids_refused - w->before.pids_refused);
	if (!own_files(w->in))
		return;
	getrusage(RUSAGE_SELF, &self);
	ret->user_us = subtract_own(ret->user_us, time_us(self.ru_utime));
	ret->system_us = subtract_own(ret->system_us, time_us(self.ru_stime));
	ret->pids_peak = subtract_own(ret->pids_peak, 1);
	if (!w->in->leader)
		subtract_earlier(ret, &w->in->counted);
}

/*
 * An init can wait for another command only if nothing forced the end of this one, which may be incomplete then.
 * Nothing but processes can be left of a leader's command, and it has no children any longer.
 */
static bool can_stay(const struct watch *w, const struct command_run *run)
{
	return run->keep && !w->unreaped && (w->in->leader || (!w->signalled && w->cause == STATUS_CAUSE_NONE));
}

/*
 * The outputs stay open until the end is reported. The runtime then learns of their end and of EXITED in one wakeup,
 * instead of one wakeup when the command exits and another one when its tree is gone. So nothing else is done between
 * closing and sending.
 */
static void close_outputs(struct step_context *c)
{
	fd_close(&c->stdout_fd);
	fd_close(&c->stderr_fd);
}

static void report_exit(const struct watch *w)
{
	const struct rusage *u = &w->usage;
	struct tree_count count;
	count_tree(w, &count);
	struct status_msg m = {
		.kind = STATUS_EXITED,
		.cause = w->cause,
		.kept = w->in->kept,
		.wait_status = w->status,
		.left_behind = w->left_behind,
		.tmp_full = tmp_full(w->in),
		.autorun = w->autorun_state,
		.user_us = time_us(u->ru_utime),
		.system_us = time_us(u->ru_stime),
		.max_rss_bytes = (uint64_t)u->ru_maxrss * 1024,
		.minor_faults = (uint64_t)u->ru_minflt,
		.major_faults = (uint64_t)u->ru_majflt,
		.in_blocks = (uint64_t)u->ru_inblock,
		.out_blocks = (uint64_t)u->ru_oublock,
		.voluntary_switches = (uint64_t)u->ru_nvcsw,
		.involuntary_switches = (uint64_t)u->ru_nivcsw,
		.oom_kills = count.oom_kills,
		.pids_refused = count.pids_refused,
		.count = count,
	};
	close_outputs(&w->in->steps);
	init_send_status(w->in->steps.status_fd, &m, w->report, -1);
}

int command_run_signal_fd(void)
{
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Its counters and those of its cgroup go on from the earlier commands. */
static void show_earlier_use(const struct init *in)
{
	char title[EARLIER_USE_MAX];
	struct rusage self, children;
	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	const struct earlier_use used = { .cpu_us = time_us(self.ru_utime) + time_us(self.ru_stime) +
						    time_us(children.ru_utime) + time_us(children.ru_stime),
					  .read_bytes = in->counted.io_read,
					  .write_bytes = in->counted.io_write };
	earlier_use_format(&used, in->leader ? "leader" : "init", title);
	process_title_replace(in->title, title);
}

void command_run(struct init *in, const struct command_run *run)
{
	if (run->again)
		show_earlier_use(in);
	const struct status_msg ready = { .kind = STATUS_READY,
					  .layers = in->steps.layers,
					  .session = run->session,
					  .leader_start = run->leader_start };
	fd_auto int self = in->leader ? fd_pidfd_open(getpid()) : -1;
	init_send_status(in->steps.status_fd, &ready, in->steps.master_fd, in->leader ? self : in->steps.listen_fd);
	fd_close(&in->steps.master_fd);
	fd_close(&in->steps.listen_fd);
	fd_close(&self);

	struct watch w = { .in = in, .signal_fd = run->signal_fd, .report = -1 };
	/* The ports of a session sandbox are its holder's. */
	port_watch_init(&w.ports, !in->leader && in->steps.plan->network != PLAN_NET_HOST);
	examine_before(&w);
	if (cpu_stat(in) >= 0 && in->steps.plan->cpu_ms != PLAN_UNLIMITED)
		w.cpu_before_us = cputime_cgroup_us(cpu_stat(in));
	if (in->leader)
		tree_files_read_denials(&in->steps.tree, &w.before);
	in->reached = STEP_SESSION;
	in->error = 0;
	if (w.signal_fd < 0 || (w.command = start_command(in)) < 0)
		init_fail(in, STEP_EXEC, errno);
	fd_close(&in->steps.stdin_fd);
	fd_close(&in->steps.gate_fd);
	if (in->error)
		init_fail(in, in->reached, in->error);
	if (in->reached != STEP_EXEC) {
		step_path(&in->steps, "its process was stopped or killed before it could execute the command");
		init_fail(in, STEP_EXEC, EINTR);
	}
	watch_tree(&w);
	examine_after(&w);
	placeholder_helper_finish(in->steps.placeholder_fd);
	in->kept = can_stay(&w, run);
	report_exit(&w);
	fd_close(&w.report);
	if (in->kept) {
		fd_close(&w.ports.dialer_fd);
		fd_close(&in->steps.status_fd);
	}
}
