/*
 * `cp`: files into and out of a session sandbox. Everything that happens inside is a command there, started by `bailiff
 * exec`, so policy, confinement and the record of what ran apply as to any other. A file is sent through `cat` or
 * `install`, a directory as an archive between a tar on each side.
 *
 * What arrives is written to a file without a name, which gets its name, or is unpacked, after the command in the
 * sandbox has ended. So a file is complete or not there, and the report of the command on the autorun files that
 * changed while it ran has none that this copy wrote. A signal that ends the copy (SIGINT, SIGTERM, SIGHUP) is passed
 * to the programs that take part, and their end cleans up.
 *
 * Commands in the sandbox control what arrives (the archive, too: they can trace its tar), and can put symbolic links
 * where the host's side is a workspace. So the last part of a host path must not be a link, no part of a relative
 * one, and no part below a write root of the sandbox; everything is done in the directory that was opened then. The tar
 * that unpacks an archive is confined to writing in its directory (write_confinement.h). The archive's names are the
 * sandbox's choice, so autorun files (sandbox/autorun.h) that it changed in the directory are reported as for a
 * command.
 */

#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "sandbox/autorun.h"
#include "sandbox/autorun_report.h"
#include "sandbox/plan.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/write_confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 14
#define OUTPUT_LIMIT "8000000T" /* the daemon's default would cut a long file */
#define FILES_SHOWN 20u

extern char **environ;

static int stop_signal; /* the one that ends the copy; 0 = none */

/* One side of the copy. */
struct place {
	char sandbox[ID_LOOKUP_MAX]; /* "" = the host */
	const char *path;
	struct buf *roots; /* of the host: the sandbox's write roots, resolved; strings, each with its NUL */
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
	/* "-" alone would be standard input for the programs there. */
	ret->path = text[n + 1] == '\0' ? "." : strcmp(text + n + 1, "-") == 0 ? "./-" : text + n + 1;
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

/* The signals for which a copy waits: the end of a program, and what ends the copy. They are blocked. */
static void block_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGCHLD);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGHUP);
	sigprocmask(SIG_BLOCK, ret, NULL);
}

/* The exit status. A program is terminated if the copy is to end. */
static int await_program(pid_t pid)
{
	sigset_t awaited;
	int status, got;

	block_signals(&awaited);
	if (stop_signal)
		kill(pid, SIGTERM);
	while ((got = waitpid(pid, &status, WNOHANG)) == 0) {
		int sig = sigwaitinfo(&awaited, NULL);

		if (sig > 0 && sig != SIGCHLD) {
			stop_signal = sig;
			kill(pid, SIGTERM);
		}
	}
	if (got < 0)
		return EXIT_FAILED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_program(const char *const *argv, int in, int out)
{
	pid_t pid;

	return start_program(argv, in, out, &pid) < 0 ? EXIT_FAILED : await_program(pid);
}

#define IN_SANDBOX(place, ...)                                                                                     \
	((const char *const[ARGS_MAX]){ "bailiff", "exec", "--output-limit", OUTPUT_LIMIT, (place)->sandbox, "--", \
					__VA_ARGS__ })
#define ON_HOST(...) ((const char *const[ARGS_MAX]){ __VA_ARGS__ })

/* Starts a program that can write only in the directory `folder`. As start_program. */
static int start_confined(const char *const *argv, int in, int folder, pid_t *ret)
{
	sigset_t none;

	*ret = fork();
	if (*ret < 0) {
		cli_error("cp: fork: %s", strerror(errno));
		return -1;
	}
	if (*ret > 0)
		return 0;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || write_confinement_enter(folder) < 0)
		cli_error("cp: confine tar to the directory: %s", strerror(errno));
	else if (execvp(argv[0], (char *const *)(uintptr_t)argv) < 0)
		cli_error("cp: start %s: %s", argv[0], strerror(errno));
	_exit(EXIT_FAILED);
}

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

/* ---- a path in the sandbox ---- */

/* An argument of a command there. */
static int check_text(const char *path)
{
	if (text_utf8_valid(path, strlen(path)))
		return 0;
	cli_error("cp: %s is not UTF-8, as paths in the sandbox must be here: copy its directory instead", path);
	return EXIT_FAILED;
}

enum kind { KIND_OTHER, KIND_FILE, KIND_DIRECTORY };

/* The kind of a path in the sandbox, and its mode. `missing`: it need not exist; then KIND_OTHER. */
static int examine(const struct place *p, bool missing, enum kind *ret_kind, char ret_mode[8])
{
	fd_auto int in = -1, out = -1;
	char text[128] = "";
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
	int status = await_program(pid); /* the pipe has room for a line */
	if (missing) {
		*ret_kind = status == 0 ? KIND_DIRECTORY : KIND_OTHER;
		return status > 1 ? EXIT_FAILED : 0;
	}
	if (status != 0 || fd_read_all(in, text, sizeof(text) - 1) < 0)
		return EXIT_FAILED;
	snprintf(ret_mode, 8, "%.*s", (int)strcspn(text, " "), text);
	if (strstr(text, " directory"))
		*ret_kind = KIND_DIRECTORY;
	else if (strstr(text, " regular"))
		*ret_kind = KIND_FILE;
	return 0;
}

/* ---- paths of the host ---- */

static bool is_in_roots(const struct buf *roots, const char *path)
{
	for (const char *s = roots->data; s && s < roots->data + roots->len; s += strlen(s) + 1)
		if (path_within(s, path))
			return true;
	return false;
}

/*
 * How much of an absolute path leads to the first directory in a write root: commands cannot change it. 0: none of its
 * directories is in one.
 */
static size_t trusted_part(const struct buf *roots, const char *path)
{
	mem_auto char *part = mem_strdup(path);
	char real[PATH_MAX];

	for (char *p = part; (p = strchr(p + 1, '/'));) {
		*p = '\0';
		if (realpath(part, real) && is_in_roots(roots, real))
			return (size_t)(p - part);
		*p = '/';
	}
	return 0;
}

/* Opens it without following a link at its end, in a relative path, or in a write root. −1 with errno. */
static int open_host(const struct buf *roots, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC) };
	mem_auto char *plain = mem_strdup(path);
	size_t n = strlen(plain);

	while (n > 1 && plain[n - 1] == '/') /* would follow a link */
		plain[--n] = '\0';
	size_t skip = plain[0] == '/' ? trusted_part(roots, plain) : 0;
	mem_auto char *start = mem_strndup(plain, skip);
	fd_auto int at = skip ? open(start, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (skip && at < 0)
		return -1;
	if (skip || plain[0] != '/')
		how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
	const char *rest = plain + skip + strspn(plain + skip, skip ? "/" : "");
	return (int)syscall(SYS_openat2, skip ? at : AT_FDCWD, rest, &how, sizeof(how));
}

static int reject_kind(const char *path)
{
	cli_error("cp: %s is neither a file nor a directory", path);
	return EXIT_FAILED;
}

static int report_host(const char *path, int error)
{
	if (error == ELOOP)
		cli_error("cp: %s has a symbolic link, which a command may have made: name its target instead", path);
	else
		cli_error("cp: %s: %s", path, strerror(error));
	return EXIT_FAILED;
}

/* Where a copy to the host goes: the entry `name` of a directory, or the directory itself (""). */
struct host_entry {
	int folder; /* only for paths (O_PATH) */
	char *name;
};

/* An entry in DST if that is a directory, or else DST itself. */
static int open_entry(const struct place *to, const char *src, struct host_entry *ret)
{
	const char *dst = to->path;
	mem_auto char *of_src = mem_strdup(src), *of_dst = mem_strdup(dst), *above = mem_strdup(dst);
	const char *name = basename(of_src);
	struct stat st;

	ret->folder = open_host(to->roots, dst, O_PATH | O_DIRECTORY);
	if (ret->folder < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		name = basename(of_dst);
		ret->folder = open_host(to->roots, dirname(above), O_PATH | O_DIRECTORY);
	}
	if (ret->folder < 0)
		return report_host(dst, errno);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "/") == 0)
		name = "";
	/* A copy would replace a device or a pipe, not write to it. */
	if (fstatat(ret->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		fd_close(&ret->folder);
		return S_ISLNK(st.st_mode) ? report_host(dst, ELOOP) : reject_kind(dst);
	}
	ret->name = mem_strdup(name);
	return 0;
}

/* "-": standard input or standard output. */
static bool is_standard(const struct place *p) { return !p->sandbox[0] && strcmp(p->path, "-") == 0; }

/* ---- out of the sandbox ---- */

/*
 * A new file for what a command sends. It has no name, except on file systems without such files: then `name`. −1 with
 * errno.
 */
static int open_received(int folder, const char *name, bool *ret_named)
{
	int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	*ret_named = fd < 0;
	return fd < 0 ? openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : fd;
}

/* Not the name of the copy with a suffix, which may be too long. */
static char *temporary_name(void)
{
	uint64_t bits = 0;

	(void)!getrandom(&bits, sizeof(bits), 0);
	return mem_printf(".bailiff-cp-%016llx", (unsigned long long)bits);
}

/* Gives a received file its mode and its name. −1 with errno. */
static int name_received(int fd, bool named, const struct host_entry *to, const char *temporary, const char *mode)
{
	mem_auto char *link = mem_printf("/proc/self/fd/%d", fd);

	/* Without set-id bits: the sandbox's user is not the one who copies. */
	if (fchmod(fd, (mode_t)strtoul(mode, NULL, 8) & 0777) < 0 ||
	    (!named && linkat(AT_FDCWD, link, to->folder, temporary, AT_SYMLINK_FOLLOW) < 0))
		return -1;
	return renameat(to->folder, temporary, to->folder, to->name);
}

static int copy_file_out(const struct place *src, const struct host_entry *to, const char *mode)
{
	mem_auto char *temporary = temporary_name();
	bool named;
	int status;

	fd_auto int fd = open_received(to->folder, temporary, &named);
	if (fd < 0)
		return report_host(to->name, errno);
	status = run_program(IN_SANDBOX(src, "cat", "--", src->path), -1, fd);
	if (status == 0 && name_received(fd, named, to, temporary, mode) < 0)
		status = report_host(to->name, errno);
	if (status)
		(void)unlinkat(to->folder, temporary, 0);
	return status;
}

/* The autorun files of a directory on the host, compared before and after a copy into it. */
struct comparison {
	int folder; /* the caller's */
	char path[PATH_MAX];
	struct buf plan; /* with the directory as its only write root */
	struct autorun *autorun;
};

/* Commands of the sandbox may have moved it. */
static bool is_at_path(const struct comparison *c)
{
	struct stat opened, named;

	return fstat(c->folder, &opened) == 0 && lstat(c->path, &named) == 0 && opened.st_dev == named.st_dev &&
	       opened.st_ino == named.st_ino;
}

static int begin_comparison(struct comparison *c, int folder)
{
	static const char *const argv[] = { "tar" };
	const struct plan_mount_spec root = { .kind = PLAN_MOUNT_WRITE, .path = c->path };
	const struct plan_spec spec = {
		.flags = PLAN_PRIVATE_ROOT, .cwd = "/", .argv = argv, .argc = 1, .mounts = &root, .nmounts = 1
	};
	mem_auto char *link = mem_printf("/proc/self/fd/%d", folder);
	struct err e = ERR_INIT;
	ssize_t n;

	*c = (struct comparison){ .folder = folder, .plan = BUF_INIT };
	if ((n = readlink(link, c->path, sizeof(c->path) - 1)) < 0 || plan_build(&spec, &c->plan, &e) < 0 ||
	    !(c->autorun = autorun_new((const struct plan_head *)(const void *)c->plan.data))) {
		cli_error("cp: examine the files of the target: %s", e.message[0] ? e.message : strerror(errno));
		buf_done(&c->plan);
		return EXIT_FAILED;
	}
	autorun_before(c->autorun);
	return 0;
}

/* Writes the report as an object to `ret`; nothing if all is unchanged. */
static void end_comparison(struct comparison *c, struct buf *ret)
{
	static const uint8_t key[AUTORUN_KEY_BYTES]; /* nothing reverts it */
	buf_auto struct buf report = BUF_INIT;
	struct jw w = jw_on(ret);

	if (autorun_after(c->autorun) || !is_at_path(c)) {
		autorun_write(c->autorun, 0, 0, key, &report);
		const struct autorun_head *h = (const struct autorun_head *)(const void *)report.data;
		jw_obj(&w);
		autorun_report_members(h, h->partial | (is_at_path(c) ? 0 : AUTORUN_PARTIAL_FAILED), NULL, FILES_SHOWN,
				       &w);
		jw_obj_end(&w);
	}
	buf_done(&c->plan);
}

/* Unpacks an archive in the directory, with a tar that can write nowhere else. */
static int unpack(int archive, int folder)
{
	mem_auto char *path = mem_printf("/proc/self/fd/%d", folder);
	pid_t pid;

	(void)fcntl(folder, F_SETFD, 0); /* for tar */
	if (lseek(archive, 0, SEEK_SET) < 0 ||
	    start_confined(ON_HOST("tar", "-C", path, "--no-same-owner", "--no-same-permissions", "--no-overwrite-dir",
				   "-xf", "-"),
			   archive, folder, &pid) < 0)
		return EXIT_FAILED;
	return await_program(pid);
}

/* `ret`: the autorun report as an object, if there is one. */
static int copy_archive_out(const struct place *src, int folder, struct buf *ret)
{
	mem_auto char *temporary = temporary_name();
	struct comparison comparison;
	bool named;

	fd_auto int archive = open_received(folder, temporary, &named);
	if (archive < 0 || (named && unlinkat(folder, temporary, 0) < 0)) {
		cli_error("cp: create a file for the archive in the target folder: %s", strerror(errno));
		return EXIT_FAILED;
	}
	int status = run_program(IN_SANDBOX(src, "tar", "-C", src->path, "-cf", "-", "."), -1, archive);
	if (begin_comparison(&comparison, folder) != 0)
		return EXIT_FAILED;
	/* Also if the sandbox's tar failed: it sends what it can read. */
	int unpacked = unpack(archive, folder);
	end_comparison(&comparison, ret);
	return status || unpacked ? EXIT_FAILED : 0;
}

static int copy_directory_out(const struct place *src, const struct host_entry *to, struct buf *ret)
{
	if (to->name[0] && mkdirat(to->folder, to->name, 0777) < 0 && errno != EEXIST)
		return report_host(to->name, errno);
	fd_auto int folder = openat(to->folder, to->name[0] ? to->name : ".",
				    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0)
		return report_host(to->name, errno);
	if (!write_confinement_available()) {
		cli_error("cp: a directory can be copied out of a sandbox only with Landlock, which keeps tar in its "
			  "target (see bailiff doctor): copy single files");
		return EXIT_FAILED;
	}
	return copy_archive_out(src, folder, ret);
}

/* `ret`: the autorun report as an object, if there is one. */
static int copy_out(const struct place *src, const struct place *dst, struct buf *ret)
{
	struct host_entry to = { -1, NULL };
	char mode[8] = "644";
	enum kind kind;

	if (check_text(src->path) != 0 || (!is_standard(dst) && open_entry(dst, src->path, &to) != 0))
		return EXIT_FAILED;
	int status = examine(src, false, &kind, mode);
	if (status == 0 && kind == KIND_FILE) {
		status = is_standard(dst) ? run_program(IN_SANDBOX(src, "cat", "--", src->path), -1, STDOUT_FILENO)
					  : copy_file_out(src, &to, mode);
		status = status ? EXIT_FAILED : 0;
	} else if (status == 0 && kind == KIND_DIRECTORY && is_standard(dst)) {
		cli_error("cp: %s:%s is a directory: only a file can be written to standard output", src->sandbox,
			  src->path);
		cli_hint("for an archive of it: bailiff exec %s -- tar -C %s -cf - .", src->sandbox, src->path);
		status = EXIT_FAILED;
	} else if (status == 0 && kind == KIND_DIRECTORY) {
		status = copy_directory_out(src, &to, ret);
	} else if (status == 0) {
		cli_error("cp: %s:%s is neither a file nor a directory", src->sandbox, src->path);
		status = EXIT_FAILED;
	}
	free(to.name);
	fd_close(&to.folder);
	return status;
}

/* ---- into the sandbox ---- */

static int install_file(const struct place *dst, const char *target, const char *mode, int fd)
{
	return run_program(IN_SANDBOX(dst, "install", "-m", mode, "--", "/dev/stdin", target), fd, -1) ? EXIT_FAILED
												       : 0;
}

static int copy_standard_in(const struct place *dst)
{
	char mode[8];
	enum kind kind;

	if (check_text(dst->path) != 0 || examine(dst, true, &kind, mode) != 0)
		return EXIT_FAILED;
	if (kind != KIND_DIRECTORY)
		return install_file(dst, dst->path, "644", STDIN_FILENO);
	cli_error("cp: %s:%s is a directory, and standard input has no name: name the file, as in %s:%s/NAME",
		  dst->sandbox, dst->path, dst->sandbox, dst->path);
	return EXIT_FAILED;
}

static int copy_in(const struct place *src, const struct place *dst)
{
	fd_auto int fd = open_host(src->roots, src->path, O_RDONLY | O_NONBLOCK);
	struct stat st;
	char mode[8];
	enum kind kind;

	if (fd < 0 || fstat(fd, &st) < 0)
		return report_host(src->path, errno);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return reject_kind(src->path);
	if (check_text(dst->path) != 0 || examine(dst, true, &kind, mode) != 0)
		return EXIT_FAILED;
	char absolute[PATH_MAX]; /* its last part names the copy, also of "." */
	if (!realpath(src->path, absolute))
		return report_host(src->path, errno);
	mem_auto char *target = kind == KIND_DIRECTORY ? mem_printf("%s/%s", dst->path, basename(absolute))
						       : mem_strdup(dst->path);
	if (check_text(target) != 0)
		return EXIT_FAILED;
	snprintf(mode, sizeof(mode), "%o", st.st_mode & 0777);
	if (S_ISREG(st.st_mode))
		return install_file(dst, target, mode, fd);
	if (run_program(IN_SANDBOX(dst, "mkdir", "-p", "--", target), -1, -1) != 0)
		return EXIT_FAILED;
	(void)fcntl(fd, F_SETFD, 0); /* for tar */
	mem_auto char *path = mem_printf("/proc/self/fd/%d", fd);
	return run_pair(ON_HOST("tar", "-C", path, "-cf", "-", "."),
			IN_SANDBOX(dst, "tar", "-C", target, "--no-same-owner", "-xf", "-"));
}

/* Without them, links that a command made could not be told from others. */
static int read_roots(struct cli *c, const char *sandbox, struct buf *ret)
{
	request_auto struct request q = REQUEST_INIT(q);
	char real[PATH_MAX];

	jw_kstr(&q.w, "sandboxId", sandbox);
	if (request_read(c, &q, "get_sandbox") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "cp");
	for (struct jiter it = jiter_on(jval_get(jval_get(q.result, "sandboxProfile"), "writeRoots"));
	     jiter_next(&it);) {
		mem_auto char *root = jval_strdup(it.value);

		if (root && realpath(root, real))
			buf_append(ret, real, strlen(real) + 1);
	}
	return 0;
}

int cmd_cp(struct cli *c)
{
	buf_auto struct buf roots = BUF_INIT, autorun = BUF_INIT;
	struct place src = { .roots = &roots }, dst = { .roots = &roots };
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
	if ((status = read_roots(c, src.sandbox[0] ? src.sandbox : dst.sandbox, &roots)))
		return status;
	if (is_standard(&dst) && cli_as_json(c))
		return cli_usage(c, "--json and - both write to standard output: leave out one of them");
	status = src.sandbox[0]      ? copy_out(&src, &dst, &autorun)
		 : is_standard(&src) ? copy_standard_in(&dst)
				     : copy_in(&src, &dst);
	if (status && stop_signal)
		status = 128 + stop_signal;
	if (autorun.len && (status || !cli_as_json(c)))
		print_autorun(c, jval_of(autorun.data, autorun.len), NULL, false);
	if (status || !cli_as_json(c))
		return status;
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	jw_obj(&w);
	jw_kstr(&w, "source", c->opts.args[0]);
	jw_kstr(&w, "target", c->opts.args[1]);
	if (autorun.len)
		jw_kraw(&w, "autorun", autorun.data, autorun.len);
	jw_obj_end(&w);
	return format_record(jval_of(out.data, out.len), true);
}
