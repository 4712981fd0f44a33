/*
 * Preloaded into the daemon by tests (tests/blackbox/faults.py): system calls fail on demand.
 *
 * $BAILIFF_TEST_FAULTS is a file with a table of faults, mapped when the process starts: afterwards its sandbox denies
 * other files. A test writes a row; a call that it names then fails with `error`, `count` times (-1 = always), after
 * `skip` calls that succeed. `comm` is the process ("bailiff-runtime", see process_title.c), `fd` the descriptor or -1
 * for any, `link` how its name in /proc/self/fd begins, or "-". Error 0 is for recvmsg alone: the message comes without
 * its descriptors (MSG_CTRUNC). `done` is set when `count` calls have failed. A negative error is a delay in
 * milliseconds, after which the call succeeds. The row of "clock" moves the wall clock by `error` seconds instead;
 * waits for a condition by that clock follow it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* As faults.py packs it. */
struct fault {
	_Atomic int32_t lock;
	_Atomic int32_t armed;
	int32_t error, count, fd, skip;
	_Atomic int32_t done;
	char call[32], comm[32], link[128];
	char unused[36];
};
_Static_assert(sizeof(struct fault) == 256, "faults.py writes rows of 256 bytes");
#define FAULTS 16
#define DELAY_STEP_MS 5
#define WAIT_STEP_NS 50000000l

static struct fault *faults;

__attribute__((constructor)) static void map_faults(void)
{
	const char *path = getenv("BAILIFF_TEST_FAULTS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	void *at = mmap(NULL, FAULTS * sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		abort();
	faults = at;
}

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

static bool take_fault(struct fault *f, int fd, int *ret_error)
{
	bool due = false;

	while (atomic_exchange(&f->lock, 1))
		continue;
	if (f->armed && f->count && concerns(f, fd)) {
		due = f->skip == 0;
		*ret_error = f->error;
		if (!due)
			f->skip--;
		else if (f->count > 0 && --f->count == 0)
			f->done = 1;
	}
	atomic_store(&f->lock, 0);
	return due;
}

/* A delay ends early when the test disarms the row. */
static void wait_while_armed(const struct fault *f, int ms)
{
	const struct timespec step = { .tv_nsec = DELAY_STEP_MS * 1000000l };

	for (int waited = 0; waited < ms && f->armed; waited += DELAY_STEP_MS)
		nanosleep(&step, NULL);
}

/* Whether this call is to fail, and how. */
static bool is_due(const char *call, int fd, int *ret_error)
{
	const struct fault *row = NULL;
	int saved = errno;
	bool due = false;

	for (int i = 0; faults && i < FAULTS && !due; i++)
		if (faults[i].armed && strcmp(faults[i].call, call) == 0) {
			row = &faults[i];
			due = take_fault(&faults[i], fd, ret_error);
		}
	if (due && *ret_error < 0) {
		wait_while_armed(row, -*ret_error);
		due = false;
	}
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

ssize_t recv(int fd, void *p, size_t n, int flags)
{
	FAILING(recv, fd, -1);
	return behind(fd, p, n, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	FAILING(sendmsg, fd, -1);
	return behind(fd, m, flags);
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

/* Configured by the name of the memfd, in place of that of the call. */
int memfd_create(const char *name, unsigned flags)
{
	static __typeof__(memfd_create) *behind;
	int error;

	if (!behind)
		behind = (__typeof__(memfd_create) *)dlsym(RTLD_NEXT, "memfd_create");
	if (is_due(name, -1, &error)) {
		errno = error;
		return -1;
	}
	return behind(name, flags);
}

int fchown(int fd, uid_t uid, gid_t gid)
{
	FAILING(fchown, fd, -1);
	return behind(fd, uid, gid);
}

int mkdirat(int fd, const char *name, mode_t mode)
{
	FAILING(mkdirat, fd, -1);
	return behind(fd, name, mode);
}

struct dirent *readdir(DIR *d)
{
	FAILING(readdir, dirfd(d), NULL);
	return behind(d);
}

struct dirent64 *readdir64(DIR *d)
{
	static __typeof__(readdir64) *behind;
	int error;

	if (!behind)
		behind = (__typeof__(readdir64) *)dlsym(RTLD_NEXT, "readdir64");
	if (is_due("readdir", dirfd(d), &error)) {
		errno = error;
		return NULL;
	}
	return behind(d);
}

ssize_t write(int fd, const void *p, size_t n)
{
	FAILING(write, fd, -1);
	return behind(fd, p, n);
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
	FAILING(pread, fd, -1);
	return behind(fd, p, n, at);
}

ssize_t pread64(int fd, void *p, size_t n, off64_t at)
{
	static __typeof__(pread64) *behind;
	int error;

	if (!behind)
		behind = (__typeof__(pread64) *)dlsym(RTLD_NEXT, "pread64");
	if (is_due("pread", fd, &error)) {
		errno = error;
		return -1;
	}
	return behind(fd, p, n, at);
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

int ftruncate(int fd, off_t size)
{
	FAILING(ftruncate, fd, -1);
	return behind(fd, size);
}

/* Without is_due: a moved clock is not a failure, and its row is read more often than any other. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	static __typeof__(clock_gettime) *behind;
	int result;

	if (!behind)
		behind = (__typeof__(clock_gettime) *)dlsym(RTLD_NEXT, "clock_gettime");
	result = behind(clock, ret);
	for (int i = 0; faults && i < FAULTS && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE); i++)
		if (faults[i].armed && strcmp(faults[i].call, "clock") == 0 && concerns(&faults[i], -1))
			ret->tv_sec += faults[i].error;
	return result;
}

static bool has_clock_row(void)
{
	for (int i = 0; faults && i < FAULTS; i++)
		if (strcmp(faults[i].call, "clock") == 0 && concerns(&faults[i], -1))
			return true;
	return false;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static int wait_behind(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	static __typeof__(pthread_cond_timedwait) *behind;

	if (!behind) { /* x86-64 also has an incompatible one without this version */
		void *f = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
		behind = (__typeof__(pthread_cond_timedwait) *)(f ? f : dlsym(RTLD_NEXT, "pthread_cond_timedwait"));
	}
	return behind(cond, mutex, until);
}

/*
 * The kernel measures such a wait by its own clock, and ends it when that is set. Here it consists of short waits,
 * after each of which the moved clock is checked. The times of conditions that use the monotonic clock are decades
 * earlier.
 */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	struct timespec now, step;

	(void)timespec_get(&step, TIME_UTC); /* the kernel's */
	if (until->tv_sec < step.tv_sec / 2 || !has_clock_row())
		return wait_behind(cond, mutex, until);
	for (;;) {
		clock_gettime(CLOCK_REALTIME, &now);
		if (!is_before(&now, until))
			return ETIMEDOUT;
		int64_t left = (int64_t)(until->tv_sec - now.tv_sec) * 1000000000l + until->tv_nsec - now.tv_nsec;
		(void)timespec_get(&step, TIME_UTC);
		step.tv_nsec += left < WAIT_STEP_NS ? left : WAIT_STEP_NS;
		if (step.tv_nsec >= 1000000000l) {
			step.tv_sec++;
			step.tv_nsec -= 1000000000l;
		}
		int r = wait_behind(cond, mutex, &step);
		if (r != ETIMEDOUT)
			return r;
	}
}

time_t time(time_t *ret)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}
