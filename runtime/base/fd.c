/*
 * Descriptors and SEQPACKET messages. Received descriptors are O_CLOEXEC from the start, so that a concurrent fork
 * cannot inherit one, and are closed when a message is rejected, so that a peer cannot make the process run out of
 * them.
 */

#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Keeps errno, because cleanup attributes run between a failure and the report of it. */
void fd_close(int *fd)
{
	int keep = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = keep;
}

static int fd_flag(int fd, int get, int set, int flag, bool on)
{
	int flags = fcntl(fd, get);

	if (flags < 0)
		return -1;
	return fcntl(fd, set, on ? flags | flag : flags & ~flag) < 0 ? -1 : 0;
}

int fd_nonblock(int fd, bool on) { return fd_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on); }

int fd_cloexec(int fd, bool on) { return fd_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on); }

int fd_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n) {
		ssize_t w = write(fd, at, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -1;
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

ssize_t fd_read_all(int fd, void *p, size_t cap)
{
	size_t have = 0;

	while (have < cap) {
		ssize_t r = read(fd, (char *)p + have, cap - have);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		if (r == 0)
			break;
		have += (size_t)r;
	}
	return (ssize_t)have;
}

ssize_t fd_pread_all(int fd, void *p, size_t n, uint64_t offset)
{
	size_t have = 0;

	while (have < n) {
		ssize_t r = pread(fd, (char *)p + have, n - have, (off_t)(offset + have));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		if (r == 0)
			break;
		have += (size_t)r;
	}
	return (ssize_t)have;
}

/* Each client, process and output takes descriptors; the default soft limit of 1024 is too low for a daemon. */
int fd_raise_nofile(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return -1;
	if (rl.rlim_cur < rl.rlim_max) {
		rl.rlim_cur = rl.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &rl) < 0)
			return -1;
	}
	return rl.rlim_cur > INT_MAX ? INT_MAX : (int)rl.rlim_cur;
}

/* An aligned buffer for the descriptors of one message, with space for one too many, to detect that. */
union fd_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * (FD_MESSAGE_MAX + 1))];
};

/* A single message, whole or not at all. */
int fd_send(int sock, const void *msg, size_t len, const int *fds, size_t nfds, int flags)
{
	union fd_control control = { 0 };
	struct iovec iov = { .iov_base = (void *)msg, .iov_len = len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (nfds > FD_MESSAGE_MAX) {
		errno = EMSGSIZE;
		return -1;
	}
	if (nfds) {
		struct cmsghdr *c;

		mh.msg_control = control.bytes;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
	}
	do
		n = sendmsg(sock, &mh, flags | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

/* Moves the descriptors of the message to `all`, which has space for as many as the control buffer. */
static size_t fd_collect(struct msghdr *mh, int *all, size_t cap)
{
	size_t count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0))
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (count < cap)
				all[count++] = fd;
			else
				fd_close(&fd);
		}
	}
	return count;
}

/* Lack of kernel memory is no property of the peer: its connection is kept. */
bool fd_recv_again(int errnum) { return errnum == EAGAIN || errnum == EINTR || errnum == ENOMEM || errnum == ENOBUFS; }

/* MSG_CTRUNC and MSG_TRUNC are checked after the descriptors were collected, so that none leaks. */
ssize_t fd_recv(int sock, void *msg, size_t cap, int *fds, size_t *nfds, int flags)
{
	union fd_control control;
	struct iovec iov = { .iov_base = msg, .iov_len = cap };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)
	};
	int all[FD_MESSAGE_MAX + 2];
	size_t count, max = nfds ? *nfds : 0;
	ssize_t n;

	/* ECONNRESET: the peer died with unread data. Reported once, before the data that the peer had sent. */
	do
		n = recvmsg(sock, &mh, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0)
		return -1;
	count = fd_collect(&mh, all, sizeof(all) / sizeof(all[0]));
	if ((mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || count > max) {
		for (size_t i = 0; i < count; i++)
			fd_close(&all[i]);
		errno = EMSGSIZE;
		return -1;
	}
	if (count)
		memcpy(fds, all, count * sizeof(int));
	if (nfds)
		*nfds = count;
	return n;
}

/* Raw system calls, since older C libraries have no wrappers for them. */
int fd_pidfd_open(pid_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

int fd_pidfd_signal(int pidfd, int sig) { return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0); }

/* PIDFD_GET_INFO of <linux/pidfd.h>, as far as all versions have it; since Linux 6.13. */
struct pidfd_info_head {
	uint64_t mask, cgroup_id;
	uint32_t pid, rest[11];
};
#define PIDFD_GET_INFO_HEAD _IOWR(0xff, 11, struct pidfd_info_head)
#define PIDFD_INFO_PID_BIT 1u

/* Older kernels have the pid in /proc only, which takes four calls. */
pid_t fd_pidfd_pid(int pidfd)
{
	struct pidfd_info_head info = { .mask = PIDFD_INFO_PID_BIT };
	char name[48], text[512];

	if (ioctl(pidfd, PIDFD_GET_INFO_HEAD, &info) == 0)
		return info.mask & PIDFD_INFO_PID_BIT ? (pid_t)info.pid : 0;
	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", pidfd);
	fd_auto int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	const char *line = strstr(text, "\nPid:");
	long pid = line ? strtol(line + 5, NULL, 10) : 0;
	return pid > 0 ? (pid_t)pid : 0;
}

int fd_close_range(unsigned first, unsigned last) { return (int)syscall(SYS_close_range, first, last, 0); }

/* Sealed before another process gets it: the receiver may map it and rely on its content. */
int fd_memfd_sealed(const char *name, const void *p, size_t n)
{
	fd_auto int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || fd_write_all(fd, p, n) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -1;
	return fd_take(&fd);
}
