#include "supervisor/tool/mcp_runner.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define IO_SECONDS 10 /* for a line that the runner reads or writes */
#define WAITING 64    /* callers */

/* /tmp may be the host's: the other end must be this user's. */
static bool is_own(int fd)
{
	struct ucred peer;
	socklen_t n = sizeof peer;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == getuid();
}

/* A connection; −1 = nothing listens there, −2 with e. */
static int try_connect(const struct sockaddr_un *at, struct err *e)
{
	fd_auto int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_sys(e, errno, "connect to the running server") - 1;
	if (connect(fd, (const struct sockaddr *)at, sizeof *at) < 0)
		return errno == ENOENT || errno == ECONNREFUSED
			       ? -1
			       : err_sys(e, errno, "connect to the running server") - 1;
	if (!is_own(fd))
		return err_set(e, ERR_PERMISSION, "%s belongs to another user", at->sun_path) - 1;
	return fd_take(&fd);
}

/* Keeps nothing of the call: its output ends with it. */
static void detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			close(fd);
	fd_close(&null);
}

/* The parent listens: a caller can connect at once and waits until the server has started. */
static int start_runner(const struct sockaddr_un *at, int lock, mcp_runner_fn *serve, void *ctx, struct err *e)
{
	fd_auto int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const mode_t mask = umask(0077);

	unlink(at->sun_path); /* of a runner that is gone */
	const bool ready = listener >= 0 && bind(listener, (const struct sockaddr *)at, sizeof *at) == 0 &&
			   listen(listener, WAITING) == 0;
	umask(mask);
	const pid_t pid = ready ? fork() : -1;
	if (pid < 0)
		return err_sys(e, errno, "keep the server running (%s)", at->sun_path);
	if (pid > 0)
		return 0;
	close(lock);
	detach();
	serve(ctx, listener);
	_exit(0);
}

int mcp_runner_connect(const char *key, mcp_runner_fn *serve, void *ctx, struct err *e)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char path[sizeof at.sun_path];

	if (!*key || strchr(key, '/') ||
	    (size_t)snprintf(path, sizeof path, "/tmp/.bailiff-mcp-%s.lock", key) >= sizeof path)
		return err_set(e, ERR_INVALID, "--keep: not a name");
	(void)snprintf(at.sun_path, sizeof at.sun_path, "/tmp/.bailiff-mcp-%s", key);
	int fd = try_connect(&at, e);
	if (fd != -1)
		return fd;
	fd_auto int lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return err_sys(e, errno, "keep the server running (%s)", path);
	fd = try_connect(&at, e); /* another call may have started it */
	if (fd == -1 && start_runner(&at, lock, serve, ctx, e) == 0 && (fd = try_connect(&at, e)) == -1)
		err_set(e, ERR_UNAVAILABLE, "the server could not be kept running");
	flock(lock, LOCK_UN);
	return fd;
}

int mcp_runner_accept(int listener)
{
	const struct timeval limit = { .tv_sec = IO_SECONDS };
	fd_auto int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0 || !is_own(fd) || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0)
		return -1;
	return fd_take(&fd);
}
