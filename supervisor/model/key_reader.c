#include "supervisor/model/key_reader.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the reader sends for each byte that it receives. */
static struct reply {
	struct err e; /* code ERR_NONE: there is a key */
	struct key key;
} reply; /* of either process; locked in memory where the limit allows it, and wiped after use */

/* ---- the key ---- */

/* A key is one line of visible ASCII characters: anything else cannot be the value of a header. */
static int take_line(char *text, size_t len, struct key *ret, struct err *e)
{
	while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (!len || len > KEY_MAX)
		return err_set(e, ERR_INVALID, len ? "the key is longer than %u bytes" : "the key is empty", KEY_MAX);
	for (size_t i = 0; i < len; i++)
		if (text[i] <= 0x20 || text[i] >= 0x7f)
			return err_set(e, ERR_INVALID, "the key must be one line of ASCII characters without spaces");
	memcpy(ret->text, text, len);
	ret->text[len] = '\0';
	return 0;
}

static int read_file(const char *path, struct key *ret, struct err *e)
{
	char text[KEY_MAX + 3];
	struct stat st;
	/* Opening a FIFO must not block. */
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return err_sys(e, errno, "key file %s", path);
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "key file %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "key file %s: not a regular file", path);
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return err_set(e, ERR_INVALID, "key file %s: accessible to others (mode %04o); run: chmod 600 %s", path,
			       st.st_mode & 07777, path);
	ssize_t n = fd_read_all(fd, text, sizeof text);
	int r = n < 0 ? err_sys(e, errno, "read") : take_line(text, (size_t)n, ret, e);
	explicit_bzero(text, sizeof text);
	return r < 0 ? err_wrap(e, "key file %s", path) : 0;
}

static _Noreturn void run_shell(const char *command, int out)
{
	signal(SIGPIPE, SIG_DFL);
	setsid(); /* a process group of its own, and no terminal to ask on */
	if (dup2(out, STDOUT_FILENO) >= 0)
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

/*
 * Waits for the end of the command and reads its output. A process that the command leaves behind with the pipe open
 * delays nothing.
 */
static int collect_output(int pipe, int pidfd, int sock, char *text, size_t cap, size_t *ret_len, struct err *e)
{
	const uint64_t deadline = clock_boot_ms() + KEY_COMMAND_MS;
	struct pollfd fds[] = { { pidfd, POLLIN, 0 }, { pipe, POLLIN, 0 }, { sock, POLLRDHUP, 0 } };
	size_t len = 0;

	for (bool ended = false; !ended;) {
		const uint64_t now = clock_boot_ms();

		if (now >= deadline)
			return err_set(e, ERR_INVALID, "did not end within %d seconds", KEY_COMMAND_MS / 1000);
		if (poll(fds, 3, (int)(deadline - now)) < 0 && errno != EINTR)
			return err_sys(e, errno, "wait");
		if (fds[2].revents)
			return err_set(e, ERR_STATE, "no longer wanted");
		ended = fds[0].revents; /* read before the pipe is, so that no output is missed */
		for (ssize_t n = 1; n > 0 && len<cap; len += n> 0 ? (size_t)n : 0)
			if ((n = read(pipe, text + len, cap - len)) == 0)
				fds[1].fd = -1; /* its end would wake poll over and over */
		if (len == cap)
			return err_set(e, ERR_INVALID, "the key is longer than %u bytes", KEY_MAX);
	}
	*ret_len = len;
	return 0;
}

static int read_command(const char *command, int sock, struct key *ret, struct err *e)
{
	char text[KEY_MAX + 3];
	size_t len = 0;
	int ends[2], status = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "key command: pipe");
	fd_auto int out = ends[0], in = ends[1];
	const pid_t pid = fork();
	if (pid < 0)
		return err_sys(e, errno, "key command: fork");
	if (pid == 0)
		run_shell(command, in);
	fd_close(&in);
	fd_nonblock(out, true);
	fd_auto int pidfd = fd_pidfd_open(pid);
	int r = pidfd < 0 ? err_sys(e, errno, "pidfd_open")
			  : collect_output(out, pidfd, sock, text, sizeof text, &len, e);
	kill(-pid, SIGKILL); /* and whatever it left behind */
	kill(pid, SIGKILL);  /* it may not have its own group yet */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
		r = err_set(e, ERR_INVALID, "%s %d; run it by hand to see why",
			    WIFEXITED(status) ? "ended with status" : "was ended by signal",
			    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	if (r == 0)
		r = take_line(text, len, ret, e);
	explicit_bzero(text, sizeof text);
	return r < 0 ? err_wrap(e, "key command") : 0;
}

/* ---- the process ---- */

static _Noreturn void serve(int sock, const char *file, const char *command)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char request;

	signal(SIGCHLD, SIG_DFL);
	/* stdout is the response's: it must end with the process that writes it. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			_exit(1);
	mlock(&reply, sizeof reply);
	bool answered = true; /* otherwise the end of this process is the answer */
	for (int i = 0; i < KEY_READER_READS && answered && recv(sock, &request, 1, 0) == 1; i++) {
		reply.e = ERR_INIT;
		if (file)
			(void)read_file(file, &reply.key, &reply.e);
		else
			(void)read_command(command, sock, &reply.key, &reply.e);
		answered = send(sock, &reply, sizeof reply, MSG_NOSIGNAL) == sizeof reply;
		explicit_bzero(&reply, sizeof reply);
	}
	_exit(0);
}

int key_reader_start(const char *file, const char *command, struct key_reader *ret, struct err *e)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, errno, "socketpair");
	fd_auto int ours = ends[0], theirs = ends[1];
	signal(SIGCHLD, SIG_IGN); /* the confined process cannot wait for its child */
	const pid_t pid = fork();
	if (pid < 0)
		return err_sys(e, errno, "fork");
	if (pid == 0) {
		fd_close(&ours);
		serve(theirs, file, command);
	}
	mlock(&reply, sizeof reply);
	ret->sock = fd_take(&ours);
	return 0;
}

void key_reader_stop(struct key_reader *r)
{
	char end;

	if (r->sock >= 0 && shutdown(r->sock, SHUT_WR) == 0)
		(void)!recv(r->sock, &end, 1, 0); /* the end of the process closes its socket */
	fd_close(&r->sock);
}

int key_reader_read(struct key_reader *r, struct key *ret, struct err *e)
{
	int result = 0;

	ssize_t n = send(r->sock, "", 1, MSG_NOSIGNAL) == 1 ? recv(r->sock, &reply, sizeof reply, 0) : -1;
	if (n != sizeof reply)
		result = err_set(e, ERR_UNAVAILABLE, "the process that reads the key has ended");
	else if (reply.e.code) {
		*e = reply.e;
		result = -1;
	} else {
		reply.key.text[KEY_MAX] = '\0';
		*ret = reply.key;
	}
	explicit_bzero(&reply, sizeof reply);
	return result;
}
