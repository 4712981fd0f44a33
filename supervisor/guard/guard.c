/*
 * Each iteration of the loop handles signals, receives the children's messages, reaps and restarts dead children, reaps
 * inits that are being released, and sends pending messages to the children. Pending messages are kept as state (a
 * flag, an index, an entry that is GONE) instead of a queue, so no child can make the guard block or allocate.
 *
 * Deposits are never lost: a message stays in the guard's socket even if its sender dies. So a dead child's link is
 * read to the end before its successor is started, and the spawner's link before the hand-over to a new runtime.
 *
 * The guard must not die: every init watches its pidfd, so all commands would die with it. Hence it parses no client's
 * input, its loop waits for no child, and errors of the kernel are retried.
 */

#include "supervisor/guard/guard.h"
#include "supervisor/guard/policy_watch.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WATCHED_FILES                                                                                   \
	(GUARD_FILES - GUARD_FILE_POLICY) /* all but the configuration, which is read only at the start \
					   */
#define SEC_NS 1000000000ull
#define STOP_LIMIT_NS (20 * SEC_NS) /* in addition to the grace period of commands: for draining and recording */
#define POLL_RETRY_NS (SEC_NS / 20)
#define LEAVE_LIMIT_MS 5000
#define SPAWNER_LIMIT_MS 2000
#define OTLP_LIMIT_MS 1000
#define FIRST_STARTS_MAX 8
#define MESSAGES_A_TURN 256
#define NOFILE_WANTED 65536
#define TOGETHER_NS (SEC_NS / 100) /* messages about members that come within this time are read together */

static void leave_loop(struct guard *g, int status)
{
	g->leaving = true;
	g->status = status;
}

/* ---- messages from the children ---- */

/* What cannot be kept must not run: its init is killed, and reaped as a stray. */
static void on_deposit(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds)
{
	struct fd_store_entry *en = fd_store_get(&g->store, &m->key);
	if (!en || en->state != FD_STORE_HELD) {
		if (!en)
			log_error("the descriptor store is full: %s is not kept", m->key.id);
		if (m->slots & 1u << GUARD_SLOT_PIDFD)
			fd_pidfd_signal(fds[__builtin_popcount(m->slots & ((1u << GUARD_SLOT_PIDFD) - 1))], SIGKILL);
		for (int i = 0; i < __builtin_popcount(m->slots); i++)
			fd_close(&fds[i]);
		g->strays = true;
		return;
	}
	fd_store_deposit(&g->store, en, m->slots, fds, m->pid);
}

static void on_withdraw(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds)
{
	struct fd_store_entry *en = fd_store_find(&g->store, &m->key);
	if (en && en->state == FD_STORE_HELD)
		fd_store_withdraw(&g->store, en, m->slots & ~(1u << GUARD_SLOT_PIDFD));
}

static void receive_messages(struct guard *g, struct guard_child *c, unsigned most);

static void on_kill(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds)
{
	struct fd_store_entry *en = fd_store_find(&g->store, &m->key);
	if (!en || en->fd[GUARD_SLOT_PIDFD] < 0) {
		receive_messages(g, &g->child[GUARD_SPAWNER],
				 MESSAGES_A_TURN); /* the init's pidfd may still be queued */
		en = fd_store_find(&g->store, &m->key);
	}
	if (en)
		fd_store_kill(en);
}

static void on_release(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds)
{
	if (m->value != GUARD_RELEASE_MEMBER)
		receive_messages(g, &g->child[GUARD_SPAWNER], MESSAGES_A_TURN); /* the init's pidfd may be queued */
	struct fd_store_entry *en = fd_store_get(&g->store, &m->key);
	if (!en) {
		log_error("the descriptor store is full: no answer for %s", m->key.id);
		return;
	}
	en->answer = c->pid != 0 && m->value != GUARD_RELEASE_MEMBER;
	fd_store_release(&g->store, en, m->value == GUARD_RELEASE_KEPT);
}

static void on_next(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds)
{
	receive_messages(g, &g->child[GUARD_SPAWNER], GUARD_ENTRIES_MAX);
	c->tell_next = true;
	c->next_index = m->index;
}

/* The first READY of a runtime tells the invoking command that the daemon serves. */
static void on_ready(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds)
{
	c->ready = true;
	c->failures = 0;
	c->grace_ms = m->value;
	if (c->role != GUARD_RUNTIME || g->served)
		return;
	g->served = true;
	int fd = g->o->ready_fd;
	if (fd >= 0) {
		(void)!write(fd, "R", 1);
		close(fd);
	}
}

static void on_want_proxy(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds)
{
	g->child[GUARD_PROXY].wanted = true;
}

static void on_want_reload(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds)
{
	c->tell_reload = true;
	c->reload_token = m->value;
}

/* No request is lost: those without a reply are repeated, and sandboxes do not depend on the child. */
static void on_want_restart(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds)
{
	if (m->index != GUARD_SPAWNER && m->index != GUARD_PROXY)
		return;
	log_warning("the runtime's link to the %s is broken", guard_role_name((enum guard_role)m->index));
	if (g->child[m->index].pidfd >= 0)
		fd_pidfd_signal(g->child[m->index].pidfd, SIGKILL);
}

#define BY(role) (1u << (role))
#define BY_BOTH (BY(GUARD_RUNTIME) | BY(GUARD_SPAWNER))

/* A child that sends a message without a row, or with other descriptors, is killed. */
static const struct {
	enum guard_kind kind;
	unsigned by;
	bool has_fds;
	void (*handle)(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds);
} permitted[] = {
	{ GUARD_DEPOSIT, BY_BOTH, true, on_deposit },
	{ GUARD_WITHDRAW, BY(GUARD_RUNTIME), false, on_withdraw },
	{ GUARD_KILL, BY(GUARD_RUNTIME), false, on_kill },
	{ GUARD_RELEASE, BY(GUARD_RUNTIME), false, on_release },
	{ GUARD_NEXT, BY(GUARD_RUNTIME), false, on_next },
	{ GUARD_READY, BY_BOTH | BY(GUARD_PROXY) | BY(GUARD_OTLP) | BY(GUARD_FLEET), false, on_ready },
	{ GUARD_WANT_PROXY, BY(GUARD_RUNTIME), false, on_want_proxy },
	{ GUARD_WANT_RELOAD, BY(GUARD_RUNTIME), false, on_want_reload },
	{ GUARD_WANT_RESTART, BY(GUARD_RUNTIME), false, on_want_restart },
};

/* Only the spawner deposits an init's pidfd; only the runtime deposits anything else. */
static bool slots_ok(const struct guard_child *c, const struct guard_msg *m, size_t nfds)
{
	uint32_t pidfd = 1u << GUARD_SLOT_PIDFD, all = (1u << GUARD_SLOT_COUNT) - 1;
	uint32_t allowed = c->role == GUARD_SPAWNER ? pidfd : all & ~pidfd;
	return m->slots && !(m->slots & ~allowed) && nfds == (size_t)__builtin_popcount(m->slots) &&
	       plan_key_valid(&m->key);
}

static bool handle_message(struct guard *g, struct guard_child *c, const struct guard_msg *m, int *fds, size_t nfds)
{
	for (size_t i = 0; i < countof(permitted); i++) {
		if (permitted[i].kind != m->kind || !(permitted[i].by & BY(c->role)))
			continue;
		if (permitted[i].has_fds ? !slots_ok(c, m, nfds) : nfds != 0)
			return false;
		permitted[i].handle(g, c, m, fds);
		if (m->kind == GUARD_DEPOSIT && m->value == GUARD_DEPOSIT_MEMBER)
			c->members++;
		else if (m->kind != GUARD_RELEASE || m->value != GUARD_RELEASE_MEMBER)
			c->urgent = true;
		return true;
	}
	return false;
}

/* A child that breaks the protocol is killed: the runtime parses input from clients and is not trusted. */
static void receive_messages(struct guard *g, struct guard_child *c, unsigned most)
{
	for (unsigned i = 0; c->link >= 0 && i < most; i++) {
		struct guard_msg m;
		int fds[FD_MESSAGE_MAX];
		size_t nfds = countof(fds);
		ssize_t n = fd_recv(c->link, &m, sizeof m, fds, &nfds, MSG_DONTWAIT);
		if (n < 0 && fd_recv_again(errno))
			return;
		if (n == 0 || (n < 0 && errno != EMSGSIZE)) {
			fd_close(&c->link);
			if (c->pidfd >= 0)
				fd_pidfd_signal(c->pidfd, SIGKILL); /* useless without its link */
			return;
		}
		if (n == (ssize_t)sizeof m && handle_message(g, c, &m, fds, nfds))
			continue;
		log_error("the %s sent an unexpected message (or descriptors ran out); restarting it",
			  guard_role_name(c->role));
		for (size_t j = 0; n >= 0 && j < nfds; j++)
			fd_close(&fds[j]);
		if (c->pidfd >= 0)
			fd_pidfd_signal(c->pidfd, SIGKILL);
	}
}

/* ---- messages to the children ---- */

/* Returns false if the socket is full; the loop waits until the child has read something. */
static bool send_message(struct guard_child *c, const struct guard_msg *m, const int *fds, size_t nfds)
{
	if (fd_send(c->link, m, sizeof *m, fds, nfds, MSG_DONTWAIT) == 0)
		return true;
	c->blocked = true;
	return false;
}

static bool send_next(struct guard *g, struct guard_child *c)
{
	int fds[GUARD_SLOT_COUNT];
	struct guard_msg m = { .kind = GUARD_END };
	size_t nfds = 0;
	const struct fd_store_entry *en = fd_store_next(&g->store, c->next_index);
	if (en) {
		m = (struct guard_msg){ .kind = GUARD_ITEM,
					.key = en->key,
					.pid = en->pid,
					.index = (uint32_t)(en - g->store.entries) + 1 };
		nfds = fd_store_list(en, fds, &m.slots);
	}
	return send_message(c, &m, fds, nfds);
}

static void send_released(struct guard *g, struct guard_child *c)
{
	for (size_t i = 0; g->store.ngone && i < g->store.high; i++) {
		struct fd_store_entry *en = &g->store.entries[i];
		if (en->state != FD_STORE_GONE)
			continue;
		struct guard_msg m = { .kind = GUARD_RELEASED, .key = en->key, .value = en->was_alive };
		if (en->answer && !send_message(c, &m, NULL, 0))
			return;
		fd_store_forget(&g->store, en);
	}
}

/* The files are opened here, because the runtime cannot. */
static bool send_reload(struct guard *g, struct guard_child *c)
{
	struct guard_msg m = { .kind = GUARD_RELOAD, .token = c->reload_token };
	int fds[GUARD_FILES];
	size_t n = 0;
	for (int i = 0; i < GUARD_FILES; i++) {
		int fd = guard_open(g, (enum guard_file)i);
		if (fd >= 0) {
			m.value |= 1u << i;
			fds[n++] = fd;
		} else if (errno != ENOENT) {
			m.index |= 1u << i;
		}
	}
	bool sent = send_message(c, &m, fds, n);
	for (size_t i = 0; i < n; i++)
		fd_close(&fds[i]);
	return sent;
}

static void send_pending(struct guard *g, struct guard_child *c)
{
	struct guard_msg peer = { .kind = GUARD_PEER }, stop = { .kind = GUARD_STOP };
	c->blocked = false;
	if (c->link < 0)
		return;
	for (uint32_t i = 0; i < GUARD_ROLES; i++) {
		peer.index = i;
		if (c->peer_fd[i] >= 0 && send_message(c, &peer, &c->peer_fd[i], 1))
			fd_close(&c->peer_fd[i]);
	}
	if (c->tell_stop && send_message(c, &stop, NULL, 0))
		c->tell_stop = false;
	if (c->tell_reload && send_reload(g, c))
		c->tell_reload = false;
	const struct guard_msg fleet = { .kind = GUARD_FLEET_IS, .pid = g->child[GUARD_FLEET].pid };
	if (c->tell_fleet && send_message(c, &fleet, NULL, 0))
		c->tell_fleet = false;
	if (c->tell_next && send_next(g, c))
		c->tell_next = false;
	if (c->role == GUARD_RUNTIME)
		send_released(g, c);
}

/* ---- start and exit of children ---- */

static void log_death(const struct guard_child *c, int status)
{
	const char *name = guard_role_name(c->role);
	if (WIFSIGNALED(status))
		log_warning("the %s was killed by signal %d; restarting it", name, WTERMSIG(status));
	else
		log_warning("the %s exited with status %d; restarting it", name, WEXITSTATUS(status));
}

/* The runtime that waited for RELEASED is dead: drop the pending replies. */
static void forget_requests(struct guard *g)
{
	for (size_t i = 0; i < g->store.high; i++) {
		struct fd_store_entry *en = &g->store.entries[i];
		en->answer = false;
		if (en->state == FD_STORE_GONE)
			fd_store_forget(&g->store, en);
	}
}

/* Its queued messages first: what it deposited before it died counts. */
static void child_died(struct guard *g, struct guard_child *c)
{
	receive_messages(g, c, UINT32_MAX);
	int status = guard_child_reap(c);
	guard_child_drop_links(g, c);
	if (c->role == GUARD_RUNTIME) {
		forget_requests(g);
		fd_store_disconnect_clients(&g->store);
	}
	g->strays |= c->role == GUARD_SPAWNER;
	g->child[GUARD_RUNTIME].tell_fleet |= c->role == GUARD_FLEET;
	if (g->leaving)
		return;
	const bool client = c->role == GUARD_OTLP || c->role == GUARD_FLEET;
	if (client && WIFEXITED(status) && WEXITSTATUS(status) == GUARD_EXIT_CONFIG) {
		c->wanted = false; /* it has logged the reason */
	} else if (client && WIFEXITED(status) && WEXITSTATUS(status) == GUARD_EXIT_DONE) {
		c->start_at = clock_boot_ns() +
			      SEC_NS / 10;             /* the runtime exited; its successor needs a client again */
	} else if (c->role == GUARD_PROXY || client) { /* nothing else depends on them */
		log_death(c, status);
	} else if (c->role == GUARD_RUNTIME && WIFEXITED(status) && WEXITSTATUS(status) == GUARD_EXIT_DONE) {
		leave_loop(g, 0);
	} else if (WIFEXITED(status) && WEXITSTATUS(status) == GUARD_EXIT_CONFIG) {
		leave_loop(g, 1);
	} else if (!g->served && c->failures >= FIRST_STARTS_MAX) {
		log_error("the %s does not start; giving up", guard_role_name(c->role));
		leave_loop(g, 1);
	} else {
		log_death(c, status);
	}
}

static void start_due(struct guard *g)
{
	for (int i = 0; i < GUARD_ROLES && !g->leaving; i++) {
		struct guard_child *c = &g->child[i];
		if (!guard_child_due(c, clock_boot_ns()))
			continue;
		if (guard_child_start(g, c) < 0) {
			log_error("start the %s: %s", guard_role_name(c->role), strerror(errno));
			c->start_at = clock_boot_ns() + SEC_NS;
		}
	}
}

static void reap_unknown(struct guard *g)
{
	receive_messages(g, &g->child[GUARD_SPAWNER], MESSAGES_A_TURN); /* what is queued is not unknown */
	for (;;) {
		siginfo_t info = { 0 };
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
			break;
		pid_t pid = info.si_pid;
		if (guard_child_find(g, pid) || fd_store_owns_pid(&g->store, pid))
			break;
		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG);
	}
	if (g->strays)
		guard_child_sweep(g);
}

/* ---- the loop ---- */

static void on_signal(struct guard *g, int sig)
{
	struct guard_child *runtime = &g->child[GUARD_RUNTIME];
	switch (sig) {
	case SIGTERM:
	case SIGINT:
		if (g->stopping) {
			log_warning("second request to stop: killing everything");
			leave_loop(g, 1);
			return;
		}
		g->stopping = true;
		g->stop_by = clock_boot_ns() + runtime->grace_ms * (SEC_NS / 1000) + STOP_LIMIT_NS;
		runtime->tell_stop = true;
		break;
	case SIGHUP: runtime->tell_reload = true; break;
	case SIGUSR2: g->upgrade = true; break;
	case SIGCHLD: reap_unknown(g); break;
	default: break;
	}
}

static void handle_signals(struct guard *g)
{
	struct signalfd_siginfo info;
	while (read(g->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
		on_signal(g, (int)info.ssi_signo);
}

/* Until the earliest of: a due restart, a retry of a full socket, the stop limit, an audit check, due messages. */
static int wait_ms(const struct guard *g)
{
	uint64_t now = clock_boot_ns(), until = UINT64_MAX;
	for (int i = 0; i < GUARD_ROLES; i++) {
		const struct guard_child *c = &g->child[i];
		if (!c->pid && c->wanted && c->start_at < until)
			until = c->start_at;
		if (c->blocked && now + SEC_NS / 50 < until)
			until = now +
				SEC_NS / 50; /* not every cause of EAGAIN (descriptors in flight) ends with POLLOUT */
	}
	if (g->stopping && g->stop_by < until)
		until = g->stop_by;
	if (guard_audit_due(g) < until)
		until = guard_audit_due(g);
	if (g->read_at && g->read_at < until)
		until = g->read_at;
	if (until == UINT64_MAX)
		return -1;
	return until <= now ? 0 : (int)((until - now) / 1000000) + 1;
}

enum {
	POLL_SIGNAL,
	POLL_WATCH,
	POLL_AUDIT,
	POLL_LINK,
	POLL_PIDFD = POLL_LINK + GUARD_ROLES,
	POLL_STORE = POLL_PIDFD + GUARD_ROLES
};

/*
 * The spawner deposits pidfds. They are needed when the runtime names a process, when an init has died, or for a timer.
 * So its messages are read together with the runtime's, and wake the guard only if there are timers.
 */
static bool wakes_by_messages(const struct guard *g, int role)
{
	if (role == GUARD_RUNTIME)
		return !g->read_at;
	return role != GUARD_SPAWNER || !g->child[role].ready || g->store.nlimited;
}

static size_t fill_polls(struct guard *g)
{
	struct pollfd *p = g->polls;
	p[POLL_SIGNAL] = (struct pollfd){ .fd = g->signal_fd, .events = POLLIN };
	p[POLL_WATCH] = (struct pollfd){ .fd = g->watch_fd, .events = POLLIN };
	p[POLL_AUDIT] = (struct pollfd){ .fd = g->audit_recipient, .events = POLLIN };
	for (int i = 0; i < GUARD_ROLES; i++) {
		p[POLL_LINK + i] = (struct pollfd){ .fd = g->child[i].link,
						    .events = wakes_by_messages(g, i) ? POLLIN : 0 };
		p[POLL_PIDFD + i] = (struct pollfd){ .fd = g->child[i].pidfd, .events = POLLIN };
	}
	return POLL_STORE + fd_store_fill_polls(&g->store, p + POLL_STORE);
}

/*
 * A member has a deposit and a release, which matter only when the runtime dies. While members follow each other
 * closely, these messages stay in the socket for a moment, so that one wakeup reads those of several.
 */
static void read_runtime(struct guard *g)
{
	struct guard_child *c = &g->child[GUARD_RUNTIME];
	const uint64_t now = clock_boot_ns(), before = g->last_read;
	c->members = 0;
	c->urgent = false;
	receive_messages(g, c, MESSAGES_A_TURN);
	const bool close = c->members > 1 || (c->members && now - before < TOGETHER_NS);
	g->last_read = now;
	g->read_at = close && !c->urgent ? now + TOGETHER_NS : 0;
}

/* Messages before exits: a dead child's last deposits are received before it is reaped. */
static void handle_events(struct guard *g)
{
	fd_store_handle_polls(&g->store, g->polls + POLL_STORE);
	const bool runtime = g->polls[POLL_LINK + GUARD_RUNTIME].revents ||
			     (g->read_at && clock_boot_ns() >= g->read_at);
	if (runtime)
		read_runtime(g);
	for (int i = GUARD_RUNTIME + 1; i < GUARD_ROLES; i++) {
		if (g->polls[POLL_LINK + i].revents || (runtime && !wakes_by_messages(g, i)))
			receive_messages(g, &g->child[i], MESSAGES_A_TURN);
	}
	for (int i = 0; i < GUARD_ROLES; i++) {
		if (g->polls[POLL_PIDFD + i].revents)
			child_died(g, &g->child[i]);
	}
	if (g->polls[POLL_SIGNAL].revents)
		handle_signals(g);
	if (g->polls[POLL_AUDIT].revents)
		guard_audit_on_recipient(g);
	if (g->polls[POLL_WATCH].revents &&
	    policy_watch_touched(&g->watch_fd, g->o->file + GUARD_FILE_POLICY, WATCHED_FILES))
		g->child[GUARD_RUNTIME].tell_reload = true;
}

/* All commands die with the guard, so a lack of kernel memory must not end it: retry, and keep handling signals. */
static void poll_failed(struct guard *g)
{
	const struct timespec pause = { .tv_nsec = POLL_RETRY_NS };
	if (errno == EINTR)
		return;
	log_error("poll: %s; trying again", strerror(errno));
	nanosleep(&pause, NULL);
	handle_signals(g);
}

/* Nothing in a turn blocks, except poll and the short trial of audit. */
static void process_turn(struct guard *g)
{
	start_due(g);
	for (int i = 0; i < GUARD_ROLES; i++)
		send_pending(g, &g->child[i]);
	size_t n = fill_polls(g);
	if (poll(g->polls, n, wait_ms(g)) < 0)
		poll_failed(g);
	else
		handle_events(g);
	guard_audit_check(g);
	if (g->stopping && clock_boot_ns() > g->stop_by) {
		log_error("the runtime did not stop in time: killing everything");
		leave_loop(g, 1);
	}
}

/* ---- start and shutdown ---- */

static int setup_signals(void)
{
	sigset_t mask;
	sigemptyset(&mask);
	static const int taken[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGCHLD };
	for (size_t i = 0; i < countof(taken); i++)
		sigaddset(&mask, taken[i]);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void raise_descriptor_limit(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_max < NOFILE_WANTED) {
		r.rlim_cur = r.rlim_max = NOFILE_WANTED;
		setrlimit(RLIMIT_NOFILE, &r); /* requires root */
	}
	fd_raise_nofile();
}

static bool wait_dead(int pidfd, int ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	return pidfd < 0 || poll(&p, 1, ms) != 0;
}

/* Ends the remaining sandboxes and children. The spawner exits and cleans up when its link closes. */
static void end_everything(struct guard *g)
{
	for (size_t i = 0; i < g->store.high; i++) {
		if (g->store.entries[i].state != FD_STORE_FREE)
			fd_store_kill(&g->store.entries[i]);
	}
	struct guard_child *spawner = &g->child[GUARD_SPAWNER], *otlp = &g->child[GUARD_OTLP];
	if (otlp->pid) { /* let it send what it has queued */
		fd_pidfd_signal(otlp->pidfd, SIGTERM);
		wait_dead(otlp->pidfd, OTLP_LIMIT_MS);
	}
	for (int i = 0; i < GUARD_ROLES; i++) {
		if (i != GUARD_SPAWNER && g->child[i].pid)
			fd_pidfd_signal(g->child[i].pidfd, SIGKILL);
	}
	uint64_t by = clock_boot_ns() + LEAVE_LIMIT_MS * 1000000ull;
	for (size_t i = 0; i < g->store.high; i++) {
		uint64_t now = clock_boot_ns();
		if (g->store.entries[i].state != FD_STORE_FREE)
			wait_dead(g->store.entries[i].fd[GUARD_SLOT_PIDFD], now < by ? (int)((by - now) / 1000000) : 0);
	}
	fd_close(&spawner->link);
	if (spawner->pid && !wait_dead(spawner->pidfd, SPAWNER_LIMIT_MS))
		fd_pidfd_signal(spawner->pidfd, SIGKILL);
	for (int i = 0; i < GUARD_ROLES; i++) {
		if (g->child[i].pid && wait_dead(g->child[i].pidfd, LEAVE_LIMIT_MS))
			guard_child_reap(&g->child[i]);
	}
}

/* Replaces the program in the same process: children, sandboxes and all descriptors stay. Returns only on failure. */
static void exec_upgrade(struct guard *g)
{
	g->upgrade = false;
	if (!g->o->upgrade_exe)
		return;
	int fd = guard_state_save(g);
	if (fd < 0) {
		log_error("upgrade: %s", strerror(errno));
		return;
	}
	size_t n = 0;
	while (g->o->upgrade_argv[n])
		n++;
	char number[16];
	snprintf(number, sizeof number, "%d", fd);
	mem_auto char **argv = mem_zalloc(n + 3, sizeof *argv);
	memcpy(argv, g->o->upgrade_argv, n * sizeof *argv);
	argv[n] = (char *)"--resume";
	argv[n + 1] = number;
	execv(g->o->upgrade_exe, argv);
	log_error("upgrade: execute '%s': %s", g->o->upgrade_exe, strerror(errno));
	guard_state_set_inheritable(g, false);
	close(fd);
}

/* After an upgrade the children still run the old program: replace them. */
static void replace_children(struct guard *g)
{
	for (int i = 0; i < GUARD_ROLES; i++) {
		if (!g->child[i].pid)
			continue;
		g->child[i].ready = true; /* it was serving: restart without delay */
		fd_pidfd_signal(g->child[i].pidfd, SIGTERM);
		if (!wait_dead(g->child[i].pidfd, SPAWNER_LIMIT_MS))
			fd_pidfd_signal(g->child[i].pidfd, SIGKILL);
		wait_dead(g->child[i].pidfd, -1);
		receive_messages(g, &g->child[i], UINT32_MAX);
		guard_child_reap(&g->child[i]);
	}
	fd_store_disconnect_clients(&g->store);
	g->strays = true;
	g->served = true;
}

int guard_run(const struct guard_options *options)
{
	struct guard_options o = *options;
	struct guard g = { .o = &o, .audit_recipient = -1 };
	for (int i = 0; i < GUARD_ROLES; i++)
		guard_child_init(&g.child[i], (enum guard_role)i);
	g.child[GUARD_OTLP].wanted = o.otlp_exe != NULL;
	g.child[GUARD_FLEET].wanted = o.fleet_exe != NULL;
	raise_descriptor_limit();
	/* Twice the maximum of live processes: those being released need entries, too. */
	fd_store_init(&g.store, 2 * GUARD_ENTRIES_MAX);
	g.polls = mem_zalloc(POLL_STORE + g.store.cap, sizeof *g.polls);
	g.signal_fd = setup_signals();
	g.watch_fd = policy_watch_open(o.file + GUARD_FILE_POLICY, WATCHED_FILES);
	g.pidfd = fd_pidfd_open(getpid());
	g.strays = getpid() == 1;
	if (g.signal_fd < 0 || g.pidfd < 0) {
		log_error("set up: %s", strerror(errno));
		return 1;
	}
	if (o.resume_fd >= 0) {
		if (guard_state_load(&g, &o, o.resume_fd) < 0) {
			log_error("upgrade: the state of the previous program cannot be read");
			return 1;
		}
		guard_audit_resume(&g);
		replace_children(&g);
	}
	while (!g.leaving) {
		process_turn(&g);
		if (g.upgrade)
			exec_upgrade(&g);
	}
	end_everything(&g);
	guard_audit_leave(&g);
	fd_store_done(&g.store);
	free(g.polls);
	fd_close(&g.signal_fd);
	fd_close(&g.watch_fd);
	fd_close(&g.pidfd);
	return g.status;
}
