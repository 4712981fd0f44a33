#include "supervisor/client/program_output.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jscan.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define DOCUMENT_MAX (1u << 20)

extern char **environ;

static int spawn_program(char *const argv[], int out_fd, pid_t *ret_pid)
{
	posix_spawn_file_actions_t files;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	int r = posix_spawnp(ret_pid, argv[0], &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	return r;
}

int program_output(char *const argv[], struct buf *ret, struct err *e)
{
	size_t start = ret->len;
	int pipefd[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	fd_auto int in = pipefd[0];
	int r = spawn_program(argv, pipefd[1], &pid);
	close(pipefd[1]);
	if (r != 0)
		return err_sys(e, r, "start %s", argv[0]);
	do {
		n = read(in, buf_reserve(ret, 65536), 65536);
		if (n > 0)
			buf_extend(ret, (size_t)n);
	} while ((n > 0 && ret->len - start < DOCUMENT_MAX) || (n < 0 && errno == EINTR));
	fd_close(&in);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (status != 0 || jval_of(buf_cstr(ret) + start, ret->len - start).type != JT_OBJECT)
		return err_set(e, ERR_UNAVAILABLE, "%s does not answer as expected (another version?)", argv[0]);
	return 0;
}
