#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/landlock.h"
#include "sandbox/plan.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A tree whose directory `w` is the write root: with Landlock alone, the rest of it can only be read. */
static char top[PATH_MAX];

static char *below(const char *name) { return mem_printf("%s/%s", top, name); }

static void make_tree(void)
{
	/* Not in /tmp, where every sandbox may write. */
	const char *const bases[] = { "/var/lib", "/run/lock", getenv("HOME"), "." };
	for (size_t i = 0; i < countof(bases) && !top[0]; i++) {
		mem_auto char *base = bases[i] ? realpath(bases[i], NULL) : NULL;
		if (!base || strncmp(base, "/tmp", 4) == 0 || strncmp(base, "/var/tmp", 8) == 0 ||
		    strncmp(base, "/dev", 4) == 0)
			continue;
		snprintf(top, sizeof top, "%s/bailiff-unit-XXXXXX", base);
		if (!mkdtemp(top))
			top[0] = 0;
	}
	if (!top[0])
		return;
	static const char *const folders[] = { "w", "w/sub", "r" };
	for (size_t i = 0; i < countof(folders); i++) {
		mem_auto char *path = below(folders[i]);
		ck_assert_int_eq(mkdir(path, 0755), 0);
	}
	static const char *const files[] = { "w/old", "r/old", "single" };
	for (size_t i = 0; i < countof(files); i++) {
		mem_auto char *path = below(files[i]);
		fd_auto int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		ck_assert_int_eq(write(fd, "text", 4), 4);
	}
}

static void remove_tree(void)
{
	static const char *const names[] = { "w/link",    "w/new", "w/moved", "w/fifo", "w/sock", "w/sub/old",
					     "w/sub/new", "w/sub", "w/dir",   "w/old",  "w",      "r/old",
					     "r/new",     "r",     "single",  "" };
	for (size_t i = 0; top[0] && i < countof(names); i++) {
		mem_auto char *path = below(names[i]);
		remove(path);
	}
}

static void plan_for(struct buf *b)
{
	static const char *const argv[] = { "true" };
	mem_auto char *w = below("w"), *single = below("single"), *absent = below("absent");
	const struct plan_mount_spec mounts[] = {
		{ PLAN_MOUNT_SYSTEM, 0, "/" },
		{ PLAN_MOUNT_WRITE, 0, w },
		{ PLAN_MOUNT_WRITE, 0, single },
		{ PLAN_MOUNT_WRITE, PLAN_MOUNT_OPTIONAL, absent },
	};
	struct plan_spec spec = { .flags = PLAN_PRIVATE_ROOT,
				  .layers = PLAN_LAYER_LANDLOCK,
				  .cwd = "/",
				  .argv = argv,
				  .argc = 1,
				  .cpu_ms = PLAN_UNLIMITED,
				  .open_files = PLAN_UNLIMITED,
				  .file_bytes = PLAN_UNLIMITED,
				  .mounts = mounts,
				  .nmounts = countof(mounts) };
	struct err e = ERR_INIT;
	ck_assert_msg(plan_build(&spec, b, &e) == 0, "%s", e.message);
}

/* The Landlock version of the child of confined_at(). */
static int current_abi;

/* Runs fn in a child in the domain and returns its exit status. */
static int confined_at(int abi, int (*fn)(void))
{
	buf_auto struct buf b = BUF_INIT;
	plan_for(&b);
	current_abi = abi;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		const char *path = NULL;
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (landlock_confine(abi, (const struct plan_head *)b.data, false, &path) < 0) {
			fprintf(stderr, "# landlock: %s: %s\n", path ? path : "", strerror(errno));
			_exit(99);
		}
		_exit(fn());
	}
	int status;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int confined(int (*fn)(void)) { return confined_at(landlock_abi(), fn); }

static int open_for(const char *name, int flags)
{
	mem_auto char *path = below(name);
	fd_auto int fd = open(path, flags | O_CLOEXEC, 0644);
	return fd < 0 ? errno : 0;
}

static int renamed(const char *from, const char *to)
{
	mem_auto char *a = below(from), *b = below(to);
	return rename(a, b) < 0 ? errno : 0;
}

static int check_write_roots(void)
{
	mem_auto char *dir = below("w/dir"), *link = below("w/link"), *fifo = below("w/fifo"), *sub = below("w/sub");
	if (open_for("w/new", O_CREAT | O_RDWR | O_TRUNC) || open_for("w/old", O_RDWR | O_TRUNC) ||
	    open_for("single", O_RDWR | O_TRUNC))
		return 1;
	if (mkdir(dir, 0755) < 0 || symlink("/etc/passwd", link) < 0 || mkfifo(fifo, 0644) < 0)
		return 2;
	if (renamed("w/new", "w/moved"))
		return 3;
	/* Version 1 denies every rename to another directory. */
	if (current_abi >= 2 ? renamed("w/moved", "w/sub/new") || renamed("w/sub/new", "w/moved")
			     : renamed("w/moved", "w/sub/new") != EXDEV)
		return 5;
	return unlink(link) < 0 || rmdir(dir) < 0 || rmdir(sub) < 0 ? 4 : 0;
}

static int check_no_writes_elsewhere(void)
{
	mem_auto char *link = below("w/link"), *old = below("r/old"), *dev = below("w/new"), *r = below("r");
	if (open_for("r/old", O_RDONLY) != 0)
		return 1;
	if (open_for("r/old", O_WRONLY) != EACCES || open_for("r/new", O_CREAT | O_WRONLY) != EACCES)
		return 2;
	/* truncate(2) is a right of its own since version 3; before it, only the mounts deny it. */
	if ((truncate(old, 0) == 0) != (current_abi < 3) || unlink(old) == 0 || rmdir(r) == 0)
		return 3;
	if (symlink(old, link) < 0 || open_for("w/link", O_WRONLY | O_TRUNC) != EACCES || unlink(link) < 0)
		return 4;
	int e = renamed("r/old", "w/new");
	if (e != EXDEV && e != EACCES)
		return 5;
	/* A real device: 0:0 is a whiteout, which some kernels count as a plain file. */
	if (linkat(AT_FDCWD, old, AT_FDCWD, dev, 0) == 0 || mknod(dev, S_IFCHR | 0600, makedev(1, 3)) == 0)
		return 6;
	return open_for("absent", O_CREAT | O_WRONLY) == EACCES ? 0 : 7;
}

static int check_common_needs(void)
{
	char name[] = "/tmp/bailiff-unit-XXXXXX";
	fd_auto int null = open("/dev/null", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), tmp = mkstemp(name);
	if (null < 0 || write(null, "x", 1) != 1)
		return 1;
	if (tmp < 0 || unlink(name) < 0)
		return 2;
	fd_auto int comm = open("/proc/self/comm", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (comm < 0 || write(comm, "renamed", 7) != 7)
		return 3;
	int p[2], size;
	if (pipe2(p, O_CLOEXEC) < 0 || ioctl(p[0], FIONREAD, &size) < 0)
		return 4;
	char self[64];
	snprintf(self, sizeof self, "/proc/self/fd/%d", p[1]);
	fd_auto int again = open(self, O_WRONLY | O_CLOEXEC); /* /dev/stdout */
	return again < 0 ? 5 : 0;
}

START_TEST(only_write_roots_can_be_written)
{
	make_tree();
	SKIP_IF(!landlock_abi(), "requires Landlock");
	SKIP_IF(!top[0], "no folder outside of /tmp can be written");
	ck_assert_int_eq(confined(check_no_writes_elsewhere), 0);
	ck_assert_int_eq(confined(check_write_roots), 0);
	ck_assert_int_eq(confined(check_common_needs), 0);
	remove_tree();
}
END_TEST

/* An older kernel has fewer rights and a smaller struct. */
START_TEST(every_supported_abi_confines_writes)
{
	make_tree();
	SKIP_IF(!landlock_abi(), "requires Landlock");
	SKIP_IF(!top[0], "no folder outside of /tmp can be written");
	for (int abi = 1; abi <= landlock_abi(); abi++) {
		ck_assert_int_eq(confined_at(abi, check_common_needs), 0);
		ck_assert_int_eq(confined_at(abi, check_no_writes_elsewhere), 0);
	}
	remove_tree();
}
END_TEST

static struct sockaddr_un name_of_socket;
static socklen_t name_len;

static int connects(void)
{
	fd_auto int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return connect(fd, (struct sockaddr *)&name_of_socket, name_len) < 0 ? errno : 0;
}

static int signals(void)
{
	if (kill(getppid(), 0) == 0)
		return 1;
	if (errno != EPERM)
		return 2;
	pid_t pid = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	int status;
	return kill(pid, SIGKILL) < 0 || waitpid(pid, &status, 0) != pid ? 3 : 0;
}

START_TEST(abstract_sockets_and_signals_are_scoped)
{
	make_tree();
	SKIP_IF(!landlock_abi(), "requires Landlock");
	SKIP_IF(!top[0], "no folder outside of /tmp can be written");
	name_of_socket = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int n = snprintf(name_of_socket.sun_path + 1, sizeof name_of_socket.sun_path - 1, "bailiff-unit-%d", getpid());
	name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	fd_auto int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&name_of_socket, name_len), 0);
	ck_assert_int_eq(listen(listener, 8), 0);
	ck_assert_int_eq(connects(), 0);
	if (landlock_abi() >= 6) {
		ck_assert_int_eq(confined(connects), EPERM);
		ck_assert_int_eq(confined(signals), 0);
	}
	remove_tree();
}
END_TEST

/* A kernel without the feature must not be reported as having it. */
START_TEST(abstract_sockets_are_blocked_by_network_namespace_or_scope)
{
	for (int abi = 0; abi < 12; abi++) {
		ck_assert(landlock_shuts_abstract_sockets(abi, PLAN_NET_NONE));
		ck_assert(landlock_shuts_abstract_sockets(abi, PLAN_NET_ALLOW));
		ck_assert(landlock_shuts_abstract_sockets(abi, PLAN_NET_HOST) == (abi >= 6));
	}
}
END_TEST

/* A required write root does not exist. */
START_TEST(failures_name_the_path)
{
	make_tree();
	SKIP_IF(!landlock_abi(), "requires Landlock");
	SKIP_IF(!top[0], "no folder outside of /tmp can be written");
	mem_auto char *w = below("single");
	ck_assert_int_eq(unlink(w), 0);
	buf_auto struct buf b = BUF_INIT;
	plan_for(&b);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		const char *path = NULL;
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		int r = landlock_confine(landlock_abi(), (const struct plan_head *)b.data, false, &path);
		_exit(r < 0 && errno == ENOENT && path && strcmp(path, w) == 0 ? 0 : 1);
	}
	int status;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	remove_tree();
}
END_TEST

int main(void)
{
	return SUITE("landlock", only_write_roots_can_be_written, every_supported_abi_confines_writes,
		     abstract_sockets_and_signals_are_scoped,
		     abstract_sockets_are_blocked_by_network_namespace_or_scope, failures_name_the_path);
}
