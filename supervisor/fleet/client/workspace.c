#include "supervisor/fleet/client/workspace.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/fleet/fleet_input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIST_MAX (64u << 20)

/*
 * The output of `git ls-files`; 1 if the folder is not a git work tree. Configuration that would execute something is
 * disabled: the folder may belong to someone else.
 */
static int run_git(const char *folder, struct buf *ret, struct err *e)
{
	int out[2], status;
	ssize_t n = 0;

	if (pipe2(out, O_CLOEXEC) < 0)
		return err_sys(e, errno, "start git");
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null < 0 || dup2(null, 0) < 0 || dup2(out[1], 1) < 0 || dup2(null, 2) < 0)
			_exit(126);
		execlp("git", "git", "-c", "core.fsmonitor=false", "-C", folder, "ls-files", "-z", "--cached",
		       "--others", "--exclude-standard", "--deduplicate", (char *)NULL);
		_exit(126);
	}
	fd_close(&out[1]);
	fd_auto int in = out[0];
	while (pid > 0 && ret->len <= LIST_MAX && (n = read(in, buf_reserve(ret, 64 << 10), 64 << 10)) > 0)
		buf_extend(ret, (size_t)n);
	fd_close(&in);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return err_sys(e, errno, "start git");
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

/* Whether git would look for a work tree here: in the folder or above. */
static bool has_git(int dir_fd)
{
	struct stat here, above;
	fd_auto int fd = openat(dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && fstat(fd, &here) == 0) {
		if (faccessat(fd, ".git", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
		int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		fd_close(&fd);
		fd = up;
		if (fd < 0 || fstat(fd, &above) < 0 || (above.st_dev == here.st_dev && above.st_ino == here.st_ino))
			break;
	}
	return false;
}

static int list_names(const char *folder, int dir_fd, struct bundle_names *ret, struct err *e)
{
	buf_auto struct buf list = BUF_INIT;
	int r = run_git(folder, &list, e);

	if (r < 0)
		return -1;
	if (r == 1 && has_git(dir_fd)) /* all files would be more than what was asked for */
		return err_set(
			e, ERR_STATE,
			"it is in a git work tree, and git cannot list the files that are not ignored; 'git -C %s "
			"ls-files' says why",
			folder);
	if (r == 1)
		return bundle_names_walk(dir_fd, ret, e);
	for (size_t at = 0; at < list.len; at += strlen(list.data + at) + 1)
		bundle_names_add(ret, list.data + at);
	return 0;
}

/* Chunks in order, so that the last one tells that all are there. */
static int store_chunks(struct connection *x, int fd, const struct bundle *b, struct err *e)
{
	const uint64_t last = (b->bytes - 1) / FLEET_CHUNK;
	mem_auto char *chunk = mem_alloc(FLEET_CHUNK), *name = fleet_input_subject(x->settings.key, b, last);
	int r = x->port->ops->get_stored(x->port, name, NULL, e);

	if (r <= 0)
		return r;
	for (uint64_t i = 0; i <= last; i++) {
		mem_auto char *subject = fleet_input_subject(x->settings.key, b, i);
		ssize_t n = fd_pread_all(fd, chunk, FLEET_CHUNK, i * FLEET_CHUNK);

		if (n <= 0)
			return err_sys(e, errno, "read the bundle");
		if (x->port->ops->store(x->port, subject, chunk, (size_t)n, e) < 0)
			return -1;
	}
	return 0;
}

int workspace_send(struct connection *x, const char *folder, struct bundle *ret)
{
	fd_auto int dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd_auto int file = memfd_create("bundle", MFD_CLOEXEC);
	struct bundle_names names = { 0 };
	struct err e = ERR_INIT;
	int r;

	if (dir_fd < 0) {
		cli_error("--dir: %s: %s", folder, strerror(errno));
		return EXIT_FAILED;
	}
	if (file < 0)
		r = err_sys(&e, errno, "memory for the bundle");
	else
		r = list_names(folder, dir_fd, &names, &e);
	if (r == 0)
		r = bundle_pack(dir_fd, names.names, names.n, file, ret, &e);
	bundle_names_done(&names);
	if (r == 0)
		r = store_chunks(x, file, ret, &e);
	if (r == 0)
		return 0;
	cli_fail(x->cli, EXIT_FAILED, &e, "--dir: send %s", folder);
	if (e.code == ERR_EXHAUSTED)
		cli_hint("files that git ignores are left out; for a large repository use --git URL#REF");
	return EXIT_FAILED;
}
