#include "supervisor/cli/embedded.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/home.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define SAID_MAX 4096 /* of what a daemon that fails to start said */

/* bailiffd beside /proc/self/exe (a build) or in ../sbin (an installation), or the bare name for a search in PATH. */
static char *program_path(void)
{
	static const char *const places[] = { "bailiffd", "../sbin/bailiffd" };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = 0;
		char *slash = strrchr(self, '/');
		if (slash) {
			*slash = 0;
			for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
				mem_auto char *path = mem_printf("%s/%s", self, places[i]);
				if (access(path, X_OK) == 0)
					return mem_take(&path);
			}
		}
	}
	return mem_strdup("bailiffd");
}

/*
 * stdout and stderr must not be ours: a pipeline around `bailiff run` would wait for the daemon to close them. stderr is
 * a pipe, read only until the starting process has ended.
 */
static int spawn(char *const argv[], int said_fd, pid_t *ret_pid)
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
	posix_spawn_file_actions_adddup2(&files, said_fd, STDERR_FILENO);
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

/* Reads what it says until it has ended; the daemon itself, which goes on, may hold the pipe longer. */
static void listen_until_end(pid_t pid, int said_fd, struct buf *said)
{
	fd_auto int pidfd = fd_pidfd_open(pid);
	struct pollfd p[2] = { { .fd = said_fd, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };

	for (;;) {
		char chunk[1024];
		ssize_t n = 0;

		if (poll(p, pidfd >= 0 ? 2 : 1, -1) < 0 && errno != EINTR)
			return;
		if (p[0].revents) {
			n = read(said_fd, chunk, sizeof(chunk));
			if (n > 0 && said->len < SAID_MAX)
				buf_append(said, chunk, (size_t)n);
			if (n == 0)
				p[0].fd = -1;
		}
		if (n <= 0 && (p[1].revents || pidfd < 0))
			return;
	}
}

int embedded_start(const struct home *h, struct err *e)
{
	mem_auto char *program = program_path();
	char embedded[] = "--embedded", home[] = "--home";
	char *argv[] = { program, embedded, h->dir[0] ? home : NULL, h->dir[0] ? (char *)h->dir : NULL, NULL };
	buf_auto struct buf said = BUF_INIT;
	int pipefd[2], status = 0;
	pid_t pid;

	if (pipe2(pipefd, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "start a daemon: pipe");
	fd_auto int said_fd = pipefd[0];
	int r = spawn(argv, pipefd[1], &pid);
	close(pipefd[1]);
	if (r != 0)
		return err_sys(e, r, "start a daemon: %s", program);
	listen_until_end(pid, said_fd, &said);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	while (said.len && said.data[said.len - 1] == '\n')
		said.data[--said.len] = 0;
	const char *last = strrchr(buf_cstr(&said), '\n');
	if (WIFSIGNALED(status))
		return err_set(e, ERR_UNAVAILABLE, "start a daemon: %s was killed by signal %d", program, WTERMSIG(status));
	return err_set(e, ERR_UNAVAILABLE, "start a daemon: %s", said.len ? (last ? last + 1 : said.data) : "it failed without a word");
}
