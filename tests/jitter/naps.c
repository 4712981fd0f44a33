/*
 * Preloaded into bailiff's programs (tests/jitter/run): calls with which they communicate sometimes sleep first, so
 * that events happen in otherwise rare orders, without using processor time.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ONE_IN 10u
#define NAP_US 25000u

static uint64_t state;

static uint32_t next_random(void)
{
	struct timespec now;

	if (!state) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		state = ((uint64_t)getpid() << 32 ^ (uint64_t)now.tv_nsec) | 1;
	}
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16);
}

static void maybe_nap(void)
{
	int saved = errno;

	if (next_random() % ONE_IN == 0) {
		struct timespec nap = { .tv_nsec = (long)(next_random() % NAP_US) * 1000 };

		nanosleep(&nap, NULL);
	}
	errno = saved;
}

/* The original function, after a sleep or not. */
#define BEHIND(name)                                                  \
	static __typeof__(name) *behind;                              \
	if (!behind)                                                  \
		behind = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); \
	maybe_nap()

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
	BEHIND(epoll_wait);
	int rc = behind(fd, events, n, timeout);
	maybe_nap();
	return rc;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	BEHIND(sendmsg);
	return behind(fd, m, flags);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	BEHIND(recvmsg);
	return behind(fd, m, flags);
}

ssize_t send(int fd, const void *p, size_t n, int flags)
{
	BEHIND(send);
	return behind(fd, p, n, flags);
}

ssize_t recv(int fd, void *p, size_t n, int flags)
{
	BEHIND(recv);
	return behind(fd, p, n, flags);
}

int fdatasync(int fd)
{
	BEHIND(fdatasync);
	return behind(fd);
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	BEHIND(waitid);
	return behind(type, id, info, options);
}

int connect(int fd, const struct sockaddr *to, socklen_t n)
{
	BEHIND(connect);
	return behind(fd, to, n);
}
