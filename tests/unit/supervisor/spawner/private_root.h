#ifndef BAILIFF_TESTS_PRIVATE_ROOT_H
#define BAILIFF_TESTS_PRIVATE_ROOT_H

/*
 * Plans with a private root, run for real and checked from the inside. As root the peer is root, so that commands run
 * with their own id and mapped write roots; as a plain user everything happens in a user namespace.
 *
 * All tests run twice: in sandboxes that are built for the command, and in prebuilt ones. The results must be the same.
 */

#include "tests/unit/supervisor/rig.h"

#include <ftw.h>
#include <grp.h>
#include <sys/stat.h>

static struct rig rig;
static bool use_prebuilt; /* commands get prebuilt sandboxes */
static char place[64], work[80], other[80], out[16384];

/* Parent of the peer's trees; not /tmp, because the private /tmp would hide them. */
static inline const char *base_folder(void) { return geteuid() == 0 ? "/var/lib" : "/var/tmp"; }

static inline void put(const char *folder, const char *name, const char *text)
{
	char path[200];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	fd_auto int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ck_assert_msg(fd >= 0, "%s", path);
	ck_assert_int_eq(fd_write_all(fd, text, strlen(text)), 0);
}

static inline void folder(const char *at, const char *name)
{
	char path[200];
	snprintf(path, sizeof path, "%s/%s", at, name);
	ck_assert_int_eq(mkdir(path, 0755), 0);
}

static inline bool there(const char *at, const char *name, struct stat *st)
{
	char path[200];
	struct stat unused;
	snprintf(path, sizeof path, "%s/%s", at, name);
	return lstat(path, st ? st : &unused) == 0;
}

static inline void setup(void)
{
	snprintf(place, sizeof place, "%s/rig-root-XXXXXX", base_folder());
	ck_assert_ptr_nonnull(mkdtemp(place));
	snprintf(work, sizeof work, "%s/work", place);
	snprintf(other, sizeof other, "%s/other", place);
	folder(place, "work");
	folder(place, "other");
	put(other, "secret", "secret\n");
	folder(work, ".git");
	folder(work, ".git/hooks");
	put(work, ".git/config", "config\n");
	put(work, "file", "text\n");
	/* As root the trees are in a system directory, which root must have listed. */
	char config[80];
	snprintf(config, sizeof config, "%s/config", place);
	folder(place, "config");
	put(config, "root-write-roots", "# everything\n/\n");
	setenv("RIG_CONFIG", config, 1);
	rig_start(&rig);
}

static inline struct status_msg run_in(const char *script, const struct plan_mount_spec *mounts, size_t n,
				       const char *cwd);

#define SYSTEM_MOUNT                                   \
	{                                              \
		.kind = PLAN_MOUNT_SYSTEM, .path = "/" \
	}

static inline void setup_prebuilt(void)
{
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT };
	setenv("RIG_PREBUILT", "1", 1);
	setup();
	run_in("true", mounts, 1, "/");
	use_prebuilt = true;
}

static inline int unlink_one(const char *path, const struct stat *st, int type, struct FTW *f) { return remove(path); }

static inline void teardown(void)
{
	rig_stop(&rig);
	nftw(place, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
	unsetenv("RIG_PREBUILT");
	unsetenv("RIG_CONFIG");
	use_prebuilt = false;
}

/* Waits for both, so that the next command gets one of them. */
static inline void await_prebuilt(void)
{
	if (use_prebuilt)
		rig_await_prebuilt(&rig, 2);
}

/* Runs a script to its end with the system, the given mounts and the tools of a shell; stdout and stderr are in `out`.
 */
static inline struct status_msg run_in(const char *script, const struct plan_mount_spec *mounts, size_t n,
				       const char *cwd)
{
	struct run run;
	struct run_spec s = { .argv = SH(script),
			      .cwd = cwd,
			      .flags = PLAN_PRIVATE_ROOT | PLAN_STDERR_MERGE,
			      .mounts = mounts,
			      .nmounts = n,
			      .network = PLAN_NET_NONE };
	await_prebuilt();
	run_start(&rig, &run, &s);
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	struct status_msg m;
	do
		m = run_status(&run);
	while (m.kind == STATUS_PORTS); /* of a server that was listening long enough to be found */
	ck_assert_uint_eq(m.kind, STATUS_EXITED);
	run_release(&rig, &run);
	run_close(&run);
	return m;
}

static inline int code(const char *script)
{
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_HIDE, .path = place },
		{ .kind = PLAN_MOUNT_WRITE, .path = work, .flags = PLAN_MOUNT_OWNED },
		{ .kind = PLAN_MOUNT_PROTECT, .path = mem_printf("%s/.git/hooks", work) },
		{ .kind = PLAN_MOUNT_PROTECT, .path = mem_printf("%s/.git/config", work) },
	};
	struct status_msg m = run_in(script, mounts, countof(mounts), work);
	free((char *)mounts[3].path);
	free((char *)mounts[4].path);
	return WIFEXITED(m.wait_status) ? WEXITSTATUS(m.wait_status) : -1;
}

#define succeeds(script) ck_assert_msg(code(script) == 0, "%s: %s", script, out)
#define fails(script) ck_assert_msg(code(script) > 0, "%s: %s", script, out)

static inline struct status_msg failing(const struct run_spec *s)
{
	struct run run;
	await_prebuilt();
	run_send(&rig, &run, s);
	run_answer(&rig, &run);
	ck_assert_msg(run.answer.kind == SPAWN_STARTED, "%s", run.answer.path);
	struct status_msg m = run_status(&run);
	if (m.kind == STATUS_READY) {
		run_open_gate(&run);
		m = run_status(&run);
	}
	ck_assert_uint_eq(m.kind, STATUS_FAILED);
	run_release(&rig, &run);
	run_close(&run);
	return m;
}

/* In a container that masks its /proc, users cannot mount one: the layer is then reported as missing. */
static inline bool has_proc(void) { return code("test -d /proc/self") == 0; }

/* int main(int argc, char **argv) { return PRIVATE_ROOT_SUITE(argc, argv, "noun", a_test, another_test); } */
#define PRIVATE_ROOT_SUITE(argc, argv, name, ...)                                                    \
	rig_suite(argc, argv, name,                                                                  \
		  (const struct suite_case[]){                                                       \
			  { "runs", setup, teardown, 300, SUITE_TESTS(__VA_ARGS__) },                \
			  { "prebuilt", setup_prebuilt, teardown, 300, SUITE_TESTS(__VA_ARGS__) } }, \
		  2)

/* A socket whose peer is another user. */
static inline int socket_of(uid_t uid)
{
	int meet[2], fd = -1;
	size_t n = 1;
	char byte;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, meet), 0);
	pid_t pid = fork();
	if (pid == 0) {
		int pair[2];
		if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
		    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
			_exit(1);
		_exit(fd_send(meet[1], "", 1, pair, 1, 0) < 0);
	}
	ck_assert_int_eq(fd_recv(meet[0], &byte, 1, &fd, &n, 0), 1);
	waitpid(pid, NULL, 0);
	close(meet[0]);
	close(meet[1]);
	return fd;
}

#endif
