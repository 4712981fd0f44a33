#include "supervisor/control/peer.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"

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

/* Deeper process trees than this are not walked; a peer so deep is refused when it is in a namespace below ours. */
#define PEER_ANCESTORS_MAX 512

int peer_read(int fd, struct peer *ret, struct err *e)
{
	struct ucred cred;
	socklen_t len = sizeof cred;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return err_sys(e, errno, "read the peer's credentials");
	*ret = (struct peer){ .uid = cred.uid, .gid = cred.gid, .pid = cred.pid };
	return 0;
}

int peer_status_parse(const char *text, struct peer_status *ret)
{
	const char *parent = strstr(text, "\nPPid:");
	if (!parent)
		return -1;
	struct peer_status status = { .parent = (int32_t)strtol(parent + 6, NULL, 10), .namespaces = 1 };
	const char *ns = strstr(text, "\nNSpid:");
	if (ns) { /* absent only in kernels without pid namespaces */
		status.namespaces = 0;
		for (const char *p = ns + 7; *p && *p != '\n';) {
			char *end;
			strtol(p, &end, 10);
			if (end == p)
				break;
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

/* Whether the process that connected is still the one that has this pid. */
static bool is_alive(int fd)
{
	fd_auto int pidfd = -1;
	socklen_t len = sizeof pidfd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0) {
		pidfd = -1;
		return errno == ENOPROTOOPT; /* an older kernel cannot say */
	}
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	return poll(&p, 1, 0) == 0;
}

int peer_check(int fd, const struct peer *p, bool (*is_init)(void *ctx, int32_t pid), void *ctx, struct err *e)
{
	if (!p->pid || !is_init)
		return 0;
	struct peer_status own, status;
	if (peer_status((int32_t)getpid(), &own) < 0)
		return err_set(e, ERR_UNAVAILABLE, "/proc is not readable here, so a peer's place cannot be checked");
	if (peer_status(p->pid, &status) < 0 || !is_alive(fd))
		return err_set(e, ERR_NOT_ALLOWED, "the process that connected (pid %d) is gone or hidden from the daemon in /proc", p->pid);
	if (status.namespaces <= own.namespaces)
		return 0;
	int32_t pid = p->pid;
	for (int i = 0; i < PEER_ANCESTORS_MAX; i++) {
		if (is_init(ctx, pid))
			return err_set(e, ERR_NOT_ALLOWED, "pid %d is inside a sandbox of this runtime (init %d); nothing in a sandbox may use the control socket", p->pid, pid);
		if (status.parent <= 1 || status.namespaces <= own.namespaces)
			/* Out of its namespace without meeting an init of ours, if the peer is still the one we looked at. */
			return is_alive(fd) ? 0 : err_set(e, ERR_NOT_ALLOWED, "the process that connected (pid %d) is gone", p->pid);
		pid = status.parent;
		if (peer_status(pid, &status) < 0)
			return err_set(e, ERR_NOT_ALLOWED, "an ancestor of pid %d ended while it was checked; connect again", p->pid);
	}
	return err_set(e, ERR_NOT_ALLOWED, "pid %d has more than %d ancestors", p->pid, PEER_ANCESTORS_MAX);
}
