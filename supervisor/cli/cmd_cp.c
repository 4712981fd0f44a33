/*
 * `cp`: files into and out of a session sandbox. Everything that happens inside is a command there, started by `bailiff
 * exec`, so policy, confinement and the record of what ran apply as to any other. A file is sent through `cat` or
 * `install`, a directory as an archive between a tar on each side.
 *
 * A copy to the host is complete or not there: a file is written under a temporary name first, and the archive of a
 * directory is unpacked by tar, which never leaves its directory.
 */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 12

extern char **environ;

/* One side of the copy. */
struct place {
	char sandbox[ID_LOOKUP_MAX]; /* "" = the host */
	const char *path;
};

/* A slash before the colon makes it a path of the host. */
static int take_place(struct cli *c, const char *text, struct place *ret)
{
	size_t n = strcspn(text, ":/");

	ret->path = text;
	ret->sandbox[0] = '\0';
	if (text[n] != ':' || n == 0)
		return 0;
	if (n >= sizeof(ret->sandbox))
		return cli_usage(c, "'%s' is not SANDBOX:PATH", text);
	mem_auto char *given = mem_strndup(text, n);
	ret->path = text[n + 1] ? text + n + 1 : ".";
	return id_lookup(c, ID_SANDBOX, given, ret->sandbox) < 0 ? EXIT_FAILED : 0;
}

/* Starts a program with these descriptors (−1 = /dev/null) as stdin and stdout. 0, or −1 after printing why. */
static int start_program(const char *const *argv, int in, int out, pid_t *ret)
{
	const char *program = strcmp(argv[0], "bailiff") == 0 ? "/proc/self/exe" : argv[0];
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;

	posix_spawn_file_actions_init(&files);
	if (in < 0)
		posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	else
		posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	if (out < 0)
		posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	else
		posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	/* We ignore SIGPIPE; tar should not. */
	posix_spawnattr_init(&attr);
	sigemptyset(&none);
	sigemptyset(&all);
	sigaddset(&all, SIGPIPE);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	int r = posix_spawnp(ret, program, &files, &attr, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	if (r != 0)
		cli_error("cp: start %s: %s", argv[0], strerror(r));
	return r ? -1 : 0;
}

/* The exit status. */
static int await_program(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_FAILED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_program(const char *const *argv, int in, int out)
{
	pid_t pid;

	return start_program(argv, in, out, &pid) < 0 ? EXIT_FAILED : await_program(pid);
}

#define IN_SANDBOX(place, ...) ((const char *const[ARGS_MAX]){ "bailiff", "exec", (place)->sandbox, "--", __VA_ARGS__ })
#define ON_HOST(...) ((const char *const[ARGS_MAX]){ __VA_ARGS__ })

/* Runs both with a pipe between them. */
static int run_pair(const char *const *writer, const char *const *reader)
{
	fd_auto int in = -1, out = -1;
	int fds[2], status, other;
	pid_t first, second;

	if (pipe2(fds, O_CLOEXEC) < 0) {
		cli_error("cp: pipe: %s", strerror(errno));
		return EXIT_FAILED;
	}
	in = fds[0];
	out = fds[1];
	if (start_program(reader, in, STDERR_FILENO, &second) < 0)
		return EXIT_FAILED;
	fd_close(&in);
	if (start_program(writer, -1, out, &first) < 0) {
		fd_close(&out);
		(void)await_program(second);
		return EXIT_FAILED;
	}
	fd_close(&out);
	status = await_program(first);
	other = await_program(second);
	return status || other ? EXIT_FAILED : 0;
}

/* ---- out of the sandbox ---- */

enum kind { KIND_OTHER, KIND_FILE, KIND_DIRECTORY };

/* The kind of a path in the sandbox, and its mode. `missing`: it need not exist; then KIND_OTHER. */
static int examine(const struct place *p, bool missing, enum kind *ret_kind, char ret_mode[8])
{
	fd_auto int in = -1, out = -1;
	char text[128] = "";
	size_t n = 0;
	ssize_t got;
	int fds[2];
	pid_t pid;

	*ret_kind = KIND_OTHER;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return EXIT_FAILED;
	in = fds[0];
	out = fds[1];
	/* test is silent about a path that does not exist. */
	if (start_program(missing ? IN_SANDBOX(p, "test", "-d", p->path)
				  : IN_SANDBOX(p, "stat", "-L", "-c", "%a %F", "--", p->path),
			  -1, out, &pid) < 0)
		return EXIT_FAILED;
	fd_close(&out);
	while (n + 1 < sizeof(text) && (got = read(in, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	int status = await_program(pid);
	if (missing) {
		*ret_kind = status == 0 ? KIND_DIRECTORY : KIND_OTHER;
		return status > 1 ? EXIT_FAILED : 0;
	}
	if (status != 0)
		return EXIT_FAILED;
	snprintf(ret_mode, 8, "%.*s", (int)strcspn(text, " "), text);
	if (strstr(text, " directory"))
		*ret_kind = KIND_DIRECTORY;
	else if (strstr(text, " regular"))
		*ret_kind = KIND_FILE;
	return 0;
}

/* DST itself, or a new entry in it if it is a directory. */
static char *entry_of(const char *dst, bool directory, const char *src)
{
	mem_auto char *copy = mem_strdup(src);

	return directory ? mem_printf("%s/%s", dst, basename(copy)) : mem_strdup(dst);
}

static int copy_file_out(const struct place *src, const char *dst, const char *mode)
{
	mem_auto char *temporary = mem_printf("%s.XXXXXX", dst);
	fd_auto int fd = mkostemp(temporary, O_CLOEXEC);
	int status;

	if (fd < 0) {
		cli_error("cp: %s: %s", dst, strerror(errno));
		return EXIT_FAILED;
	}
	status = run_program(IN_SANDBOX(src, "cat", "--", src->path), -1, fd);
	/* Without set-id bits: the sandbox's user is not the one who copies. */
	if (status == 0 && (fchmod(fd, (mode_t)strtoul(mode, NULL, 8) & 0777) < 0 || rename(temporary, dst) < 0)) {
		cli_error("cp: %s: %s", dst, strerror(errno));
		status = EXIT_FAILED;
	}
	if (status)
		(void)unlink(temporary);
	return status ? EXIT_FAILED : 0;
}

static int copy_out(const struct place *src, const struct place *dst)
{
	struct stat st;
	bool directory = stat(dst->path, &st) == 0 && S_ISDIR(st.st_mode);
	mem_auto char *target = entry_of(dst->path, directory, src->path);
	char mode[8] = "644";
	enum kind kind;

	if (examine(src, false, &kind, mode) != 0)
		return EXIT_FAILED;
	if (kind == KIND_FILE)
		return copy_file_out(src, target, mode);
	if (kind != KIND_DIRECTORY) {
		cli_error("cp: %s:%s is neither a file nor a directory", src->sandbox, src->path);
		return EXIT_FAILED;
	}
	if (mkdir(target, 0777) < 0 && errno != EEXIST) {
		cli_error("cp: %s: %s", target, strerror(errno));
		return EXIT_FAILED;
	}
	/* The archive comes from the sandbox: no set-id bits, no devices. Root's tar would create both. */
	if (geteuid() == 0 && prctl(PR_CAPBSET_DROP, CAP_MKNOD, 0, 0, 0) < 0) {
		cli_error("cp: drop CAP_MKNOD: %s", strerror(errno));
		return EXIT_FAILED;
	}
	return run_pair(IN_SANDBOX(src, "tar", "-C", src->path, "-cf", "-", "."),
			ON_HOST("tar", "-C", target, "--no-same-owner", "--no-same-permissions", "-xf", "-"));
}

/* ---- into the sandbox ---- */

static int copy_in(const struct place *src, const struct place *dst)
{
	fd_auto int fd = open(src->path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char mode[8];
	enum kind kind;

	if (fd < 0 || fstat(fd, &st) < 0) {
		cli_error("cp: %s: %s", src->path, strerror(errno));
		return EXIT_FAILED;
	}
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		cli_error("cp: %s is neither a file nor a directory", src->path);
		return EXIT_FAILED;
	}
	if (examine(dst, true, &kind, mode) != 0)
		return EXIT_FAILED;
	char absolute[PATH_MAX]; /* its last part names the copy, also of "." */
	if (!realpath(src->path, absolute)) {
		cli_error("cp: %s: %s", src->path, strerror(errno));
		return EXIT_FAILED;
	}
	mem_auto char *target = entry_of(dst->path, kind == KIND_DIRECTORY, absolute);
	snprintf(mode, sizeof(mode), "%o", st.st_mode & 0777);
	if (S_ISREG(st.st_mode))
		return run_program(IN_SANDBOX(dst, "install", "-m", mode, "--", "/dev/stdin", target), fd, -1)
			       ? EXIT_FAILED
			       : 0;
	if (run_program(IN_SANDBOX(dst, "mkdir", "-p", "--", target), -1, -1) != 0)
		return EXIT_FAILED;
	return run_pair(ON_HOST("tar", "-C", src->path, "-cf", "-", "."),
			IN_SANDBOX(dst, "tar", "-C", target, "--no-same-owner", "-xf", "-"));
}

int cmd_cp(struct cli *c)
{
	struct place src, dst;
	int status;

	if (c->opts.nargs != 2)
		return cli_usage(c, "expected SRC and DST");
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	if ((status = take_place(c, c->opts.args[0], &src)) || (status = take_place(c, c->opts.args[1], &dst)))
		return status;
	if (!src.sandbox[0] == !dst.sandbox[0])
		return cli_usage(c, src.sandbox[0] ? "one side must be a path of the host"
						   : "one side must be SANDBOX:PATH");
	status = src.sandbox[0] ? copy_out(&src, &dst) : copy_in(&src, &dst);
	if (status || !cli_as_json(c))
		return status;
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	jw_obj(&w);
	jw_kstr(&w, "source", c->opts.args[0]);
	jw_kstr(&w, "target", c->opts.args[1]);
	jw_obj_end(&w);
	return format_record(jval_of(out.data, out.len), true);
}
