#include "supervisor/control/peer.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "sandbox/init_name.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/*
 * Why peers are located: a command in a sandbox that reaches the control socket (through a mount, or because the
 * socket is in its workspace) could ask the daemon to start a command with wider access. Its uid does not
 * give it away, since commands run as their user. Its pid namespace does: every sandbox has one of its own, and the
 * name of its pid 1 is a mark that a command cannot remove (sandbox/init_name.h). A process that takes this name
 * elsewhere only excludes itself.
 *
 * The walk goes from the peer to its parents, until one is in the daemon's own pid namespace. Pids are numbers that are
 * reused, so the result is valid only if the chain is read twice without a change and the peer is alive afterwards.
 */

/* Limit of the walk; a deeper peer is rejected if it is in a namespace below the daemon's. */
#define PEER_ANCESTORS_MAX 512
#define TRIES_MAX 3 /* ancestors may exit during the walk */

int peer_read(int fd, struct peer *ret, struct err *e)
{
	struct ucred cred;
	socklen_t len = sizeof cred;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return err_sys(e, errno, "read the peer's credentials");
	*ret = (struct peer){ .uid = cred.uid, .gid = cred.gid, .pid = cred.pid };
	return 0;
}

size_t peer_groups(int fd, uint32_t gid, uint32_t ret[PEER_GROUPS_MAX])
{
	socklen_t size = (PEER_GROUPS_MAX - 1) * sizeof *ret;
	ret[0] = gid;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, ret + 1, &size) < 0)
		return 1;
	return 1 + size / sizeof *ret;
}

/* The value of a line; NULL = no such line. */
static const char *value_of(const char *text, const char *label)
{
	size_t n = strlen(label);
	for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		if (strncmp(p, label, n) == 0)
			return p + n;
	}
	return NULL;
}

int peer_status_parse(const char *text, struct peer_status *ret)
{
	static const char init[] = SANDBOX_INIT_NAME "\n";
	const char *name = value_of(text, "Name:\t"), *parent = value_of(text, "PPid:"), *ns = value_of(text, "NSpid:"),
		   *state = value_of(text, "State:\t"), *threads = value_of(text, "Threads:\t");
	if (!name || !parent || !state)
		return -1;
	struct peer_status status = { .parent = (int32_t)strtol(parent, NULL, 10),
				      .namespaces = 1,
				      /* Others of its threads may be alive when the first has exited. */
				      .ended = (*state == 'Z' || *state == 'X') &&
					       (!threads || strtol(threads, NULL, 10) <= 1),
				      .init_name = strncmp(name, init, sizeof init - 1) == 0 };
	if (ns) { /* absent only in kernels without pid namespaces */
		status.namespaces = 0;
		for (const char *p = ns; *p && *p != '\n';) {
			char *end;
			long pid = strtol(p, &end, 10);
			if (end == p)
				break;
			status.innermost = (int32_t)pid;
			status.namespaces++;
			p = end;
		}
	}
	*ret = status;
	return 0;
}

int peer_status(int32_t pid, struct peer_status *ret)
{
	char path[64], text[4096];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = fd_read_all(fd, text, sizeof text - 1);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return peer_status_parse(text, ret);
}

/* Whether the process that connected still has this pid. Before Linux 6.5 only: whether a process that is alive has it.
 */
static bool is_alive(int fd, int32_t pid)
{
	struct peer_status status;
	fd_auto int pidfd = -1;
	socklen_t len = sizeof pidfd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0) {
		pidfd = -1;
		return errno == ENOPROTOOPT && peer_status(pid, &status) == 0 && !status.ended;
	}
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	return poll(&p, 1, 0) == 0;
}

/* A peer's ancestors below the daemon's pid namespace; the parent of the last one is in the daemon's. */
struct ancestors {
	int32_t pid[PEER_ANCESTORS_MAX + 1];
	size_t count;
	int32_t init; /* an init of a sandbox among them; 0 = none */
};

/* 0; 1 = one of them exited in the meantime; −1 = failure. */
static int read_ancestors(const struct peer *p, unsigned own, struct ancestors *ret, struct err *e)
{
	struct peer_status status;
	ret->count = 0;
	ret->init = 0;
	for (int32_t pid = p->pid;; pid = status.parent) {
		if (pid == 0)
			return err_set(e, ERR_NOT_ALLOWED,
				       "pid %d has a parent outside of the daemon's pid namespace, so it is unknown "
				       "whether it is inside a sandbox",
				       p->pid);
		if (ret->count > PEER_ANCESTORS_MAX - 1)
			return err_set(e, ERR_NOT_ALLOWED, "pid %d has more than %d ancestors", p->pid,
				       PEER_ANCESTORS_MAX);
		if (peer_status(pid, &status) < 0)
			return 1;
		ret->pid[ret->count] = pid;
		if (status.namespaces <= own)
			return 0;
		if (status.innermost == 1 && status.init_name)
			ret->init = pid;
		ret->count++;
	}
}

/*
 * Whether the ancestors are still the same, from the top down to the peer. While a process has a parent, that parent is
 * alive and its pid is not reused; so if the peer is alive after this, each pid belonged to the same process
 * throughout.
 */
static bool still_holds(const struct ancestors *l)
{
	struct peer_status status;
	for (size_t i = l->count; i-- > 0;) {
		if (peer_status(l->pid[i], &status) < 0 || status.parent != l->pid[i + 1])
			return false;
	}
	return true;
}

/* Liveness is checked last: still_holds is conclusive only if the peer is alive after it. */
int peer_check(int fd, const struct peer *p, struct err *e)
{
	struct peer_status own;
	struct ancestors l;
	if (!p->pid)
		return err_set(e, ERR_NOT_ALLOWED,
			       "the client is in a pid namespace that the daemon cannot see, so it is unknown "
			       "whether it is inside a sandbox; "
			       "run it in the daemon's pid namespace, or in one below it");
	if (peer_status((int32_t)getpid(), &own) < 0)
		return err_set(e, ERR_UNAVAILABLE, "/proc is not readable here, so a peer's place cannot be checked");
	for (int i = 0; i < TRIES_MAX; i++) {
		int r = read_ancestors(p, own.namespaces, &l, e);
		if (r < 0)
			return -1;
		if (r > 0 || !still_holds(&l))
			continue;
		if (!is_alive(fd, p->pid))
			break;
		if (l.init)
			return err_set(
				e, ERR_NOT_ALLOWED,
				"pid %d is inside a sandbox (init %d); nothing in a sandbox may use a control socket",
				p->pid, l.init);
		return 0;
	}
	return err_set(e, ERR_NOT_ALLOWED,
		       "the process that connected (pid %d), or an ancestor of it, is gone or hidden from the daemon "
		       "in /proc; connect again",
		       p->pid);
}
