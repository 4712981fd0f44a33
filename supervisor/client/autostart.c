#include "supervisor/client/autostart.h"

#include "runtime/base/buf.h"
#include "runtime/base/daemon_exit.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/client/daemon_program.h"
#include "supervisor/client/home_candidates.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define STDERR_MAX 4096 /* limit of the messages of a daemon that fails to start */
#define POLL_MS 20      /* polling interval where pidfds are not available */

/*
 * The daemon must not inherit our stdout and stderr: a pipeline around `bailiff run` would wait until the daemon closes
 * them. Its stderr is a pipe that is read only until the starting process has exited.
 */
static int spawn_daemon(char *const argv[], int stderr_fd, pid_t *ret_pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&files, stderr_fd, STDERR_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	r = posix_spawnp(ret_pid, argv[0], &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return r;
}

/* ---- the launcher ---- */

static int launcher_fd = -1; /* −1: this process starts daemons itself */

struct launch_result {
	int result; /* return value of autostart_start */
	struct err err;
};

/* Starts a daemon for each message and replies with the outcome, until the peer closes the socket. */
static _Noreturn void run_launcher(int fd)
{
	struct home places[HOME_CANDIDATES_MAX];
	char request;

	(void)home_candidates(getuid(), places);
	while (recv(fd, &request, sizeof request, 0) > 0) {
		struct launch_result r = { .err = ERR_INIT };

		r.result = autostart_start(&places[0], &r.err);
		if (send(fd, &r, sizeof r, MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

int autostart_delegate(struct err *e)
{
	enum { LINK = STDERR_FILENO + 1 };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "start a launcher: socketpair");
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		/*
		 * The launcher must not hold the gateway's standard streams: the client waits for their end of file
		 * when the gateway exits.
		 */
		for (int i = STDIN_FILENO; null >= 0 && i <= STDERR_FILENO; i++)
			(void)dup2(null, i);
		int link = fcntl(pair[1], F_DUPFD_CLOEXEC, LINK + 1);
		if (null < 0 || link < 0 || dup3(link, LINK, O_CLOEXEC) < 0)
			_exit(1);
		fd_close_range(LINK + 1, UINT_MAX);
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		run_launcher(LINK);
	}
	close(pair[1]);
	launcher_fd = pair[0];
	if (pid < 0) {
		fd_close(&launcher_fd);
		return err_sys(e, errno, "start a launcher: fork");
	}
	return 0;
}

static int poll_launcher(struct err *e)
{
	struct launch_result r;
	ssize_t n = recv(launcher_fd, &r, sizeof r, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 1;
	if (n != (ssize_t)sizeof r)
		return err_set(e, ERR_UNAVAILABLE, "start a daemon: the launcher of this process is gone");
	if (r.result < 0)
		*e = r.err;
	return r.result;
}

/* ---- one start ---- */

int autostart_begin(const struct home *h, struct autostart *ret, struct err *e)
{
	mem_auto char *program = daemon_program_path();
	char embedded[] = "--embedded", home[] = "--home";
	char *argv[] = { program, embedded, h->dir[0] ? home : NULL, h->dir[0] ? (char *)h->dir : NULL, NULL };
	int pipefd[2];
	pid_t pid;

	if (home_is_service(h))
		return err_set(e, ERR_UNAVAILABLE,
			       "bailiff.service does not answer on %s; start it with systemctl start bailiff",
			       h->socket);
	if (launcher_fd >= 0) {
		if (send(launcher_fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			return err_sys(e, errno, "start a daemon: ask the launcher");
		*ret = (struct autostart){ .pid = -1, .stderr_fd = -1 };
		return 0;
	}
	if (pipe2(pipefd, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "start a daemon: pipe");
	fd_auto int stderr_fd = pipefd[0];
	int r = spawn_daemon(argv, pipefd[1], &pid);
	close(pipefd[1]);
	if (r != 0)
		return err_sys(e, r, "start a daemon: %s", program);
	*ret = (struct autostart){ .pid = pid, .stderr_fd = fd_take(&stderr_fd) };
	return 0;
}

/*
 * Reads what is there without waiting for end of file: the daemon keeps the pipe open longer than the starting process
 * lives.
 */
static void read_messages(struct autostart *x)
{
	char chunk[1024];
	ssize_t n = -1;

	while (x->stderr_fd >= 0 && ((n = read(x->stderr_fd, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0 && x->printed.len < STDERR_MAX)
			buf_append(&x->printed, chunk, (size_t)n);
	if (n == 0)
		fd_close(&x->stderr_fd);
}

static int check_exit_status(struct autostart *x, int status, struct err *e)
{
	struct buf *printed = &x->printed;

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	while (printed->len && printed->data[printed->len - 1] == '\n')
		printed->data[--printed->len] = 0;
	const char *last = strrchr(buf_cstr(printed), '\n');
	if (WIFSIGNALED(status))
		return err_set(e, ERR_UNAVAILABLE, "start a daemon: bailiffd was killed by signal %d",
			       WTERMSIG(status));
	enum err_code code = WEXITSTATUS(status) == DAEMON_EXIT_KERNEL ? ERR_SANDBOX : ERR_UNAVAILABLE;
	return err_set(e, code, "start a daemon: %s",
		       printed->len ? log_line_message(last ? last + 1 : printed->data) : "it printed no reason");
}

int autostart_poll(struct autostart *x, struct err *e)
{
	int status = 0, r;

	if (x->pid < 0) {
		r = poll_launcher(e);
	} else {
		pid_t ended = waitpid(x->pid, &status, WNOHANG);

		read_messages(x);
		if (ended == 0 || (ended < 0 && errno == EINTR))
			return 1;
		x->pid = 0;
		r = check_exit_status(x, status, e);
	}
	if (r <= 0)
		autostart_done(x);
	return r;
}

void autostart_done(struct autostart *x)
{
	if (x->pid > 0)
		waitpid(x->pid, NULL, WNOHANG);
	if (x->stderr_fd > 0)
		close(x->stderr_fd);
	buf_done(&x->printed);
	*x = (struct autostart){ 0 };
}

int autostart_start(const struct home *h, struct err *e)
{
	struct autostart x;
	int r;

	if (autostart_begin(h, &x, e) < 0)
		return -1;
	fd_auto int pidfd = x.pid > 0 ? fd_pidfd_open(x.pid) : -1;
	while ((r = autostart_poll(&x, e)) > 0) {
		struct pollfd p[2] = { { .fd = x.stderr_fd, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };

		poll(p, countof(p), pidfd >= 0 ? -1 : POLL_MS);
	}
	return r;
}
