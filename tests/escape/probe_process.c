#include "tests/escape/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/ioprio.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BURN_MS 20

/* ---- what was inherited ---- */

static int try_descriptors(const char *arg)
{
	DIR *d = opendir("/proc/self/fd");
	char list[400] = "";
	if (!d)
		return -1;
	for (struct dirent *e; (e = readdir(d));) {
		int fd = atoi(e->d_name);
		size_t used = strlen(list);
		char target[64] = "";
		if (e->d_name[0] == '.' || fd < 3 || fd == dirfd(d))
			continue;
		ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
		snprintf(list + used, sizeof list - used, " %d:%.*s", fd, (int)(n > 0 ? n : 0), target);
	}
	probe_say("%s", list);
	return list[0] ? 0 : probe_shut(ENODATA);
}

static int try_privileges(const char *arg)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct cap[2] = { { 0 }, { 0 } };
	syscall(SYS_capget, &head, cap);
	int bounding = prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN),
	    ambient = prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_SYS_ADMIN, 0, 0);
	gid_t groups[64];
	int n = getgroups(64, groups);
	probe_say("uid %u gid %u groups %d caps %x bounding %d no_new_privs %d", getuid(), getgid(), n,
		  cap[0].permitted | cap[0].effective | cap[0].inheritable | cap[1].permitted, bounding,
		  prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	bool any = getuid() == 0 || geteuid() == 0 || cap[0].permitted || cap[1].permitted || cap[0].inheritable ||
		   ambient > 0 || bounding > 0;
	return any || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 ? 0 : probe_shut(EPERM);
}

static int try_set_uid(const char *arg) { return setresuid(0, 0, 0); }

static int try_set_other_uid(const char *arg) { return setresuid(1, 1, 1); }

static int try_set_groups(const char *arg)
{
	gid_t none = 4;
	return setgroups(1, &none);
}

static int try_take_capability(const char *arg)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct cap[2] = { { .effective = 1u << CAP_SYS_ADMIN, .permitted = 1u << CAP_SYS_ADMIN },
						 { 0 } };
	return (int)syscall(SYS_capset, &head, cap);
}

static int try_effective_uid(const char *arg)
{
	probe_say("uid %u euid %u", getuid(), geteuid());
	return geteuid() != getuid() ? 0 : probe_shut(EPERM);
}

static int try_map_ids(const char *arg)
{
	int fd = open("/proc/self/uid_map", O_WRONLY);
	return fd < 0 ? -1 : (int)write(fd, "0 0 1", 5);
}

/* ---- other processes ---- */

static int try_see(const char *pid)
{
	char name[64];
	struct stat st;
	snprintf(name, sizeof name, "/proc/%s/status", pid);
	return stat(name, &st);
}

static int try_signal(const char *pid) { return kill(atoi(pid), 0); }

static int try_open_process(const char *pid) { return (int)syscall(SYS_pidfd_open, atoi(pid), 0); }

static int try_trace(const char *pid) { return (int)ptrace(PTRACE_SEIZE, atoi(pid), 0, 0); }

static int try_read_memory(const char *pid)
{
	char byte;
	struct iovec mine = { &byte, 1 }, theirs = { (void *)8, 1 };
	return probe_reached(process_vm_readv(atoi(pid), &mine, 1, &theirs, 1, 0), EFAULT);
}

static int try_take_descriptor(const char *pid)
{
	int process = (int)syscall(SYS_pidfd_open, atoi(pid), 0);
	return process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, 0, 0);
}

static int try_compare(const char *pid) { return (int)syscall(SYS_kcmp, getpid(), atoi(pid), KCMP_FILES, 0, 0); }

static int try_limit_other(const char *pid)
{
	struct rlimit r = { 1, 1 };
	return prlimit(atoi(pid), RLIMIT_CORE, NULL, &r);
}

/* Sets the value that it has already: only the permission is tested. */
static int try_schedule_other(const char *pid)
{
	const struct sched_param none = { 0 };
	return sched_setscheduler(atoi(pid), SCHED_OTHER, &none);
}

static int try_schedule_other_param(const char *pid)
{
	const struct sched_param none = { 0 };
	return sched_setparam(atoi(pid), &none);
}

static int try_schedule_other_attr(const char *pid)
{
	uint32_t attr[14] = { 0 };
	long r = syscall(SYS_sched_getattr, atoi(pid), attr, sizeof attr, 0);
	return r < 0 ? -1 : (int)syscall(SYS_sched_setattr, atoi(pid), attr, 0);
}

static int try_processors_of_other(const char *pid)
{
	cpu_set_t set;
	return sched_getaffinity(atoi(pid), sizeof set, &set) < 0 ? -1 : sched_setaffinity(atoi(pid), sizeof set, &set);
}

static int try_priority_of_other(const char *pid)
{
	id_t id = (id_t)atoi(pid);
	return setpriority(PRIO_PROCESS, id, getpriority(PRIO_PROCESS, id));
}

static int try_priority_of_user(const char *arg) { return setpriority(PRIO_USER, geteuid(), 19); }

static int try_io_priority_of_other(const char *pid)
{
	return (int)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, atoi(pid), 0);
}

static int try_io_priority_of_user(const char *arg)
{
	return (int)syscall(SYS_ioprio_set, IOPRIO_WHO_USER, geteuid(), 0);
}

/* Of a process tree of its own init's: whatever arrives there, it continues. */
static int try_end_init(const char *arg)
{
	static const int signals[] = { SIGKILL, SIGSTOP, SIGSEGV, SIGABRT, SIGQUIT };
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
		kill(1, signals[i]);
	usleep(20000);
	char state[512] = "";
	int fd = open("/proc/1/stat", O_RDONLY);
	if (fd < 0 || read(fd, state, sizeof state - 1) <= 0)
		return -1;
	const char *p = strrchr(state, ')');
	probe_say("state %.1s", p ? p + 2 : "?");
	return p && (p[2] == 'T' || p[2] == 'Z') ? 0 : probe_shut(EPERM);
}

/* ---- priorities and limits ---- */

static int try_real_time(const char *arg)
{
	struct sched_param p = { .sched_priority = 10 };
	return sched_setscheduler(0, SCHED_FIFO, &p);
}

static int try_nice(const char *arg) { return setpriority(PRIO_PROCESS, 0, -5); }

static int try_oom_score(const char *arg)
{
	char text[16] = "";
	int fd = open("/proc/self/oom_score_adj", O_RDWR);
	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		return -1;
	int now = atoi(text);
	probe_say("from %d", now);
	if (now < 0)
		return 0; /* what protects the daemon was inherited */
	return pwrite(fd, "-1", 2, 0) < 0 ? -1 : 0;
}

static int try_raise_limit(const char *arg)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return -1;
	r.rlim_max += 1;
	return setrlimit(RLIMIT_NOFILE, &r);
}

static int try_pin_memory(const char *arg)
{
	size_t size = 1u << 30;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? -1 : mlock2(p, size, MLOCK_ONFAULT);
}

/* ---- what must work ---- */

static void *thread(void *arg)
{
	*(int *)arg = 1;
	return NULL;
}

static int try_threads(const char *arg)
{
	for (int i = 0; i < 50; i++) {
		pthread_t t;
		int done = 0;
		if (pthread_create(&t, NULL, thread, &done) != 0 || pthread_join(t, NULL) != 0 || !done)
			return -1;
	}
	return 0;
}

static int try_own_child(const char *arg)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) || ptrace(PTRACE_CONT, pid, 0, 0) < 0)
		return -1;
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? 0 : -1;
}

static int try_exec_memory(const char *arg)
{
	int in = open("/proc/self/exe", O_RDONLY), fd = memfd_create("self", 0), status;
	char buf[65536];
	for (ssize_t n; (n = read(in, buf, sizeof buf)) > 0;)
		if (write(fd, buf, (size_t)n) != n)
			return -1;
	pid_t pid = fork();
	if (pid == 0) {
		syscall(SYS_execveat, fd, "", (char *[]){ (char *)"probe", NULL }, (char *[]){ NULL }, AT_EMPTY_PATH);
		_exit(1);
	}
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

/* Cannot be killed with its session or by the end of a terminal; the arguments are its mark. */
static int try_daemonize(const char *arg)
{
	if (fork() != 0)
		return 0;
	setsid();
	if (fork() != 0)
		_exit(0);
	for (int i = 1; i < 65; i++)
		signal(i, SIG_IGN);
	alarm(0);
	for (int i = 0; i < 3; i++)
		close(i);
	for (;;)
		pause();
}

/* A process that keeps replacing itself by its child: killing it one pid at a time loses the race. */
static int try_fork_race(const char *arg)
{
	alarm(0);
	signal(SIGTERM, SIG_IGN);
	if (fork() == 0)
		while (fork() == 0)
			continue;
	else
		for (;;)
			pause();
	_exit(0);
}

static int try_fork_bomb(const char *arg)
{
	alarm(0);
	if (write(1, "bomb\n", 5) < 0)
		return -1;
	for (;;)
		if (fork() < 0)
			sched_yield();
}

static int fill(int fd)
{
	char *block = malloc(1 << 20);
	memset(block, 'x', 1 << 20);
	for (long mib = 0;; mib++) {
		if (write(fd, block, 1 << 20) < 0) {
			int error = errno;
			probe_say("after %ld MiB", mib);
			return probe_shut(error);
		}
	}
}

static int try_fill_file(const char *path)
{
	alarm(120);
	int fd = open(path, O_WRONLY | O_CREAT, 0644);
	int r = fd < 0 ? -1 : fill(fd), error = errno;
	unlink(path);
	errno = error;
	return r;
}

static int try_fill_memory(const char *arg)
{
	alarm(120);
	for (;;) {
		char *p = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return -1;
		memset(p, 'x', 16 << 20);
	}
}

static int try_fill_memfd(const char *arg)
{
	alarm(120);
	return fill(memfd_create("fill", 0));
}

static int try_fill_inodes(const char *folder)
{
	char name[4200];
	alarm(120);
	for (long i = 0;; i++) {
		snprintf(name, sizeof name, "%s/inode.%ld", folder, i);
		int fd = open(name, O_WRONLY | O_CREAT, 0644);
		if (fd < 0) {
			probe_say("after %ld files", i);
			return -1;
		}
		close(fd);
	}
}

static int try_fill_descriptors(const char *arg)
{
	for (long i = 0;; i++) {
		if (open("/dev/null", O_RDONLY) < 0) {
			probe_say("after %ld", i);
			return -1;
		}
	}
}

/* Has the init adopt so many that stay, to be passed over each time it waits, and others that end all the time. */
static int try_orphans(const char *arg)
{
	alarm(0);
	for (long i = strtol(arg, NULL, 10); i > 0; i--) {
		pid_t pid = fork();
		if (pid == 0 && fork() == 0)
			for (;;)
				pause();
		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	for (int i = 0; i < 40; i++) {
		if (fork() != 0)
			continue;
		for (;;) {
			pid_t pid = fork();
			if (pid == 0) {
				for (int k = 0; k < 2; k++)
					if (fork() == 0)
						_exit(0);
				_exit(0);
			}
			waitpid(pid, NULL, 0);
		}
	}
	for (;;)
		pause();
}

/* Burns processor time in children that the kernel reaps at once, so that it is counted for nobody. arg: how much, in
 * ms; then it says so. */
static int try_burn_unseen(const char *arg)
{
	alarm(0);
	signal(SIGCHLD, SIG_IGN);
	for (long left = strtol(arg, NULL, 10); left > 0; left -= BURN_MS) {
		pid_t pid = fork();
		struct timespec used;
		if (pid < 0)
			return -1;
		if (pid > 0) {
			waitpid(pid, NULL, 0); /* until it is gone: there is nothing to be had */
			continue;
		}
		do
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
		while (used.tv_sec == 0 && used.tv_nsec < BURN_MS * 1000000l);
		_exit(0);
	}
	return 0;
}

/* Sends descriptors that no process receives, as many as allowed, and stays. */
static int try_fill_sockets(const char *arg)
{
	struct rlimit r;
	int many[250] = { 0 }, pair[2];
	union {
		char room[CMSG_SPACE(sizeof many)];
		struct cmsghdr head;
	} control = { .head = {
			      .cmsg_len = CMSG_LEN(sizeof many), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	char nothing = 0;
	struct iovec byte = { &nothing, 1 };
	const struct msghdr m = {
		.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
	};
	memcpy(CMSG_DATA(&control.head), many, sizeof many);
	alarm(0);
	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	do {
		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) < 0)
			return -1;
		while (sendmsg(pair[0], &m, 0) >= 0)
			continue;
	} while (errno == EAGAIN);
	printf("full %s\n", strerrorname_np(errno));
	fflush(stdout);
	pause();
	return -1;
}

/* arg: how often */
static int try_flood(const char *arg)
{
	long count = strtol(arg, NULL, 10);
	alarm(0);
	for (long i = 0; i < count; i++)
		if (open("/etc/hosts.flood", O_WRONLY | O_CREAT, 0644) >= 0)
			return 0;
	return -1;
}

const struct probe probe_process[] = {
	{ "descriptors", try_descriptors },
	{ "privileges", try_privileges },
	{ "set_uid", try_set_uid },
	{ "set_other_uid", try_set_other_uid },
	{ "set_groups", try_set_groups },
	{ "take_capability", try_take_capability },
	{ "effective_uid", try_effective_uid },
	{ "map_ids", try_map_ids },
	{ "see", try_see },
	{ "signal", try_signal },
	{ "open_process", try_open_process },
	{ "trace", try_trace },
	{ "read_memory", try_read_memory },
	{ "take_descriptor", try_take_descriptor },
	{ "compare", try_compare },
	{ "limit_other", try_limit_other },
	{ "schedule_other", try_schedule_other },
	{ "schedule_other_param", try_schedule_other_param },
	{ "schedule_other_attr", try_schedule_other_attr },
	{ "processors_of_other", try_processors_of_other },
	{ "priority_of_other", try_priority_of_other },
	{ "priority_of_user", try_priority_of_user },
	{ "io_priority_of_other", try_io_priority_of_other },
	{ "io_priority_of_user", try_io_priority_of_user },
	{ "end_init", try_end_init },
	{ "real_time", try_real_time },
	{ "nice", try_nice },
	{ "oom_score", try_oom_score },
	{ "raise_limit", try_raise_limit },
	{ "pin_memory", try_pin_memory },
	{ "threads", try_threads },
	{ "own_child", try_own_child },
	{ "exec_memory", try_exec_memory },
	{ "daemonize", try_daemonize },
	{ "fork_race", try_fork_race },
	{ "fork_bomb", try_fork_bomb },
	{ "fill_file", try_fill_file },
	{ "fill_memory", try_fill_memory },
	{ "fill_memfd", try_fill_memfd },
	{ "fill_inodes", try_fill_inodes },
	{ "fill_descriptors", try_fill_descriptors },
	{ "fill_sockets", try_fill_sockets },
	{ "burn_unseen", try_burn_unseen },
	{ "orphans", try_orphans },
	{ "flood", try_flood },
	{ 0 },
};
