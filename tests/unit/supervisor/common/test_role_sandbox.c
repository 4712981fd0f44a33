/* The sandboxes of bailiff's own processes: what each role can still do, and what it cannot. */

#include "supervisor/common/role_sandbox.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

struct result {
	int status;      /* of the child: 0, or the line of the expectation that failed */
	char said[4096]; /* on stderr */
};

static char folder[] = "/tmp/role-sandbox-XXXXXX", inside[64], outside[] = "/tmp/role-outside-XXXXXX";

static void set_up(void)
{
	int fd = mkstemp(outside);

	ck_assert(mkdtemp(folder) && fd >= 0);
	close(fd);
	snprintf(inside, sizeof inside, "%s/file", folder);
	fd = open(inside, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
}

static void tear_down(void)
{
	unlink(inside);
	rmdir(folder);
	unlink(outside);
}

static bool has_landlock(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
}

/* Runs fn in the sandbox of a role, in a process of its own. */
static void run_in(enum role_sandbox role, enum role_sandbox_access access, int (*fn)(void), struct result *ret)
{
	const struct role_sandbox_path own[] = { { access, folder, -1 } };
	int ends[2], status;

	ck_assert_int_eq(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct err e = ERR_INIT;

		dup2(ends[1], STDERR_FILENO);
		if (role_sandbox_enter(role, own, countof(own), &e) < 0) {
			dprintf(STDERR_FILENO, "%s\n", e.message);
			_exit(255);
		}
		_exit(fn());
	}
	close(ends[1]);
	ssize_t n = fd_read_all(ends[0], ret->said, sizeof ret->said - 1);
	ret->said[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "killed by signal %d: %s", WTERMSIG(status), ret->said);
	ret->status = WEXITSTATUS(status);
}

#define RECENT_CALL 500 /* no kernel has it yet */

#define EXPECT(condition)                      \
	do {                                   \
		if (!(condition))              \
			return __LINE__ % 255; \
	} while (0)
#define FAILS(call, error) EXPECT((errno = 0, (call) < 0) && errno == (error))

static void expect_all(int (*fn)(void), const char *said)
{
	for (int role = 0; role < ROLE_SANDBOX_COUNT; role++) {
		struct result r;

		run_in((enum role_sandbox)role, ROLE_SANDBOX_READ, fn, &r);
		ck_assert_msg(r.status == 0, "role %d: line %d: %s", role, r.status, r.said);
		if (said)
			ck_assert_msg(strstr(r.said, said), "role %d: no '%s' in '%s'", role, said, r.said);
		else
			ck_assert_str_eq(r.said, "");
	}
}

static int try_forbidden_calls(void)
{
	char *const argv[] = { (char *)"true", NULL };

	FAILS(execve("/bin/true", argv, NULL), EPERM);
	FAILS(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL), EPERM); /* fork() may block SIGSYS: the end */
	FAILS(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, NULL, 0), EPERM);
	FAILS(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM);
	FAILS(mount("none", "/tmp", "tmpfs", 0, NULL), EPERM);
	FAILS(unshare(CLONE_NEWUSER), EPERM);
	FAILS(setuid(getuid()), EPERM);
	FAILS(chown(inside, getuid(), getgid()), EPERM);
	FAILS(kill(getppid(), 0), EPERM);
	FAILS(syscall(SYS_pidfd_open, getppid(), 0), EPERM);
	FAILS(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0), EPERM);
	FAILS(syscall(SYS_bpf, 0, NULL, 0), EPERM);
	FAILS(syscall(SYS_io_uring_setup, 1, NULL), EPERM);
	FAILS(syscall(SYS_keyctl, 0, 0, 0, 0, 0), EPERM);
	FAILS(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), EPERM);
	FAILS(syscall(SYS_tgkill, getppid(), getppid(), 0), EPERM);
	FAILS(syscall(SYS_clone3, NULL, 0), ENOSYS);
	FAILS(syscall(RECENT_CALL), ENOSYS);
	FAILS(socket(AF_PACKET, SOCK_RAW, 0), EAFNOSUPPORT);
	FAILS(socket(AF_ALG, SOCK_SEQPACKET, 0), EAFNOSUPPORT);
	return 0;
}

START_TEST(forbidden_calls_fail_and_are_logged)
{
	char said[64];

	snprintf(said, sizeof said, "sandbox denied system call %04d", (int)SYS_execve);
	if (!ROLE_SANDBOX_SANITIZED)
		expect_all(try_forbidden_calls, said);
}
END_TEST

static int repeat_a_call(void)
{
	for (int i = 0; i < 100; i++)
		FAILS(setuid(getuid()), EPERM);
	return 0;
}

START_TEST(a_call_is_logged_once)
{
	struct result r;

	SKIP_IF(ROLE_SANDBOX_SANITIZED, "the sanitizer's own calls require a wider filter");
	run_in(ROLE_SANDBOX_RUNTIME, ROLE_SANDBOX_READ, repeat_a_call, &r);
	ck_assert_int_eq(r.status, 0);
	ck_assert_ptr_eq(strchr(r.said, '\n'), r.said + strlen(r.said) - 1);
}
END_TEST

static int try_files(void)
{
	fd_auto int in = open(inside, O_RDONLY), null = open("/dev/null", O_RDONLY),
		    etc = open("/etc/passwd", O_RDONLY);

	EXPECT(in >= 0 && null >= 0 && etc >= 0);
	FAILS(open(inside, O_WRONLY), EACCES);
	FAILS(open(outside, O_RDONLY), EACCES);
	FAILS(open(outside, O_WRONLY), EACCES);
	FAILS(open("/tmp/role-new", O_WRONLY | O_CREAT, 0600), EACCES);
	return 0;
}

START_TEST(files_outside_the_domain_cannot_be_opened)
{
	if (!ROLE_SANDBOX_SANITIZED && has_landlock())
		expect_all(try_files, NULL);
}
END_TEST

static void *run_thread(void *flag)
{
	*(bool *)flag = true;
	return NULL;
}

/* Signals, heap, threads and clocks, which every role uses. */
static int use_ordinary_operations(void)
{
	bool flag = false;
	pthread_t thread;
	struct timespec now;
	char *text = malloc(4 << 20);

	EXPECT(text && snprintf(text, 16, "%d", 7) == 1);
	free(text);
	EXPECT(pthread_create(&thread, NULL, run_thread, &flag) == 0 && pthread_join(thread, NULL) == 0 && flag);
	EXPECT(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
	EXPECT(raise(SIGURG) == 0);
	EXPECT(prctl(PR_SET_NAME, "role", 0, 0, 0) == 0);
	(void)getpwuid(getuid());
	return 0;
}

START_TEST(ordinary_operations_work_and_log_nothing) { expect_all(use_ordinary_operations, NULL); }
END_TEST

/*
 * Functions of the C library for which an old architecture (x86_64) has system calls of their own, and a new one
 * (aarch64) only the calls with a directory descriptor, a timespec or flags.
 */
static int read_and_wait(void)
{
	struct stat st;
	struct statvfs space;
	struct rlimit limit;
	struct timeval soon = { .tv_usec = 1000 }, now;
	struct epoll_event event = { .events = EPOLLIN };
	char text[PATH_MAX];
	int ends[2];
	fd_auto int dir = open(folder, O_RDONLY | O_DIRECTORY), epoll = epoll_create(1),
		    counter = eventfd(1, EFD_CLOEXEC);
	DIR *names = opendir(folder);

	EXPECT(dir >= 0 && epoll >= 0 && counter >= 0 && names && readdir(names) && closedir(names) == 0);
	EXPECT(stat(inside, &st) == 0 && lstat(inside, &st) == 0 && fstat(dir, &st) == 0);
	EXPECT(fstatvfs(dir, &space) == 0 && access(inside, R_OK) == 0 && faccessat(dir, "file", R_OK, 0) == 0);
	EXPECT(readlink("/etc/mtab", text, sizeof text) > 0 || errno == ENOENT || errno == EINVAL);
	EXPECT(realpath(inside, text) != NULL && getcwd(text, sizeof text) != NULL);
	EXPECT(pipe(ends) == 0 && dup2(ends[0], ends[1]) == ends[1]);
	EXPECT(poll(&(struct pollfd){ counter, POLLIN, 0 }, 1, 1000) == 1 && select(0, NULL, NULL, NULL, &soon) == 0);
	EXPECT(epoll_ctl(epoll, EPOLL_CTL_ADD, counter, &event) == 0 && epoll_wait(epoll, &event, 1, 1000) == 1);
	EXPECT(gettimeofday(&now, NULL) == 0 && time(NULL) > 0 && usleep(1) == 0 && sched_getcpu() >= 0);
	EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	return 0;
}

START_TEST(the_c_library_can_read_and_wait_in_every_role) { expect_all(read_and_wait, NULL); }
END_TEST

static int write_in_a_folder(void)
{
	char other[80], made[80];

	snprintf(other, sizeof other, "%s/other", folder);
	snprintf(made, sizeof made, "%s/XXXXXX", folder);
	int fd = mkostemp(made, O_CLOEXEC);
	EXPECT(fd >= 0 && ftruncate(fd, 10) == 0 && fchmod(fd, 0644) == 0 && fsync(fd) == 0 && close(fd) == 0);
	EXPECT(rename(made, other) == 0 && renameat(AT_FDCWD, other, AT_FDCWD, made) == 0 && remove(made) == 0);
	snprintf(made, sizeof made, "%s/XXXXXX", folder);
	EXPECT(mkdtemp(made) && rmdir(made) == 0 && mkdir(other, 0700) == 0 && remove(other) == 0);
	return 0;
}

static int write_in_a_workspace(void)
{
	char other[80];
	int r = write_in_a_folder();
	fd_auto int fd = open(inside, O_RDWR);

	snprintf(other, sizeof other, "%s/other", folder);
	EXPECT(r == 0 && symlink("file", other) == 0 && unlink(other) == 0);
	EXPECT(futimens(fd, NULL) == 0 && utimensat(AT_FDCWD, inside, NULL, 0) == 0);
	EXPECT(fchmodat(AT_FDCWD, inside, 0644, 0) == 0);
	EXPECT(fchmodat(AT_FDCWD, inside, 0600, AT_SYMLINK_NOFOLLOW) == 0);
	return 0;
}

START_TEST(the_c_library_can_write_for_the_runtime_and_the_fleet)
{
	struct result r;

	run_in(ROLE_SANDBOX_RUNTIME, ROLE_SANDBOX_WRITE, write_in_a_folder, &r);
	ck_assert_msg(r.status == 0 && !r.said[0], "line %d: %s", r.status, r.said);
	run_in(ROLE_SANDBOX_FLEET, ROLE_SANDBOX_WRITE, write_in_a_workspace, &r);
	ck_assert_msg(r.status == 0 && !r.said[0], "line %d: %s", r.status, r.said);
}
END_TEST

static int write_in_the_store(void)
{
	char other[80];
	fd_auto int fd = open(inside, O_RDWR), dir = open(folder, O_RDONLY | O_DIRECTORY);

	snprintf(other, sizeof other, "%s/other", folder);
	EXPECT(fd >= 0 && dir >= 0);
	EXPECT(pwrite(fd, "x", 1, 0) == 1 && fdatasync(fd) == 0 && ftruncate(fd, 4096) == 0);
	EXPECT(linkat(AT_FDCWD, inside, AT_FDCWD, other, 0) == 0 && unlink(other) == 0);
	EXPECT(mkdir(other, 0700) == 0 && rmdir(other) == 0 && fsync(dir) == 0);
	FAILS(open(outside, O_WRONLY), EACCES);
	return 0;
}

START_TEST(the_runtime_can_write_only_its_store)
{
	struct result r;

	SKIP_IF(ROLE_SANDBOX_SANITIZED, "the sanitizer's own calls require a wider filter");
	SKIP_IF(!has_landlock(), "requires Landlock");
	run_in(ROLE_SANDBOX_RUNTIME, ROLE_SANDBOX_WRITE, write_in_the_store, &r);
	ck_assert_msg(r.status == 0, "line %d: %s", r.status, r.said);
	ck_assert_str_eq(r.said, "");
}
END_TEST

static int reach_the_internet(void)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	fd_auto int v4 = socket(AF_INET, SOCK_STREAM, 0);

	EXPECT(v4 >= 0);
	FAILS(socket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	EXPECT(getaddrinfo("localhost", "80", &hints, &found) == 0);
	freeaddrinfo(found);
	return 0;
}

static int reach_the_daemon(void)
{
	fd_auto int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	EXPECT(fd >= 0);
	FAILS(socket(AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT);
	FAILS(socket(AF_INET6, SOCK_DGRAM, 0), EAFNOSUPPORT);
	return 0;
}

START_TEST(each_role_has_the_sockets_that_it_needs)
{
	static int (*const expected[ROLE_SANDBOX_COUNT])(void) = {
		[ROLE_SANDBOX_RUNTIME] = reach_the_daemon,   [ROLE_SANDBOX_GATEWAY] = reach_the_daemon,
		[ROLE_SANDBOX_PROXY] = reach_the_internet,   [ROLE_SANDBOX_EXPORTER] = reach_the_internet,
		[ROLE_SANDBOX_WEBHOOK] = reach_the_internet, [ROLE_SANDBOX_MODEL] = reach_the_internet,
		[ROLE_SANDBOX_FLEET] = reach_the_internet,
	};

	SKIP_IF(ROLE_SANDBOX_SANITIZED, "the sanitizer's own calls require a wider filter");
	for (int role = 0; role < ROLE_SANDBOX_COUNT; role++) {
		struct result r;

		run_in((enum role_sandbox)role, ROLE_SANDBOX_READ, expected[role], &r);
		ck_assert_msg(r.status == 0, "role %d: line %d: %s", role, r.status, r.said);
	}
}
END_TEST

/* 0: it can listen on a port of the host. */
static int listen_on_the_host(void)
{
	const struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	fd_auto int v4 = socket(AF_INET, SOCK_STREAM, 0);

	EXPECT(v4 >= 0);
	EXPECT(bind(v4, (const struct sockaddr *)&at, sizeof at) == 0 || errno == EACCES);
	EXPECT(listen(v4, 1) == 0);
	return 0;
}

START_TEST(only_the_proxy_can_listen_on_the_host)
{
	SKIP_IF(ROLE_SANDBOX_SANITIZED, "the sanitizer's own calls require a wider filter");
	for (int role = 0; role < ROLE_SANDBOX_COUNT; role++) {
		struct result r;

		run_in((enum role_sandbox)role, ROLE_SANDBOX_READ, listen_on_the_host, &r);
		ck_assert_msg((r.status == 0) == (role == ROLE_SANDBOX_PROXY), "role %d: line %d: %s", role, r.status,
			      r.said);
	}
}
END_TEST

int main(void)
{
	const struct suite_case all = {
		"role_sandbox", set_up, tear_down, 60,
		SUITE_TESTS(forbidden_calls_fail_and_are_logged, a_call_is_logged_once,
			    files_outside_the_domain_cannot_be_opened, ordinary_operations_work_and_log_nothing,
			    the_c_library_can_read_and_wait_in_every_role,
			    the_c_library_can_write_for_the_runtime_and_the_fleet, the_runtime_can_write_only_its_store,
			    each_role_has_the_sockets_that_it_needs, only_the_proxy_can_listen_on_the_host)
	};

	return suite_run_cases("role_sandbox", &all, 1);
}
