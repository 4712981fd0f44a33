#include "supervisor/spawner/spawner.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "sandbox/audit.h"
#include "sandbox/capability.h"
#include "sandbox/init_name.h"
#include "sandbox/steps.h"
#include "supervisor/guard/guard_msg.h"
#include "supervisor/spawner/descendants.h"
#include "supervisor/spawner/init.h"
#include "supervisor/spawner/peer_files.h"
#include "supervisor/spawner/placeholder_helper.h"
#include "supervisor/spawner/prebuilt_msg.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * How long the spawner waits without a message before it prebuilds. After a start the wait is long: most commands are
 * short, and prebuilding while one ends delays its end on machines with few CPUs. If starts follow each other closely,
 * that idle time would never come and no start would find anything prebuilt, so the work is done while a command runs.
 */
#define NAME_TRIES 3
#define IDLE_STARTED_MS 30
#define IDLE_BUSY_MS 1
#define IDLE_ENDED_MS 1
#define BUSY_NS (8 * 1000000ull) /* between two starts */
#define HELPERS_MS 500           /* helpers exit without notification, so they are polled */

/* An invalid message means that the sender is faulty or compromised: exit and let the guard restart the spawner. */
static _Noreturn void exit_with_error(const char *what)
{
	log_error("%s; leaving", what);
	_exit(1);
}

/*
 * Not an error if the runtime died meanwhile: its successor queries the guard. After any other failure the runtime
 * would wait for this answer for ever; it recovers from a spawner that is gone.
 */
static void answer_runtime(struct spawner *s, const struct spawn_msg *m, const int *fds, size_t nfds)
{
	if (fd_send(s->peer_fd, m, sizeof *m, fds, nfds, 0) < 0 && errno != EPIPE && errno != ECONNRESET) {
		log_error("answer the runtime: %s; leaving", strerror(errno));
		_exit(1);
	}
}

static void deposit_init(struct spawner *s, const struct plan_key *key, pid_t pid, int pidfd)
{
	struct guard_msg m = { .kind = GUARD_DEPOSIT, .slots = 1u << GUARD_SLOT_PIDFD, .pid = pid, .key = *key };
	if (fd_send(s->guard_fd, &m, sizeof m, &pidfd, 1, 0) < 0) {
		int errnum = errno;
		fd_pidfd_signal(pidfd, SIGKILL); /* no other process knows of it */
		log_error("deposit a sandbox's init with the guard: %s", strerror(errnum));
		_exit(1);
	}
}

/* True if starts follow each other closely. */
static bool is_busy(const struct spawner *s, uint64_t now) { return now - s->started_ns < BUSY_NS; }

static void fail_start(struct spawner *s, struct spawn_msg *answer, const struct err *e)
{
	answer->kind = SPAWN_FAILED;
	answer->step = e->code == ERR_UNAVAILABLE ? STEP_LIMITS : STEP_CLONE;
	answer->error = e->sys                       ? e->sys
			: e->code == ERR_NOT_ALLOWED ? EPERM
			: e->code == ERR_UNAVAILABLE ? EOPNOTSUPP
						     : EINVAL;
	answer->reason = e->reason;
	snprintf(answer->path, sizeof answer->path, "%.63s%s%.440s", e->field, e->field[0] ? ": " : "", e->message);
	answer_runtime(s, answer, NULL, 0);
}

static void on_start(struct spawner *s, const struct spawn_msg *m, const int *fds)
{
	struct start_fds f;
	struct spawn_msg answer = { .kind = SPAWN_STARTED, .key = m->key };
	struct err e = ERR_INIT;
	fd_auto int pidfd = -1;
	start_fds_assign(&f, m, fds);
	uint64_t now = clock_boot_ns();
	s->busy = is_busy(s, now);
	cpu_affinity_avoid(&s->affinity, s->busy ? -1 : m->cpu);
	s->idle_ms = s->busy ? IDLE_BUSY_MS : IDLE_STARTED_MS;
	s->started_ns = now;
	if (start_sandbox(s, m, &f, &answer, &pidfd, &e) < 0) {
		fail_start(s, &answer, &e);
		return;
	}
	deposit_init(s, &m->key, answer.pid, pidfd);
	answer_runtime(s, &answer, &pidfd, 1);
	fd_close(&s->done_link);
	struct prebuilt_kind *k = s->busy ? prebuilt_missed_kind(&s->prebuilt) : NULL;
	if (k)
		start_prebuilt(s, k);
}

static void on_sync(struct spawner *s, const struct spawn_msg *m, const int *fds)
{
	struct spawn_msg answer = { .kind = SPAWN_SYNCED, .key = m->key };
	answer_runtime(s, &answer, NULL, 0);
}

static void on_clean(struct spawner *s, const struct spawn_msg *m, const int *fds)
{
	s->idle_ms = IDLE_ENDED_MS;
	cpu_affinity_avoid(&s->affinity, s->busy ? -1 : m->cpu);
	if (prebuilt_take_back(&s->prebuilt, &m->key))
		return;
	struct plan_key leaf = prebuilt_forget_leaf(&s->prebuilt, &m->key);
	if (member_limits_remove(s, &m->key))
		return;
	if (!cgroup_tree_remove(&s->cgroup, &leaf))
		cgroup_tree_sweep(&s->cgroup, s->prebuilt.name);
	tree_limiter_remove(&s->limiter, &m->key);
	idmap_release(&s->idmap, &m->key);
}

static void on_mark(struct spawner *s, const struct spawn_msg *m, const int *fds)
{
	if (s->audit_fd >= 0 && audit_mark(s->audit_fd, m->token) < 0)
		log_warning("mark the audit records: %s", strerror(errno));
}

/*
 * Whether the client connected through the control socket and, before host files are changed in root's name, is
 * present.
 */
static bool may_change(const struct spawner *s, enum change_op op, const int *fds)
{
	struct ucred cred;
	socklen_t len = sizeof cred;
	if (!change_op_needs_client(op))
		return true;
	if (!spawner_client_came_in(s, fds[2]) || getsockopt(fds[2], SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	return op == CHANGE_OP_DISCARD || !s->privileged || cred.uid != 0 || authority_is_present(fds[2]);
}

static void on_changes(struct spawner *s, const struct spawn_msg *m, const int *fds)
{
	struct spawn_msg answer = { .kind = SPAWN_CHANGED, .key = m->key };
	answer.error = may_change(s, (enum change_op)m->op, fds) ? cow_start(&s->cow, m, fds) : EPERM;
	if (answer.error)
		answer_runtime(s, &answer, NULL, 0);
}

static int peer_files_is_allowed(const struct spawner *s, const struct spawn_msg *m, const struct spawn_identity *peer,
				 int client, struct err *e)
{
	if (m->op != PEER_FILES_WRITE || !s->privileged || peer->peer_uid != 0 || authority_is_present(client))
		return 0;
	return err_set(e, ERR_NOT_ALLOWED, "root's policy is not written for a client that is gone");
}

/* If denied, the reply socket is closed without a message. */
static void on_peer_files(struct spawner *s, const struct spawn_msg *m, const int *fds)
{
	struct spawn_identity peer;
	struct err e = ERR_INIT;
	if (spawner_peer(s, fds[PEER_FILES_FD_CLIENT], &peer, &e) < 0 ||
	    peer_files_is_allowed(s, m, &peer, fds[PEER_FILES_FD_CLIENT], &e) < 0 ||
	    peer_files_start(s, (enum peer_files_op)m->op, &peer, fds, &e) < 0)
		log_warning("look for a policy file: %s", e.message);
}

/* Only to a pipe with room: a write with these rights may have an effect on other files, and must not block. */
static void confirm_grant(int fd)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode) || poll(&room, 1, 0) != 1 || room.revents != POLLOUT ||
	    write(fd, "", 1) != 1)
		log_info("the runtime does not wait for the authorisation");
}

/* The reply is a byte, after which the grant is in effect; without one the runtime repeats the request. */
static void on_grant(struct spawner *s, const struct spawn_msg *m, const int *fds)
{
	struct spawn_identity peer;
	struct err e = ERR_INIT;
	buf_auto struct buf paths = BUF_INIT;
	if (spawner_peer(s, fds[GRANT_FD_CLIENT], &peer, &e) < 0 || grant_read(fds[GRANT_FD_PATHS], &paths, &e) < 0 ||
	    (s->privileged && peer.peer_uid == 0 &&
	     authority_grant(&s->authority, fds[GRANT_FD_CLIENT], paths.data, paths.len, &e) < 0))
		log_info("what root authorises is not noted: %s", e.message);
	confirm_grant(fds[GRANT_FD_DONE]);
}

static void on_announce(struct spawner *s, const struct spawn_msg *m, const int *fds)
{
	cpu_affinity_avoid(&s->affinity, is_busy(s, clock_boot_ns()) ? -1 : m->cpu);
	prebuilt_check_early(&s->prebuilt, m->hint, m->token);
}

static void on_limit(struct spawner *s, const struct spawn_msg *m, int *fds)
{
	struct spawn_msg answer = { .kind = SPAWN_LIMITED, .key = m->key };
	struct err e = ERR_INIT;
	if (member_limits_make(s, m, fds, &e) < 0)
		fail_start(s, &answer, &e);
	else
		answer_runtime(s, &answer, NULL, 0);
}

static void reap_helper(struct spawner *s, int pidfd)
{
	struct spawn_msg answer = { .kind = SPAWN_CHANGED };
	if (cow_reap(&s->cow, pidfd, &answer))
		answer_runtime(s, &answer, NULL, 0);
}

static void dispatch_message(struct spawner *s, const struct spawn_msg *m, int *fds)
{
	if (m->kind == SPAWN_LIMIT) {
		on_limit(s, m, fds);
		return;
	}
	static void (*const handlers[])(struct spawner * s, const struct spawn_msg *m, const int *fds) = {
		[SPAWN_START] = on_start,       [SPAWN_SYNC] = on_sync,   [SPAWN_CLEAN] = on_clean,
		[SPAWN_CHANGES] = on_changes,   [SPAWN_MARK] = on_mark,   [SPAWN_PEER_FILES] = on_peer_files,
		[SPAWN_ANNOUNCE] = on_announce, [SPAWN_GRANT] = on_grant,
	};
	handlers[m->kind](s, m, fds);
}

/* Handles one message. Returns false when the runtime's end is closed or, with MSG_DONTWAIT, when none is queued. */
static bool receive_message(struct spawner *s, int flags)
{
	const struct spawn_msg *m = &s->spawn_msg_buffer->msg;
	int fds[FD_MESSAGE_MAX];
	size_t nfds = countof(fds);
	ssize_t n = fd_recv(s->peer_fd, s->spawn_msg_buffer, sizeof *s->spawn_msg_buffer, fds, &nfds, flags);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n == 0) {
		fd_close(&s->peer_fd);
		return false;
	}
	struct err e = ERR_INIT;
	if (n < 0)
		exit_with_error(errno == EMSGSIZE ? "too long a message from the runtime" : strerror(errno));
	if (spawn_msg_check(m, (size_t)n, nfds, &e) < 0)
		exit_with_error(e.message);
	dispatch_message(s, m, fds);
	/* Sandboxes are cloned from this memory: none may contain anything of another command. */
	explicit_bzero(s->spawn_msg_buffer, (size_t)n);
	for (size_t i = 0; i < nfds; i++)
		fd_close(&fds[i]);
	return true;
}

/*
 * A new runtime was started. Handle the previous one's queued requests first, so that SYNC on the new link covers them.
 * The sender is dead, so the loop terminates.
 */
static void replace_peer(struct spawner *s, int fd)
{
	while (s->peer_fd >= 0 && receive_message(s, 0))
		continue;
	fd_close(&s->peer_fd);
	s->peer_fd = fd;
}

/* Returns false if the guard is gone or asks the spawner to exit. */
static bool receive_guard_message(struct spawner *s)
{
	struct guard_msg m;
	int fd = -1;
	size_t nfds = 1;
	ssize_t n = fd_recv(s->guard_fd, &m, sizeof m, &fd, &nfds, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return true;
	if (n <= 0)
		return false;
	if (n != (ssize_t)sizeof m || m.kind != GUARD_PEER || nfds != 1)
		exit_with_error("an unexpected message from the guard");
	replace_peer(s, fd);
	return true;
}

/*
 * Capabilities needed to build sandboxes for other users. Root in a container usually lacks some of them and then
 * builds sandboxes like an unprivileged user, in user namespaces. Hence the check of capabilities instead of the uid.
 */
static bool has_capabilities(void)
{
	static const int needed[] = { CAP_SYS_ADMIN,    CAP_SETUID,  CAP_SETGID,   CAP_CHOWN,
				      CAP_DAC_OVERRIDE, CAP_SETPCAP, CAP_NET_ADMIN };
	for (size_t i = 0; i < countof(needed); i++) {
		if (!capability_has(needed[i]))
			return false;
	}
	return true;
}

/*
 * The kernel must not end the daemon for memory that commands take: a command has a higher score than the daemon. That
 * of a privileged daemon is below 0 (supervisor/daemon/main.c).
 */
static int sandbox_oom_score(void)
{
	char text[16] = "";
	fd_auto int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
	const long own = fd >= 0 && read(fd, text, sizeof text - 1) > 0 ? strtol(text, NULL, 10) : 0;
	return own < 0 ? 0 : own > OOM_SCORE_RAISED ? (int)own : OOM_SCORE_RAISED;
}

/* Commands must not inherit a raised priority of the daemon: clones get the default priority or a lower one. */
static void keep_priority(void)
{
	struct sched_param param;
	int policy = sched_getscheduler(0);
	if (policy < 0 || sched_getparam(0, &param) < 0 ||
	    sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &param) < 0)
		log_warning("commands have the daemon's own priority: %s", strerror(errno));
	long io = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
	if (io >= 0 && IOPRIO_PRIO_CLASS(io) == IOPRIO_CLASS_RT)
		syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_NONE, 0));
}

/* Commands need a core limit of 1 (sandbox/steps/step_limits.c); a hard limit of 0 would not allow that. */
static void permit_core_limit(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_CORE, &r) < 0 || r.rlim_max > 0)
		return;
	r.rlim_max = 1;
	if (setrlimit(RLIMIT_CORE, &r) < 0)
		log_debug("raise the limit of cores: %s", strerror(errno)); /* requires privilege */
}

/*
 * Commands inherit which signals are ignored, and the daemon's parent may have left some. Uses the raw system call:
 * glibc's sigaction rejects the two signals that it reserves.
 */
static void reset_signals(void)
{
	static const unsigned long
		plain[4]; /* the kernel's struct sigaction: SIG_DFL, no flags, no restorer, empty mask */

	for (int sig = 1; sig <= 64; sig++) {
		if (sig != SIGKILL && sig != SIGSTOP)
			syscall(SYS_rt_sigaction, sig, plain, NULL, sizeof(unsigned long));
	}
}

/*
 * A child or the runtime can end just before the spawner writes to its pipe. Blocked and not ignored: commands inherit
 * what is ignored, and their masks are emptied (sandbox/steps/step_command.c).
 */
static void block_pipe_signal(void)
{
	sigset_t pipe;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigprocmask(SIG_BLOCK, &pipe, NULL);
}

static void note_init(void *ctx, int process_fd, const char *stat)
{
	bool *found = ctx;
	*found |= strstr(stat, "(" SANDBOX_INIT_NAME ")") != NULL;
}

/* Whether sandboxes of an earlier spawner run a command. */
static bool has_unknown_commands(void)
{
	bool found = false;
	return !descendants_each(getppid(), NULL, 0, note_init, &found) || found;
}

static void setup_spawner(struct spawner *s, const struct spawner_options *o)
{
	keep_priority();
	permit_core_limit();
	reset_signals();
	block_pipe_signal();
	capability_prepare();
	*s = (struct spawner){
		.guard_fd = GUARD_FD_LINK,
		.peer_fd = GUARD_FD_PEER,
		.guard_pidfd = GUARD_FD_GUARD_PIDFD,
		.privileged = geteuid() == 0 && has_capabilities(),
		.oom_score = sandbox_oom_score(),
		.title = o->title,
		.allow_host = o->allow_host,
		.policy_file = o->policy_file,
		.done_link = -1,
		.spawn_msg_buffer = mem_zalloc(1, sizeof *s->spawn_msg_buffer),
		.prebuilt_msg_buffer = mem_zalloc(1, sizeof *s->prebuilt_msg_buffer),
		.fingerprint = mem_zalloc(1, sizeof *s->fingerprint),
		.groups = mem_alloc(NGROUPS_MAX * sizeof(gid_t)),
		.strings = mem_alloc((2 * PLAN_ARGS_MAX + 4) * sizeof(char *)),
	};
	/* Root does not need them, and fingerprint_matches restores to an empty list. */
	if (s->privileged && syscall(SYS_setgroups, 0, NULL) < 0)
		s->privileged = false;
	/*
	 * The spawner executes nothing itself, and a command without a sandbox, which may keep root's capabilities, is
	 * rejected: then no process below ever needs the set, and each init saves a call per capability.
	 */
	if (s->privileged && !s->allow_host) {
		capability_drop_bounds();
		s->bounded = true;
	}
	s->listen_len = 0; /* no client can have connected there */
	for (int i = 0; i < NAME_TRIES && !s->listen_len; i++) {
		socklen_t len = sizeof s->listen_name;
		if (getsockname(GUARD_FD_LISTEN, (struct sockaddr *)&s->listen_name, &len) == 0)
			s->listen_len = len;
	}
	close(GUARD_FD_LISTEN);
	s->audit_fd = o->audit && s->privileged ? audit_open() : -1;
	idmap_init(&s->idmap, o->runtime_uid);
	netpool_init(&s->netpool, s->privileged);
	cow_init(&s->cow, fcntl(GUARD_FD_COW, F_GETFD) < 0 ? -1 : GUARD_FD_COW, s->privileged);
	if (s->cow.fd >= 0)
		fd_cloexec(s->cow.fd, true);
	authority_init(&s->authority, o->run_dir, o->state_dir, o->config_dir);
	fd_cloexec(s->guard_fd, true);
	fd_cloexec(s->peer_fd, true);
	fd_cloexec(s->guard_pidfd, true);
	cpu_affinity_init(&s->affinity);
	struct err e = ERR_INIT;
	if (cgroup_tree_open(&s->cgroup, o->cgroup_base->path, o->cgroup_tag, &e) < 0)
		log_info("no cgroups for sandboxes: %s", e.message);
	socket_counter_open(&s->sockets, s->privileged ? s->cgroup.fd : -1);
	tree_limiter_open(&s->limiter, o->cgroup_base, o->cgroup_tag);
	prebuilt_pool_init(&s->prebuilt, &s->cgroup, &s->idmap, &s->netpool, s->privileged, o->zygotes, o->spare_ms);
	s->prebuilt.unknown_commands = has_unknown_commands();
	/* Cgroups of a spawner that died: its unused sandboxes exited with it. */
	cgroup_tree_sweep(&s->cgroup, s->prebuilt.name);
	s->has_filter = sysfilter_build(&s->filter, &e) == 0;
	if (!s->has_filter)
		log_info("no seccomp for sandboxes: %s", e.message);
}

static bool has_chores(struct spawner *s)
{
	return prebuilt_has_garbage(&s->prebuilt) || netpool_is_short(&s->netpool) ||
	       prebuilt_wanted_kind(&s->prebuilt);
}

/*
 * Does one piece of idle work: cleans up after ended commands or prebuilds. Network namespaces come first, because
 * prebuilt sandboxes use them.
 */
static void do_chore(struct spawner *s)
{
	struct prebuilt_kind *k = prebuilt_wanted_kind(&s->prebuilt);
	if (prebuilt_has_garbage(&s->prebuilt))
		prebuilt_collect_garbage(&s->prebuilt);
	else if (netpool_is_short(&s->netpool))
		netpool_fill(&s->netpool);
	else if (k)
		start_prebuilt(s, k);
}

static int earlier_ms(int a, int b) { return a < 0 || (b >= 0 && b < a) ? b : a; }

static int wait_ms(struct spawner *s, bool chores, bool idle)
{
	int ms = earlier_ms(cgroup_tree_tick(&s->cgroup), prebuilt_expire(&s->prebuilt));
	ms = earlier_ms(ms, member_limits_tick(s));
	ms = earlier_ms(ms, placeholder_helper_reap() ? HELPERS_MS : -1);
	return earlier_ms(ms, !chores ? -1 : idle ? 0 : s->idle_ms);
}

enum { POLL_GUARD, POLL_PEER, POLL_MOUNTS, POLL_HELPERS };

/* What the spawner waits for: the fixed descriptors, then those of helpers, prebuilt sandboxes and joining members. */
struct polls {
	struct pollfd all[POLL_HELPERS + CHANGE_HELPERS_MAX + PREBUILT_POLLS_MAX + MEMBER_LIMITS_POLLS_MAX];
	struct pollfd *helper, *prebuilt, *joining; /* parts of `all` */
	size_t nhelpers, nprebuilt, njoining;
};

static void polls_fill(struct spawner *s, struct polls *ret)
{
	int helper[CHANGE_HELPERS_MAX], joining[MEMBER_LIMITS_POLLS_MAX];
	ret->all[POLL_GUARD] = (struct pollfd){ .fd = s->guard_fd, .events = POLLIN };
	ret->all[POLL_PEER] = (struct pollfd){ .fd = s->peer_fd, .events = POLLIN };
	ret->all[POLL_MOUNTS] = (struct pollfd){ .fd = s->prebuilt.mounts_fd, .events = POLLPRI };
	ret->helper = ret->all + POLL_HELPERS;
	ret->nhelpers = cow_polls(&s->cow, helper);
	for (size_t i = 0; i < ret->nhelpers; i++)
		ret->helper[i] = (struct pollfd){ .fd = helper[i], .events = POLLIN };
	ret->prebuilt = ret->helper + ret->nhelpers;
	ret->nprebuilt = prebuilt_polls(&s->prebuilt, ret->prebuilt);
	ret->joining = ret->prebuilt + ret->nprebuilt;
	ret->njoining = member_limits_polls(&s->members, joining);
	for (size_t i = 0; i < ret->njoining; i++)
		ret->joining[i] = (struct pollfd){ .fd = joining[i], .events = POLLIN };
}

static int polls_wait(struct polls *p, int ms)
{
	return poll(p->all, POLL_HELPERS + p->nhelpers + p->nprebuilt + p->njoining, ms);
}

/* False: the guard's link is closed. */
static bool polls_handle(struct spawner *s, const struct polls *p)
{
	if (p->all[POLL_MOUNTS].revents) {
		prebuilt_drop_all(&s->prebuilt);
		idmap_forget_devices(&s->idmap);
	}
	for (size_t i = 0; i < p->nhelpers; i++) {
		if (p->helper[i].revents)
			reap_helper(s, p->helper[i].fd);
	}
	for (size_t i = 0; i < p->nprebuilt; i++) {
		if (p->prebuilt[i].revents)
			prebuilt_on_ready(&s->prebuilt, p->prebuilt[i].fd);
	}
	for (size_t i = 0; i < p->njoining; i++) {
		if (p->joining[i].revents)
			member_limits_on_request(s, p->joining[i].fd);
	}
	/* The runtime's link first: a new link must not overtake messages on the old one. */
	if (p->all[POLL_PEER].revents)
		receive_message(s, MSG_DONTWAIT);
	return !p->all[POLL_GUARD].revents || receive_guard_message(s);
}

static void spawner_done(struct spawner *s)
{
	prebuilt_pool_done(&s->prebuilt);
	member_limits_done(s);
	socket_counter_close(&s->sockets);
	cgroup_tree_close(&s->cgroup);
	tree_limiter_close(&s->limiter);
	sysfilter_done(&s->filter);
	fd_close(&s->audit_fd);
	idmap_done(&s->idmap);
	authority_done(&s->authority);
	netpool_done(&s->netpool);
	free(s->spawn_msg_buffer);
	free(s->prebuilt_msg_buffer);
	free(s->fingerprint);
	free(s->groups);
	free(s->strings);
}

int spawner_main(const struct spawner_options *o)
{
	struct spawner s;
	setup_spawner(&s, o);
	struct guard_msg ready = { .kind = GUARD_READY };
	if (fd_send(s.guard_fd, &ready, sizeof ready, NULL, 0, 0) < 0)
		return 1;
	for (bool idle = false;;) {
		struct polls p;
		polls_fill(&s, &p);
		bool chores = has_chores(&s);
		int n = polls_wait(&p, wait_ms(&s, chores, idle));
		if (n < 0 && errno != EINTR)
			return 1;
		idle = n == 0 && chores;
		if (idle)
			do_chore(&s);
		if (n > 0 && !polls_handle(&s, &p))
			break;
	}
	spawner_done(&s);
	return 0;
}
