/* The check of a host fingerprint with the peer's ids, also when the ids cannot be switched.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/become_peer.h"
#include "sandbox/host_fingerprint.h"
#include "sandbox/local_fs.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHER_ID 4711u

/* Makes the kernel skip this call silently if its argument is this id. */
static void skip_call(int call, uint32_t id)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || !f ||
	    seccomp_rule_add(f, SCMP_ACT_ERRNO(0), call, 1, SCMP_A0(SCMP_CMP_EQ, id)) < 0 || seccomp_load(f) < 0)
		_exit(101);
	seccomp_release(f);
}

/* The exit code of a check with a call skipped, or −signal. */
static int check_without(int call, uint32_t id)
{
	static const char *const argv[] = { "true" };
	const struct plan_spec spec = { .cwd = "/", .argv = argv, .argc = 1 };
	const struct fingerprint_peer peer = { .uid = OTHER_ID, .gid = OTHER_ID, .switches = true };
	const struct rlimit none = { 0 };
	int status;
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct buf plan = BUF_INIT;
		struct host_fingerprint s = { 0 };
		struct fingerprint_folders folders = { 0 };
		struct err e = ERR_INIT;
		signal(SIGABRT, SIG_DFL);
		if (setrlimit(RLIMIT_CORE, &none) < 0 || setgroups(0, NULL) < 0 || plan_build(&spec, &plan, &e) < 0)
			_exit(100);
		if (call >= 0)
			skip_call(call, id);
		bool held = fingerprint_matches(&s, &folders, (const struct plan_head *)(const void *)plan.data, &peer);
		if (setfsuid((uid_t)-1) != 0 || setfsgid((gid_t)-1) != 0)
			_exit(102);
		_exit(held ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

START_TEST(a_checker_that_cannot_restore_its_ids_aborts)
{
	SKIP_IF(geteuid() != 0, "requires root, to change its ids");
	ck_assert_int_eq(check_without(-1, 0), 0);
	ck_assert_int_eq(check_without(SCMP_SYS(setfsuid), 0), -SIGABRT);
	ck_assert_int_eq(check_without(SCMP_SYS(setfsgid), 0), -SIGABRT);
	/* If the process never became the peer, its result is not valid for the peer. */
	ck_assert_int_eq(check_without(SCMP_SYS(setfsuid), OTHER_ID), 1);
	ck_assert_int_eq(check_without(SCMP_SYS(setfsgid), OTHER_ID), 1);
}
END_TEST

/* ---- directories that are checked instead of their entries ---- */

#define TRIES 20
#define NAMES 6 /* n0 … n4, which do not exist, and a directory, n5 */

struct rig {
	char folder[32];
	struct buf plan;
	struct host_fingerprint s;
	struct fingerprint_folders folders;
};

static void in_folder(const struct rig *r, const char *name, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%s/%s", r->folder, name);
}

static void rig_open(struct rig *r, uint32_t flags)
{
	static const char *const argv[] = { "true" };
	struct plan_mount_spec mounts[NAMES];
	char path[NAMES][PATH_MAX];
	struct err e = ERR_INIT;

	*r = (struct rig){ .folder = "/tmp/bl-unit-XXXXXX", .plan = BUF_INIT };
	ck_assert_ptr_nonnull(mkdtemp(r->folder));
	for (int i = 0; i < NAMES; i++) {
		char name[8];
		snprintf(name, sizeof name, "n%d", i);
		in_folder(r, name, path[i]);
		mounts[i] = (struct plan_mount_spec){ .kind = PLAN_MOUNT_READ, .path = path[i] };
	}
	const struct plan_spec spec = { .cwd = "/", .argv = argv, .argc = 1, .mounts = mounts, .nmounts = NAMES };
	ck_assert_int_eq(plan_build(&spec, &r->plan, &e), 0);
	ck_assert_int_eq(mkdir(path[NAMES - 1], 0700), 0);
	for (uint32_t i = 0; i < NAMES; i++) {
		fd_auto int fd = fingerprint_open(path[i], flags & FINGERPRINT_FOLLOW, false);
		fingerprint_record(&r->s, i, strlen(path[i]), flags, fd);
	}
	ck_assert_uint_eq(r->s.lost, 0);
}

static void rig_close(struct rig *r)
{
	static const char *const names[] = { "n1", "n5" };
	char path[PATH_MAX];

	fingerprint_unpin(&r->s);
	buf_done(&r->plan);
	for (size_t i = 0; i < countof(names); i++) {
		in_folder(r, names[i], path);
		(void)remove(path);
	}
	ck_assert_int_eq(rmdir(r->folder), 0);
}

/* A lookup in the cache can fail while mounts of the machine change, so one success is enough. */
static bool matches_for(struct rig *r, const struct fingerprint_peer *peer)
{
	const struct plan_head *plan = (const struct plan_head *)(const void *)r->plan.data;
	for (int i = 0; i < TRIES; i++) {
		if (fingerprint_matches(&r->s, &r->folders, plan, peer))
			return true;
	}
	return false;
}

static bool matches(struct rig *r)
{
	const struct fingerprint_peer peer = { .uid = geteuid(), .gid = getegid() };
	return matches_for(r, &peer);
}

/* Waits until the directory's last change is in an earlier second and it is checked instead of its entries. */
static bool is_cached(struct rig *r)
{
	for (int i = 0; i < 30; i++) {
		ck_assert(matches(r));
		if (r->folders.folder[0].known)
			return true;
		poll(NULL, 0, 100);
	}
	return false;
}

static void check_changes(uint32_t flags)
{
	struct rig r;
	char path[PATH_MAX], other[PATH_MAX];

	rig_open(&r, flags);
	bool local = is_cached(&r); /* /tmp may be on another file system */
	ck_assert(!local || (r.folders.count == 1 && r.folders.folder[0].entries == NAMES));
	in_folder(&r, "n2", path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_msg(!matches(&r), "a name has appeared");
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert(matches(&r));
	ck_assert_int_eq(is_cached(&r), local);

	in_folder(&r, "n5", path);
	in_folder(&r, "aside", other);
	ck_assert_int_eq(rename(path, other), 0);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_msg(!matches(&r), "a folder was replaced");
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_msg(!matches(&r), "a folder is gone");
	ck_assert_int_eq(rename(other, path), 0);
	ck_assert_int_eq(is_cached(&r), local);

	mem_auto char *moved = mem_printf("%s.moved", r.folder);
	ck_assert_int_eq(rename(r.folder, moved), 0);
	ck_assert_msg(!matches(&r), "the folder itself is gone");
	ck_assert_int_eq(mkdir(r.folder, 0700), 0);
	ck_assert_msg(!matches(&r), "another folder has its name");
	ck_assert_int_eq(rmdir(r.folder), 0);
	ck_assert_int_eq(rename(moved, r.folder), 0);
	ck_assert(matches(&r));
	rig_close(&r);
}

START_TEST(a_change_in_a_cached_directory_is_detected) { check_changes(0); }
END_TEST

START_TEST(a_change_in_a_cached_directory_is_detected_through_links) { check_changes(FINGERPRINT_FOLLOW); }
END_TEST

/* The target is in another directory, so that this one does not change with it. */
START_TEST(a_cached_directory_does_not_cover_the_target_of_a_link)
{
	struct rig r;
	char path[PATH_MAX];

	rig_open(&r, FINGERPRINT_FOLLOW);
	mem_auto char *target = mem_printf("%s.target", r.folder);
	in_folder(&r, "n1", path);
	ck_assert_int_eq(symlink(target, path), 0);
	poll(NULL, 0, 50);
	ck_assert_int_lt(access(path, F_OK), 0); /* the link and the absence of its target are now in the cache */
	fd_auto int folder = open(r.folder, O_PATH | O_CLOEXEC);
	bool remembered = local_fs_of(folder) != LOCAL_FS_TMPFS; /* that the target is absent */
	if (remembered)
		(void)!is_cached(&r);
	ck_assert(matches(&r) || !remembered);
	ck_assert_int_eq(mkdir(target, 0700), 0);
	ck_assert(!matches(&r));
	ck_assert_int_eq(rmdir(target), 0);
	ck_assert_int_lt(access(path, F_OK), 0);
	ck_assert(matches(&r) || !remembered);
	rig_close(&r);
}
END_TEST

/* Only root can check as another user. */
/*
 * Older kernels read a directory's access control list, whether it has one or not, when another user than the owner
 * enters it, and not in a lookup from the cache.
 */
static void enter_as(const char *folder, uint32_t id)
{
	int status;
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0 || chdir(folder) < 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

START_TEST(a_cached_directory_that_was_closed_to_the_peer_is_checked_again)
{
	struct rig r;
	const struct fingerprint_peer peer = { .uid = OTHER_ID, .gid = OTHER_ID, .switches = true };

	SKIP_IF(geteuid() != 0 || setgroups(0, NULL) < 0, "requires root, to change its ids");
	rig_open(&r, FINGERPRINT_AS_PEER);
	ck_assert_int_eq(chmod(r.folder, 0711), 0);
	enter_as(r.folder, OTHER_ID);
	for (int i = 0; i < 30 && !(i && r.folders.folder[0].known); i++) {
		ck_assert(matches_for(&r, &peer));
		poll(NULL, 0, 100);
	}
	ck_assert_int_eq(chmod(r.folder, 0700), 0);
	ck_assert(!matches_for(&r, &peer));
	rig_close(&r);
}
END_TEST

int main(void)
{
	return SUITE("host_fingerprint", a_checker_that_cannot_restore_its_ids_aborts,
		     a_change_in_a_cached_directory_is_detected,
		     a_change_in_a_cached_directory_is_detected_through_links,
		     a_cached_directory_does_not_cover_the_target_of_a_link,
		     a_cached_directory_that_was_closed_to_the_peer_is_checked_again);
}
