#include "supervisor/daemon/daemonize.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TELL_MAX 8192

/* Prints what the daemon logged since `from`, for the user who ran the command. */
static void print_log(int log_fd, off_t from)
{
	char text[TELL_MAX];
	ssize_t n = pread(log_fd, text, sizeof text, from);
	if (n > 0)
		fd_write_all(STDERR_FILENO, text, (size_t)n);
}

/* End of file without a byte: the daemon exited, and its log has the reason. */
static _Noreturn void wait_until_ready(pid_t child, int ready_fd, int log_fd, off_t from)
{
	char byte;
	ssize_t n;
	do
		n = read(ready_fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(0);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		continue;
	print_log(log_fd, from);
	_exit(1);
}

int daemonize(int log_fd, int *ret_ready_fd, struct err *e)
{
	int ready[2];
	off_t from = lseek(log_fd, 0, SEEK_END);
	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe");
	pid_t pid = fork();
	if (pid < 0) {
		close(ready[0]);
		close(ready[1]);
		return err_sys(e, errno, "fork");
	}
	if (pid > 0) {
		close(ready[1]);
		wait_until_ready(pid, ready[0], log_fd, from);
	}
	close(ready[0]);
	setsid();
	fd_auto int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(log_fd, 2) < 0 || chdir("/") < 0)
		return err_sys(e, errno, "let go of the terminal");
	*ret_ready_fd = ready[1];
	return 0;
}
