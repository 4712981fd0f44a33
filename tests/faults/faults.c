/*
 * Preloaded into the daemon by tests (tests/blackbox/faults.py): system calls fail on demand.
 *
 * $BAILIFF_TEST_FAULTS is a folder. A file in it that is named after a call says which of these calls fail, in one
 * line:
 *
 *     COMM ERRNO COUNT FD LINK SKIP
 *
 * COMM is the process ("bailiff-runtime", see title.c). COUNT calls fail, −1 = all of them. FD is the descriptor, or −1
 * for any; LINK is how its name in /proc/self/fd begins, or "-". SKIP calls of these succeed first. ERRNO 0 is for
 * recvmsg alone: the message comes without its descriptors (MSG_CTRUNC). When COUNT calls have failed the file is
 * renamed to "CALL.done".
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct fault {
	char comm[32];
	int error, count, fd, skip;
	char link[64];
};

static bool concerns(const struct fault *f, int fd)
{
	char comm[16] = "", name[64], to[256];

	prctl(PR_GET_NAME, comm);
	if (strcmp(comm, f->comm) != 0 || (f->fd >= 0 && f->fd != fd))
		return false;
	if (strcmp(f->link, "-") == 0)
		return true;
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(name, to, sizeof to - 1);
	return n > 0 && strlen(f->link) <= (size_t)n && memcmp(to, f->link, strlen(f->link)) == 0;
}

/* Whether this call is to fail, and how. */
static bool is_due(const char *call, int fd, int *ret_error)
{
	const char *folder = getenv("BAILIFF_TEST_FAULTS");
	char path[512], done[520], text[256] = "";
	struct fault f;
	bool due = false;
	int saved = errno;

	if (!folder)
		return false;
	snprintf(path, sizeof path, "%s/%s", folder, call);
	int file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0) {
		errno = saved;
		return false;
	}
	flock(file, LOCK_EX);
	if (pread(file, text, sizeof text - 1, 0) > 0 &&
	    sscanf(text, "%31s %d %d %d %63s %d", f.comm, &f.error, &f.count, &f.fd, f.link, &f.skip) == 6 && f.count &&
	    concerns(&f, fd)) {
		due = f.skip == 0;
		*ret_error = f.error;
		if (!due)
			f.skip--;
		else if (f.count > 0)
			f.count--;
		int n = snprintf(text, sizeof text, "%s %d %d %d %s %d\n", f.comm, f.error, f.count, f.fd, f.link,
				 f.skip);
		/* by write(2), which no test lets fail */
		if (ftruncate(file, 0) < 0 || lseek(file, 0, SEEK_SET) < 0 || write(file, text, (size_t)n) != n)
			abort();
		snprintf(done, sizeof done, "%s.done", path);
		if (!f.count && rename(path, done) < 0)
			abort();
	}
	close(file);
	errno = saved;
	return due;
}

#define FAILING(name, fd, failed)                                     \
	static __typeof__(name) *behind;                              \
	int error;                                                    \
	if (!behind)                                                  \
		behind = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); \
	if (is_due(#name, fd, &error)) {                              \
		errno = error;                                        \
		return failed;                                        \
	}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	static __typeof__(epoll_ctl) *behind;
	int error;

	if (!behind)
		behind = (__typeof__(epoll_ctl) *)dlsym(RTLD_NEXT, "epoll_ctl");
	if (op == EPOLL_CTL_ADD && is_due("epoll_ctl", fd, &error)) {
		errno = error;
		return -1;
	}
	return behind(epfd, op, fd, event);
}

int epoll_wait(int epfd, struct epoll_event *events, int n, int timeout)
{
	FAILING(epoll_wait, epfd, -1);
	return behind(epfd, events, n, timeout);
}

int epoll_pwait2(int epfd, struct epoll_event *events, int n, const struct timespec *timeout, const sigset_t *mask)
{
	static int (*behind)(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);
	int error;

	if (!behind)
		*(void **)&behind = dlsym(RTLD_NEXT, "epoll_pwait2");
	if (is_due("epoll_wait", epfd, &error)) {
		errno = error;
		return -1;
	}
	return behind(epfd, events, n, timeout, mask);
}

int poll(struct pollfd *p, nfds_t n, int timeout)
{
	FAILING(poll, n ? p[0].fd : -1, -1);
	return behind(p, n, timeout);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	static __typeof__(recvmsg) *behind;
	int error;

	if (!behind)
		behind = (__typeof__(recvmsg) *)dlsym(RTLD_NEXT, "recvmsg");
	if (!is_due("recvmsg", fd, &error))
		return behind(fd, m, flags);
	if (!error) {
		struct msghdr bare = *m;

		bare.msg_control = NULL;
		bare.msg_controllen = 0;
		ssize_t n = behind(fd, &bare, flags);
		m->msg_controllen = 0;
		m->msg_flags = bare.msg_flags | (n > 0 ? MSG_CTRUNC : 0);
		return n;
	}
	errno = error;
	return -1;
}

int fdatasync(int fd)
{
	FAILING(fdatasync, fd, -1);
	return behind(fd);
}

int fsync(int fd)
{
	FAILING(fsync, fd, -1);
	return behind(fd);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	FAILING(pwrite, fd, -1);
	return behind(fd, p, n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at)
{
	static __typeof__(pwrite64) *behind;
	int error;

	if (!behind)
		behind = (__typeof__(pwrite64) *)dlsym(RTLD_NEXT, "pwrite64");
	if (is_due("pwrite", fd, &error)) {
		errno = error;
		return -1;
	}
	return behind(fd, p, n, at);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at)
{
	static __typeof__(pwritev) *behind;
	int error;

	if (!behind)
		behind = (__typeof__(pwritev) *)dlsym(RTLD_NEXT, "pwritev");
	if (is_due("pwrite", fd, &error)) {
		errno = error;
		return -1;
	}
	return behind(fd, v, n, at);
}
