/*
 * Pid 1 of a sandbox. It runs the steps, starts the command, waits at the gate with it, reaps every orphan of the
 * namespace, and reports the command's end to the runtime over the status socket. It sends the raw wait status: exiting
 * with 139 itself would hide a SIGSEGV. When it exits, the kernel kills the rest of the namespace.
 *
 * The command's process shares the init's memory until exec (vfork), and the init sleeps until then. That saves a copy
 * of the page tables, and the result of exec is known when vfork returns, without a pipe. Therefore the command's
 * process watches for a kill request while the gate is closed (step_gate).
 *
 * A terminal's master is sent to the runtime with READY. It is queued in a socket that the guard holds, too, until a
 * runtime has deposited it, and the command waits at the gate meanwhile. The init keeps the slave open: the terminal
 * ends with the sandbox, not when some program closes its last slave.
 *
 * The runtime can be absent: the guard holds a copy of its end of the status socket, so messages are queued. The init
 * exits only if that copy is closed, too.
 */

#include "supervisor/spawner/init.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "sandbox/audit.h"
#include "sandbox/autorun.h"
#include "sandbox/host_fingerprint.h"
#include "sandbox/init_name.h"
#include "sandbox/plan.h"
#include "sandbox/refusing_resolver.h"
#include "sandbox/status.h"
#include "sandbox/steps/step.h"
#include "sandbox/userns.h"
#include "supervisor/common/process_title.h"
#include "supervisor/spawner/placeholder_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CPU_POLL_MS 100
#define NAMES_MAX 64
#define LOOKUPS_A_TURN 16
#define REAP_MAX 64 /* per iteration: orphans can appear as fast as they are reaped, and requests must be served */

struct watch {
	struct init *in;
	int signal_fd;
	uint64_t cpu_before_us; /* the cgroup's usage before the command started */
	pid_t command;
	bool ended; /* the command was reaped and `status` is valid */
	int status;
	enum status_cause cause;
	uint32_t left_behind;
	struct autorun *autorun; /* NULL = autorun files are not compared */
	enum autorun_state autorun_state;
	int report;                /* report on autorun files; −1 = none */
	uint64_t names[NAMES_MAX]; /* hashes of names already reported */
	size_t nnames;
};

/* Sends a message with up to two descriptors; −1 = not sent. */
static void send_status_with(int fd, const struct status_msg *m, int first, int second)
{
	const int both[] = { first >= 0 ? first : second, second };
	size_t n = (first >= 0) + (second >= 0);
	while (fd_send(fd, m, sizeof *m, both, n, MSG_NOSIGNAL) < 0) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		if (errno == EAGAIN)
			poll(&p, 1, -1);
		else if (errno == ETOOMANYREFS) /* this user has too many descriptors in flight */
			poll(NULL, 0, 1);
		else if (errno != EINTR && errno != ENOBUFS && errno != ENOMEM)
			_exit(1); /* both the runtime and the guard are gone */
	}
}

static void send_status(int fd, const struct status_msg *m) { send_status_with(fd, m, -1, -1); }

static _Noreturn void leave_failed(struct init *in, enum sandbox_step step, int error)
{
	struct status_msg m = { .kind = STATUS_FAILED, .step = step, .error = error };
	memcpy(m.path, in->steps.path, sizeof m.path);
	placeholder_helper_finish(in->steps.placeholder_fd);
	send_status(in->steps.status_fd, &m);
	_exit(1);
}

/*
 * Writing "0" needs no privilege: it only makes this process a likelier victim. The file stays open because it is
 * unreachable later, when spare_init needs it.
 */
static void reset_oom_score(struct init *in)
{
	in->steps.oom_fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (in->reset_oom)
		(void)!write(in->steps.oom_fd, "0", 1);
}

/*
 * When the tree's memory limit is hit, the kernel kills the process with the highest score. If files in /tmp fill the
 * memory, that can be the init, which has to report what happened. So the command inherits a higher score, and the init
 * restores its own once the command runs.
 */
static void spare_init(const struct init *in, const char *score)
{
	if (in->steps.plan->limits.value[PLAN_LIMIT_MEMORY] && in->steps.oom_fd >= 0)
		(void)!pwrite(in->steps.oom_fd, score, strlen(score), 0);
}

/* Layers that a private root always has, whatever the plan requires: a compromised runtime cannot ask for less. */
#define WALL (PLAN_LAYER_NAMESPACES | PLAN_LAYER_SECCOMP | PLAN_LAYER_CAPABILITIES)

/* Returns the step of a required layer that is not in effect, or STEP_COUNT if none is missing. */
static enum sandbox_step missing_layer(const struct init *in)
{
	static const struct {
		uint32_t layer;
		enum sandbox_step step;
	} rows[] = {
		{ PLAN_LAYER_NAMESPACES, STEP_CLONE },
		{ PLAN_LAYER_CGROUP, STEP_CLONE },
		{ PLAN_LAYER_MOUNTS, STEP_PROC },
		{ PLAN_LAYER_CAPABILITIES, STEP_IDS },
		{ PLAN_LAYER_LANDLOCK, STEP_LANDLOCK },
		{ PLAN_LAYER_SECCOMP, STEP_SECCOMP },
		{ PLAN_LAYER_ABSTRACT_SOCKETS, STEP_LANDLOCK },
	};
	uint32_t wall = (step_confined(&in->steps) ? WALL : 0) |
			(in->steps.outer_root ? PLAN_LAYER_ABSTRACT_SOCKETS : 0);
	uint32_t missing = (in->steps.plan->require | wall) & ~in->steps.layers;
	for (size_t i = 0; missing && i < sizeof rows / sizeof rows[0]; i++) {
		if (missing & rows[i].layer)
			return rows[i].step;
	}
	return STEP_COUNT;
}

/* Must be set before the command exists: every daemon rejects clients that run below a process of this name. */
static void set_name(const struct init *in)
{
	process_title_set(in->title, "bailiffd: init");
	prctl(PR_SET_NAME, SANDBOX_INIT_NAME, 0, 0, 0);
}

/*
 * Prebuilt sandboxes: runs the steps that do not depend on the command; for a dedicated sandbox, all steps of the init.
 * The only thing shared with the spawner is the socket on which the message arrives; the spawner closes it to discard
 * the sandbox. A dedicated sandbox that cannot be built exits silently: the next start that needs one builds it on
 * demand and reports the error.
 */
static void wait_for_command(struct init *in)
{
	bool dedicated = in->steps.fingerprint;
	enum sandbox_step step = STEP_CLONE;
	const struct sched_param none = { 0 };
	/*
	 * Neither building the sandbox nor its wakeup by the message should preempt other work: the sender has more to
	 * do.
	 */
	bool polite = sched_getscheduler(0) == SCHED_OTHER && sched_setscheduler(0, SCHED_BATCH, &none) == 0;
	if (!dedicated && step_descriptors(&in->steps) < 0)
		_exit(1);
	int error = steps_run(&in->steps, STEP_PREBUILT, &step) < 0 ? errno : 0;
	if (dedicated && (error || steps_run(&in->steps, STEP_IN_INIT, &step) < 0 || missing_layer(in) != STEP_COUNT ||
			  prebuilt_msg_send_ready(in) < 0))
		_exit(0);
	if ((error ? prebuilt_msg_receive_last(in) : prebuilt_msg_wait(in)) < 0)
		_exit(0);
	set_name(in);
	if (polite && sched_setscheduler(0, SCHED_OTHER, &none) < 0 && !error)
		error = errno;
	if (error)
		leave_failed(in, step, error);
	if (dedicated)
		fingerprint_unpin(in->steps.fingerprint);
}

/* Runs every step of the init, in one pass or, if prebuilt, in two. */
static void make_sandbox(struct init *in)
{
	enum sandbox_step step = STEP_CLONE;
	if (in->steps.prebuilt_fd >= 0)
		wait_for_command(in);
	else if (steps_run(&in->steps, STEP_PREBUILT, &step) < 0)
		leave_failed(in, step, errno);
	if (in->steps.fingerprint)
		return;
	if (steps_run(&in->steps, STEP_IN_INIT, &step) < 0)
		leave_failed(in, step, errno);
	step = missing_layer(in);
	if (step == STEP_PROC)
		step_path(&in->steps, userns_path(USERNS_PROC));
	else if (step == STEP_LANDLOCK && in->steps.outer_root)
		step_path(&in->steps, "--net host, which shows root's command here to the host's abstract sockets");
	if (step != STEP_COUNT)
		leave_failed(in, step, EOPNOTSUPP);
}

/* Sleeps until the command's exec or exit. The child must not modify this stack frame. */
static pid_t start_command(struct init *in)
{
	spare_init(in, "200");
	pid_t pid = vfork();
	if (pid == 0) {
		exec_command(in);
		_exit(127);
	}
	spare_init(in, "0");
	return pid;
}

static pid_t reap_one(struct watch *w, int flags, bool killed)
{
	int status;
	pid_t pid = waitpid(-1, &status, flags);
	if (pid > 0 && pid == w->command) {
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

/* Kills every other process of the namespace; returns when none is left. */
static void kill_tree(struct watch *w)
{
	do {
		kill(-1, SIGKILL); /* repeated before each wait: a dying process may have forked */
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

static void report_command_exit(const struct watch *w)
{
	const struct status_msg m = { .kind = STATUS_COMMAND_EXITED, .wait_status = w->status };
	send_status(w->in->steps.status_fd, &m);
}

/* Each name is reported once, up to a limit: this bounds how many messages a command can cause. */
static bool is_new_name(struct watch *w, const char *name)
{
	uint64_t hash = 14695981039346656037u;
	for (const char *p = name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 1099511628211u;
	for (size_t i = 0; i < w->nnames; i++) {
		if (w->names[i] == hash)
			return false;
	}
	if (w->nnames == NAMES_MAX)
		return false;
	w->names[w->nnames++] = hash;
	return true;
}

/*
 * Programs look up their own host name at start and reverse names when they log; blocking those is not worth a report.
 */
static bool is_own_name(const char *name)
{
	struct utsname own;
	size_t n = strlen(name);
	return (n > 5 && strcmp(name + n - 5, ".arpa") == 0) ||
	       (uname(&own) == 0 && strcasecmp(own.nodename, name) == 0);
}

/*
 * Reports a lookup before it replies, so that the report precedes the end of a command that waits for the reply. Best
 * effort: never waits for a runtime that does not read.
 */
static void answer_lookups(struct watch *w)
{
	for (int i = 0; i < LOOKUPS_A_TURN; i++) {
		unsigned char packet[RESOLVER_PACKET_MAX];
		struct sockaddr_in from;
		socklen_t len = sizeof from;
		struct status_msg m = { .kind = STATUS_LOOKUP };
		ssize_t n = recvfrom(w->in->steps.resolver_fd, packet, sizeof packet, MSG_DONTWAIT,
				     (struct sockaddr *)&from, &len);
		if (n < 0)
			return;
		size_t answer = refusing_resolver_reply(packet, (size_t)n, m.path);
		if (m.path[0] && !is_own_name(m.path) && is_new_name(w, m.path))
			(void)!fd_send(w->in->steps.status_fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (answer)
			(void)!sendto(w->in->steps.resolver_fd, packet, answer, MSG_DONTWAIT, (struct sockaddr *)&from,
				      len);
	}
}

/* Handles one request of the runtime. Returns true if the tree was killed. */
static bool receive_request(struct watch *w)
{
	struct status_msg m;
	ssize_t n = recv(w->in->steps.status_fd, &m, sizeof m, MSG_DONTWAIT);
	if (n == 0)
		_exit(1);
	if (n < (ssize_t)STATUS_MSG_LEAST)
		return false;
	if (m.kind == STATUS_SIGNAL && m.signal == 0) {
		if (w->ended)
			report_command_exit(w);
		return false;
	}
	if (m.kind == STATUS_SIGNAL && m.signal < NSIG)
		signal_command(w, (int)m.signal);
	if (m.kind != STATUS_KILL_TREE)
		return false;
	if (!w->ended)
		w->cause = STATUS_CAUSE_KILLED;
	kill_tree(w);
	return true;
}

static uint64_t time_us(struct timeval t) { return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec; }

static bool past_cpu_limit(const struct watch *w)
{
	const struct init *in = w->in;
	struct rusage u;
	int stat = in->steps.tree.file[TREE_FILE_CPU_TIME];
	if (stat >= 0)
		return (cputime_cgroup_us(stat) - w->cpu_before_us) / 1000 >= in->steps.plan->cpu_ms;
	getrusage(RUSAGE_CHILDREN, &u);
	uint64_t us = cputime_tree_us() + time_us(u.ru_utime) + time_us(u.ru_stime);
	return us / 1000 >= in->steps.plan->cpu_ms;
}

/* True at most once every CPU_POLL_MS. */
static bool is_due(uint64_t *at_ms)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	uint64_t now_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
	if (now_ms < *at_ms)
		return false;
	*at_ms = now_ms + CPU_POLL_MS;
	return true;
}

/* Runs until the command has ended and, unless PLAN_KEEP_TREE, its tree is gone; or until the tree was killed. */
static void watch_tree(struct watch *w)
{
	const struct init *in = w->in;
	bool cpu = in->steps.plan->cpu_ms != PLAN_UNLIMITED &&
		   (in->steps.tree.file[TREE_FILE_CPU_TIME] >= 0 || in->steps.layers & PLAN_LAYER_MOUNTS);
	bool keep = in->steps.plan->flags & PLAN_KEEP_TREE;
	struct pollfd p[4] = {
		{ .fd = w->signal_fd, .events = POLLIN },
		{ .fd = in->steps.status_fd, .events = POLLIN },
		{ .fd = in->steps.guard_pidfd, .events = POLLIN },
		{ .fd = in->steps.resolver_fd, .events = POLLIN },
	};
	bool more = false, reported = false;
	uint64_t poll_ms = 0;
	for (;;) {
		int n = poll(p, 4, more ? 0 : cpu ? CPU_POLL_MS : -1);
		if (n > 0 && p[2].revents)
			_exit(1);
		if (more || (n > 0 && p[0].revents)) {
			struct signalfd_siginfo info;
			(void)!read(w->signal_fd, &info, sizeof info);
			more = reap_children(w);
			/*
			 * Every process left is a child of the init or descends from one, so ECHILD means that none is
			 * left.
			 */
			if (w->ended && !more && errno == ECHILD)
				return;
			if (w->ended && !keep) {
				kill_tree(w);
				return;
			}
			if (w->ended && !reported) {
				reported = true;
				report_command_exit(w);
			}
		}
		if (n > 0 && p[1].revents && receive_request(w))
			return;
		if (n > 0 && p[3].revents)
			answer_lookups(w);
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
	w->autorun = autorun_new(plan);
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

/* Reads the cgroup's counters and subtracts the init's own share. */
static void count_tree(const struct tree_files *f, struct tree_count *ret)
{
	struct rusage self;
	tree_files_read(f, ret);
	getrusage(RUSAGE_SELF, &self);
	ret->user_us = subtract_own(ret->user_us, time_us(self.ru_utime));
	ret->system_us = subtract_own(ret->system_us, time_us(self.ru_stime));
	ret->pids_peak = subtract_own(ret->pids_peak, 1);
}

static void report_exit(const struct watch *w)
{
	struct rusage u;
	struct tree_count count;
	getrusage(RUSAGE_CHILDREN, &u);
	count_tree(&w->in->steps.tree, &count);
	struct status_msg m = {
		.kind = STATUS_EXITED,
		.cause = w->cause,
		.wait_status = w->status,
		.left_behind = w->left_behind,
		.tmp_full = tmp_full(w->in),
		.autorun = w->autorun_state,
		.user_us = time_us(u.ru_utime),
		.system_us = time_us(u.ru_stime),
		.max_rss_bytes = (uint64_t)u.ru_maxrss * 1024,
		.minor_faults = (uint64_t)u.ru_minflt,
		.major_faults = (uint64_t)u.ru_majflt,
		.in_blocks = (uint64_t)u.ru_inblock,
		.out_blocks = (uint64_t)u.ru_oublock,
		.voluntary_switches = (uint64_t)u.ru_nvcsw,
		.involuntary_switches = (uint64_t)u.ru_nivcsw,
		.oom_kills = count.oom_kills,
		.pids_refused = count.pids_refused,
		.count = count,
	};
	send_status_with(w->in->steps.status_fd, &m, w->report, -1);
}

static void close_command_ends(struct step_context *c)
{
	fd_close(&c->stdin_fd);
	fd_close(&c->stdout_fd);
	fd_close(&c->stderr_fd);
	fd_close(&c->gate_fd);
}

_Noreturn void init_main(struct init *in)
{
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_SETMASK, &child, NULL);
	if (in->steps.prebuilt_fd >= 0)
		process_title_set(in->title, "bailiffd: zygote");
	else
		set_name(in);
	reset_oom_score(in);
	if (in->leaf_fd >= 0)
		tree_files_open_v2(&in->steps.tree, in->leaf_fd);
	/*
	 * Must run while the host's /proc is mounted and the capability is held. The command and its children inherit
	 * the session.
	 */
	uint32_t session = in->audit ? audit_enter_session() : AUDIT_NO_SESSION;
	in->steps.logged = session != AUDIT_NO_SESSION;

	make_sandbox(in);
	struct status_msg ready = { .kind = STATUS_READY, .layers = in->steps.layers, .session = session };
	send_status_with(in->steps.status_fd, &ready, in->steps.master_fd, in->steps.listen_fd);
	fd_close(&in->steps.master_fd);
	fd_close(&in->steps.listen_fd);

	struct watch w = { .in = in, .signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK), .report = -1 };
	examine_before(&w);
	if (in->steps.tree.file[TREE_FILE_CPU_TIME] >= 0 && in->steps.plan->cpu_ms != PLAN_UNLIMITED)
		w.cpu_before_us = cputime_cgroup_us(in->steps.tree.file[TREE_FILE_CPU_TIME]);
	in->reached = STEP_SESSION;
	in->error = 0;
	if (w.signal_fd < 0 || (w.command = start_command(in)) < 0)
		leave_failed(in, STEP_EXEC, errno);
	close_command_ends(&in->steps);
	if (in->error || in->reached != STEP_EXEC)
		leave_failed(in, in->reached, in->error ? in->error : EINTR);
	struct status_msg execed = { .kind = STATUS_EXECED };
	send_status(in->steps.status_fd, &execed);

	watch_tree(&w);
	examine_after(&w);
	placeholder_helper_finish(in->steps.placeholder_fd);
	report_exit(&w);
	_exit(0);
}
