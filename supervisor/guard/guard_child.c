#include "supervisor/guard/guard.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "sandbox/become_peer.h"
#include "sandbox/capability.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * A child gets everything by position: descriptors at fixed numbers (guard_msg.h) and options that were built once,
 * when the daemon started. Between fork and exec every other descriptor is closed and, except for the spawner, the
 * privileges are dropped, so that no program but the spawner's ever runs with them. Configuration and policy are opened
 * here, again for each runtime, which cannot open them itself.
 *
 * Children run with PR_SET_PDEATHSIG: none of them is of use, or may keep the store open, without its guard.
 */

#define DELAY_MAX_MS 1000 /* between restarts of a child that does not reach READY */

const char *guard_role_name(enum guard_role role)
{
	static const char *const names[GUARD_ROLES] = { [GUARD_RUNTIME] = "runtime",
							[GUARD_SPAWNER] = "spawner",
							[GUARD_PROXY] = "proxy",
							[GUARD_OTLP] = "exporter",
							[GUARD_FLEET] = "fleet" };
	return names[role];
}

void guard_child_init(struct guard_child *c, enum guard_role role)
{
	*c = (struct guard_child){
		.role = role, .pidfd = -1, .link = -1, .wanted = role == GUARD_RUNTIME || role == GUARD_SPAWNER
	};
	for (int i = 0; i < GUARD_ROLES; i++)
		c->peer_fd[i] = -1;
}

bool guard_child_due(const struct guard_child *c, uint64_t now) { return c->wanted && !c->pid && now >= c->start_at; }

bool guard_child_find(const struct guard *g, pid_t pid)
{
	for (int i = 0; i < GUARD_ROLES; i++) {
		if (g->child[i].pid == pid)
			return true;
	}
	return false;
}

void guard_child_drop_links(struct guard *g, const struct guard_child *c)
{
	for (int i = 0; i < GUARD_ROLES; i++)
		fd_close(&g->child[i].peer_fd[c->role]);
}

static _Noreturn void child_fail(const char *what)
{
	dprintf(STDERR_FILENO, "bailiffd: start a part of the daemon: %s: %s\n", what, strerror(errno));
	_exit(126);
}

/* Moves each source to its fixed number, through high numbers: a source may occupy another's target number. */
static void assign_descriptors(const int source[GUARD_FD_LAST + 1])
{
	int high[GUARD_FD_LAST + 1];
	for (int i = GUARD_FD_LINK; i <= GUARD_FD_LAST; i++) {
		high[i] = source[i] < 0 ? -1 : fcntl(source[i], F_DUPFD, GUARD_FD_LAST + 1);
		if (source[i] >= 0 && high[i] < 0)
			child_fail("descriptors");
	}
	for (int i = GUARD_FD_LINK; i <= GUARD_FD_LAST; i++) {
		if (high[i] < 0)
			close(i);
		else if (dup2(high[i], i) < 0)
			child_fail("descriptors");
	}
	fd_close_range(GUARD_FD_LAST + 1, UINT_MAX);
}

static void drop_privileges(const struct guard_options *o, enum guard_role role)
{
	const bool fleet = role == GUARD_FLEET;
	uid_t uid = role == GUARD_PROXY ? o->proxy_uid : fleet ? o->fleet_uid : o->runtime_uid;
	gid_t gid = role == GUARD_PROXY ? o->proxy_gid : fleet ? o->fleet_gid : o->runtime_gid;
	capability_drop_bounds();
	if (become_peer(true, uid, gid, fleet ? o->fleet_groups : NULL, fleet ? o->nfleet_groups : 0) < 0)
		child_fail("take on an identity without privileges");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		child_fail("no_new_privs");
}

/* A change of identity clears the parent-death signal, so set it afterwards; the guard may already be dead by then. */
static void die_with_guard(void)
{
	struct pollfd p = { .fd = GUARD_FD_GUARD_PIDFD, .events = POLLIN };
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		child_fail("parent-death signal");
	if (poll(&p, 1, 0) != 0)
		_exit(1);
}

int guard_open(const struct guard *g, enum guard_file file)
{
	if (g->o->file[file])
		return open(g->o->file[file], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	errno = ENOENT;
	return -1;
}

/*
 * The connection has the guard's identity, which can see everything; the exporter immediately reduces itself to an
 * observer.
 */
static int connect_control(const struct guard *g)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	fd_auto int dir = -1, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const char *slash = strrchr(g->o->socket, '/');
	if (strlen(g->o->socket) < sizeof a.sun_path) {
		memcpy(a.sun_path, g->o->socket, strlen(g->o->socket));
	} else { /* too long for a socket address: connect relative to its directory */
		char folder[PATH_MAX];
		snprintf(folder, sizeof folder, "%.*s", (int)(slash - g->o->socket), g->o->socket);
		dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
		snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d%s", dir, slash);
	}
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
		child_fail("connect to the control socket");
	return fd_take(&fd);
}

static void assign_otlp_descriptors(const struct guard *g, int *source)
{
	source[GUARD_FD_LISTEN] = connect_control(g);
	source[GUARD_FD_STORE] = open(g->o->otlp_cursor, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (source[GUARD_FD_STORE] < 0)
		child_fail(g->o->otlp_cursor);
}

/* After the identity was taken on: the kernel tells the daemon whose tasks these are. */
static void connect_fleet(const struct guard *g)
{
	fd_auto int fd = connect_control(g);
	if (dup2(fd, GUARD_FD_LISTEN) < 0)
		child_fail("descriptors");
}

/* Between fork and exec: descriptors, then the identity, then the parent-death signal, which a new identity clears. */
static _Noreturn void child_main(const struct guard *g, enum guard_role role, int link, int peer)
{
	const struct guard_options *o = g->o;
	bool runtime = role == GUARD_RUNTIME;
	int source[GUARD_FD_LAST + 1];
	for (int i = 0; i <= GUARD_FD_LAST; i++)
		source[i] = -1;
	source[GUARD_FD_LINK] = link;
	source[GUARD_FD_PEER] = peer;
	source[GUARD_FD_GUARD_PIDFD] = g->pidfd;
	if (runtime || role == GUARD_SPAWNER)
		source[GUARD_FD_LISTEN] = o->listen_fd;
	if (role == GUARD_OTLP)
		assign_otlp_descriptors(g, source);
	if (role == GUARD_FLEET)
		source[GUARD_FD_CONFIG] = guard_open(g, GUARD_FILE_CONFIG);
	if (role == GUARD_SPAWNER) {
		source[GUARD_FD_COW] = o->cow_fd;
		source[GUARD_FD_PROGRAM] = o->spawner_fd;
	}
	if (runtime) {
		source[GUARD_FD_STORE] = o->store_fd;
		source[GUARD_FD_SPOOL] = o->spool_fd;
		source[GUARD_FD_AUDIT] = o->audit_fd;
		for (int i = 0; i < GUARD_FILES; i++) {
			static const int place[] = { [GUARD_FILE_CONFIG] = GUARD_FD_CONFIG,
						     [GUARD_FILE_POLICY] = GUARD_FD_POLICY,
						     [GUARD_FILE_HOST_POLICY] = GUARD_FD_HOST_POLICY };
			source[place[i]] = guard_open(g, (enum guard_file)i);
			if (source[place[i]] >= 0 || errno == ENOENT)
				continue;
			dprintf(STDERR_FILENO, "bailiffd: config: open '%s': %s\n", o->file[i], strerror(errno));
			_exit(GUARD_EXIT_CONFIG);
		}
	}
	setsid(); /* signals from a foreground daemon's terminal go to the guard only */
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	assign_descriptors(source);
	if (role != GUARD_SPAWNER && o->drop)
		drop_privileges(o, role);
	if (role == GUARD_FLEET)
		connect_fleet(g);
	die_with_guard();
	if (role != GUARD_SPAWNER)
		fd_cloexec(GUARD_FD_GUARD_PIDFD, true);
	const char *exe = role == GUARD_OTLP ? o->otlp_exe : role == GUARD_FLEET ? o->fleet_exe : o->exe;
	if (role == GUARD_SPAWNER && o->spawner_fd >= 0) {
		fd_cloexec(GUARD_FD_PROGRAM, true);
		execveat(GUARD_FD_PROGRAM, "", o->argv[role], environ, AT_EMPTY_PATH);
		child_fail("execute bailiff-spawner");
	}
	execv(exe ? exe : "/proc/self/exe", o->argv[role]);
	child_fail("execute");
}

/* Links two children: `a`'s end is kept in a->peer_fd until it is sent, the other in b's. */
static int link_children(struct guard_child *a, struct guard_child *b)
{
	int pair[2];
	if (a->peer_fd[b->role] >= 0)
		return 0; /* the other child runs and has its end */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	a->peer_fd[b->role] = pair[0];
	fd_close(&b->peer_fd[a->role]);
	b->peer_fd[a->role] = pair[1];
	return 0;
}

/*
 * The runtime has a link to each of the others. A child finds its link at GUARD_FD_PEER after exec. The runtime finds
 * the spawner's there and receives the proxy's with PEER, because there may be no proxy.
 */
int guard_child_start(struct guard *g, struct guard_child *c)
{
	struct guard_child *runtime = &g->child[GUARD_RUNTIME], *proxy = &g->child[GUARD_PROXY];
	struct guard_child *other = c == runtime ? &g->child[GUARD_SPAWNER] : runtime;
	if (c->role == GUARD_OTLP || c->role == GUARD_FLEET)
		other = c; /* these are ordinary clients and have no link */
	else if (link_children(c, other) < 0 || (c == runtime && proxy->pid && link_children(c, proxy) < 0))
		return -1;
	fd_auto int peer = fd_take(&c->peer_fd[other->role]);
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	fd_auto int mine = pair[0], theirs = pair[1];
	pid_t pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0)
		child_main(g, c->role, theirs, peer);
	c->pid = pid;
	c->pidfd = fd_pidfd_open(pid);
	c->link = fd_take(&mine);
	c->ready = c->tell_reload = c->tell_next = c->blocked = false;
	c->reload_token = 0;
	c->tell_stop = g->stopping && c->role == GUARD_RUNTIME;
	if (c == runtime || c->role == GUARD_FLEET)
		runtime->tell_fleet = g->child[GUARD_FLEET].pid != 0;
	if (c->pidfd < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		c->pid = 0;
		fd_close(&c->link);
		return -1;
	}
	return 0;
}

/* The delay before a restart doubles with each failure before READY. Returns a wait status. */
int guard_child_reap(struct guard_child *c)
{
	siginfo_t info = { 0 };
	if (waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED) < 0)
		info.si_code = CLD_EXITED;
	c->pid = 0;
	fd_close(&c->pidfd);
	fd_close(&c->link);
	c->failures = c->ready ? 0 : c->failures + 1;
	uint64_t delay_ms = c->failures == 0 ? 0 : c->failures > 10 ? DELAY_MAX_MS : 1u << c->failures;
	if (delay_ms > DELAY_MAX_MS)
		delay_ms = DELAY_MAX_MS;
	c->start_at = clock_boot_ns() + delay_ms * 1000000;
	c->ready = false;
	return info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
}

void guard_child_sweep(struct guard *g)
{
	char name[64];
	snprintf(name, sizeof name, "/proc/self/task/%d/children", getpid());
	FILE *f = fopen(name, "re");
	if (!f)
		return;
	int pid;
	bool any = false;
	while (fscanf(f, "%d", &pid) == 1) {
		if (guard_child_find(g, pid) || fd_store_owns_pid(&g->store, pid))
			continue;
		siginfo_t info = { 0 };
		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0)
			any = true;
	}
	fclose(f);
	g->strays = any || getpid() == 1;
}
