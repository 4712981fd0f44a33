#include "runtime/base/fd.h"
#include "tests/unit/suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void pair(int s[2]) { ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0); }

START_TEST(closing_an_invalid_descriptor_does_nothing_and_closing_keeps_errno)
{
	int fd = -1;

	errno = EXDEV;
	fd_close(&fd);
	fd = open("/dev/null", O_RDONLY);
	ck_assert_int_ge(fd, 0);
	errno = EXDEV;
	fd_close(&fd);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(errno, EXDEV);
}
END_TEST

START_TEST(flags_are_set_and_cleared)
{
	fd_auto int fd = open("/dev/null", O_RDONLY);

	ck_assert_int_eq(fd_nonblock(fd, true), 0);
	ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
	ck_assert_int_eq(fd_nonblock(fd, false), 0);
	ck_assert(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	ck_assert_int_eq(fd_cloexec(fd, true), 0);
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ck_assert_int_eq(fd_cloexec(fd, false), 0);
	ck_assert(!(fcntl(fd, F_GETFD) & FD_CLOEXEC));
	ck_assert_int_eq(fd_nonblock(-1, true), -1);
}
END_TEST

START_TEST(a_large_write_through_a_pipe_arrives_whole)
{
	static char out[1 << 20], in[(1 << 20) + 10];
	int p[2], status;
	pid_t pid;

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (char)(i * 7);
	ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		close(p[0]);
		_exit(fd_write_all(p[1], out, sizeof(out)) == 0 ? 0 : 1);
	}
	close(p[1]);
	ck_assert_int_eq(fd_read_all(p[0], in, sizeof(in)), (ssize_t)sizeof(out));
	ck_assert_mem_eq(in, out, sizeof(out));
	close(p[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(descriptors_are_sent_with_a_message)
{
	int s[2], fds[2], got[4];
	size_t n = 4;
	char msg[16];

	pair(s);
	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_eq(fd_send(s[0], "hello", 5, fds, 2, 0), 0);
	ck_assert_int_eq(fd_recv(s[1], msg, sizeof(msg), got, &n, 0), 5);
	ck_assert_mem_eq(msg, "hello", 5);
	ck_assert_uint_eq(n, 2);
	ck_assert(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
	ck_assert_int_eq(fd_write_all(got[1], "x", 1), 0);
	ck_assert_int_eq(read(fds[0], msg, 1), 1);

	n = 4;
	ck_assert_int_eq(fd_send(s[0], "bare", 4, NULL, 0, 0), 0);
	ck_assert_int_eq(fd_recv(s[1], msg, sizeof(msg), got, &n, 0), 4);
	ck_assert_uint_eq(n, 0);
	close(s[0]);
	ck_assert_int_eq(fd_recv(s[1], msg, sizeof(msg), got, &n, 0), 0);
}
END_TEST

START_TEST(excess_descriptors_are_rejected_and_closed)
{
	int s[2], many[FD_MESSAGE_MAX], got[FD_MESSAGE_MAX], before;
	size_t n = 1;
	char msg[4];

	pair(s);
	for (int i = 0; i < FD_MESSAGE_MAX; i++)
		many[i] = s[0];
	before = open_fds();

	ck_assert_int_eq(fd_send(s[0], "x", 1, many, 2, 0), 0);
	ck_assert_int_eq(fd_recv(s[1], msg, sizeof(msg), got, &n, 0), -1);
	ck_assert_int_eq(errno, EMSGSIZE);
	ck_assert_int_eq(open_fds(), before);

	n = FD_MESSAGE_MAX;
	ck_assert_int_eq(fd_send(s[0], "too long", 8, many, FD_MESSAGE_MAX, 0), 0);
	ck_assert_int_eq(fd_recv(s[1], msg, sizeof(msg), got, &n, 0), -1);
	ck_assert_int_eq(errno, EMSGSIZE);
	ck_assert_int_eq(open_fds(), before);

	n = FD_MESSAGE_MAX;
	ck_assert_int_eq(fd_send(s[0], "all", 3, many, FD_MESSAGE_MAX, 0), 0);
	ck_assert_int_eq(fd_recv(s[1], msg, sizeof(msg), got, &n, 0), 3);
	ck_assert_uint_eq(n, FD_MESSAGE_MAX);
	ck_assert_int_eq(open_fds(), before + FD_MESSAGE_MAX);
	ck_assert_int_eq(fd_send(s[0], "x", 1, many, FD_MESSAGE_MAX + 1, 0), -1);
}
END_TEST

/* More descriptors than a valid message has: the kernel truncates the list (MSG_CTRUNC). */
START_TEST(a_truncated_list_of_descriptors_is_rejected)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int) * 100)];
	} control = { 0 };
	struct iovec iov = { .iov_base = (char[]){ "x" }, .iov_len = 1 };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
	int s[2], got[FD_MESSAGE_MAX], before;
	size_t n = FD_MESSAGE_MAX;
	char msg[4];

	pair(s);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * 100);
	for (int i = 0; i < 100; i++)
		memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &s[0], sizeof(int));
	before = open_fds();
	ck_assert_int_eq(sendmsg(s[0], &mh, 0), 1);
	ck_assert_int_eq(fd_recv(s[1], msg, sizeof(msg), got, &n, 0), -1);
	ck_assert_int_eq(errno, EMSGSIZE);
	ck_assert_int_eq(open_fds(), before);
}
END_TEST

START_TEST(sending_to_a_closed_socket_fails_without_a_signal)
{
	int s[2];

	pair(s);
	close(s[1]);
	ck_assert_int_eq(fd_send(s[0], "x", 1, NULL, 0, 0), -1);
	ck_assert_int_eq(errno, EPIPE);
}
END_TEST

START_TEST(a_sealed_memfd_cannot_be_changed)
{
	fd_auto int fd = fd_memfd_sealed("plan", "contents", 8);
	char text[16];

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_read_all(fd, text, sizeof(text)), 8);
	ck_assert_mem_eq(text, "contents", 8);
	ck_assert_int_eq(pwrite(fd, "x", 1, 0), -1);
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}
END_TEST

START_TEST(processes_are_identified_and_signalled_by_descriptor)
{
	SKIP_IF(suite_under("valgrind"), "valgrind lacks pidfd_open");
	pid_t pid = fork();
	int status;

	if (pid == 0)
		for (;;)
			pause();
	{
		fd_auto int pidfd = fd_pidfd_open(pid);

		ck_assert_int_ge(pidfd, 0);
		ck_assert_int_eq(fd_pidfd_pid(pidfd), pid);
		ck_assert_int_eq(fd_pidfd_signal(pidfd, SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		ck_assert_int_eq(fd_pidfd_signal(pidfd, SIGKILL), -1);
		ck_assert_int_eq(errno, ESRCH);
	}
}
END_TEST

START_TEST(a_range_of_descriptors_is_closed)
{
	int a = fcntl(STDOUT_FILENO, F_DUPFD, 500), b = fcntl(STDOUT_FILENO, F_DUPFD, 510);

	ck_assert_int_ge(a, 500);
	ck_assert_int_eq(fd_close_range((unsigned)a, (unsigned)b), 0);
	ck_assert_int_eq(fcntl(a, F_GETFD), -1);
	ck_assert_int_eq(fcntl(b, F_GETFD), -1);
	ck_assert_int_ge(fcntl(STDOUT_FILENO, F_GETFD), 0);
}
END_TEST

START_TEST(the_soft_descriptor_limit_is_raised_to_the_hard_limit)
{
	struct rlimit rl;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &rl), 0);
	rl.rlim_cur = rl.rlim_max < 64 ? rl.rlim_max : 64;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &rl), 0);
	ck_assert_int_gt(fd_raise_nofile(), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &rl), 0);
	ck_assert(rl.rlim_cur == rl.rlim_max);
}
END_TEST

int main(void)
{
	return SUITE("fd", closing_an_invalid_descriptor_does_nothing_and_closing_keeps_errno,
		     flags_are_set_and_cleared, a_large_write_through_a_pipe_arrives_whole,
		     descriptors_are_sent_with_a_message, excess_descriptors_are_rejected_and_closed,
		     a_truncated_list_of_descriptors_is_rejected, sending_to_a_closed_socket_fails_without_a_signal,
		     a_sealed_memfd_cannot_be_changed, processes_are_identified_and_signalled_by_descriptor,
		     a_range_of_descriptors_is_closed, the_soft_descriptor_limit_is_raised_to_the_hard_limit);
}
