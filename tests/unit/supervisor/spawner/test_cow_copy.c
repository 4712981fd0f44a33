/* Copies of copy-on-write runs, through the spawner's helper: each test runs as the current user and as a plain user.
 */

#include "supervisor/spawner/cow.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/spawner/spawner.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NOBODY 65534
#define RUN "proc_source"
#define CHECKPOINT "ckp_first"
#define UPPER RUN "/0/upper/"
#define COPY CHECKPOINT "/0/upper/"

static char folder[PATH_MAX];
static struct cow cow;

static void write_text(const char *path, const char *text, mode_t mode)
{
	fd_auto int fd = openat(cow.fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	ck_assert_int_eq(fd_write_all(fd, text, strlen(text)), 0);
	ck_assert_int_eq(fchmod(fd, mode), 0);
}

static void make_run(void)
{
	const struct cow_owner o = { .magic = COW_MAGIC,
				     .version = COW_VERSION,
				     .uid = geteuid(),
				     .gid = getegid(),
				     .nroots = 1,
				     .started_s = 1234 };
	struct cow_root r = { .magic = COW_MAGIC, .version = COW_VERSION, .device = 1, .inode = 2, .path = "/w" };
	static const char *const folders[] = { RUN, RUN "/0", RUN "/0/upper", RUN "/0/work", RUN "/0/work/work" };
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
		ck_assert_int_eq(mkdirat(cow.fd, folders[i], 0700), 0);
	fd_auto int owner = openat(cow.fd, RUN "/owner", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	fd_auto int root = openat(cow.fd, RUN "/0/root", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(fd_write_all(owner, &o, sizeof o), 0);
	ck_assert_int_eq(fd_write_all(root, &r, sizeof r), 0);
}

static void enter_folder(void)
{
	snprintf(folder, sizeof folder, "/tmp/bailiff-unit-cow-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	cow_init(&cow, open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), geteuid() == 0);
	ck_assert_int_ge(cow.fd, 0);
}

static void setup(void)
{
	enter_folder();
	make_run();
}

static void setup_plain(void)
{
	if (geteuid() == 0) {
		ck_assert_int_eq(setresgid(NOBODY, NOBODY, NOBODY), 0);
		ck_assert_int_eq(setresuid(NOBODY, NOBODY, NOBODY), 0);
	}
	setup();
}

static void teardown(void)
{
	char name[PATH_MAX];
	fd_auto int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(name, sizeof name, "%s", folder + strlen("/tmp/"));
	umount2(folder, MNT_DETACH);
	fd_close(&cow.fd);
	cow_remove(tmp, name);
}

static int begin(enum change_op op, const char *id, const char *paths, size_t len)
{
	struct spawn_msg m = { .kind = SPAWN_CHANGES, .op = op };
	fd_auto int given = fd_memfd_sealed("paths", paths, len);
	fd_auto int result = memfd_create("result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const int fds[] = { given, result };
	snprintf(m.key.id, sizeof m.key.id, "%s", id);
	return cow_start(&cow, &m, fds);
}

/* Returns the error of the helper's answer. */
static int finish(void)
{
	struct spawn_msg answer = { .error = -1 };
	int pidfds[CHANGE_HELPERS_MAX];
	ck_assert_uint_eq(cow_polls(&cow, pidfds), 1);
	struct pollfd p = { .fd = pidfds[0], .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 60000), 1);
	ck_assert(cow_reap(&cow, pidfds[0], &answer));
	return answer.error;
}

static int request(enum change_op op, const char *id, const char *paths, size_t len)
{
	int r = begin(op, id, paths, len);
	return r ? r : finish();
}

static int begin_copy(const char *from, const char *to, uint64_t budget)
{
	char text[128];
	int n = snprintf(text, sizeof text, "%s%c%llu", to, 0, (unsigned long long)budget);
	return begin(CHANGE_OP_COPY, from, text, (size_t)n);
}

static int copy_within(const char *from, const char *to, uint64_t budget)
{
	int r = begin_copy(from, to, budget);
	return r ? r : finish();
}

static int copy_to(const char *to) { return copy_within(RUN, to, 0); }

static struct stat stat_of(const char *path)
{
	struct stat st;
	ck_assert_msg(fstatat(cow.fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0, "%s: %s", path, strerror(errno));
	return st;
}

static bool exists(const char *path)
{
	struct stat st;
	return fstatat(cow.fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void check_text(const char *path, const char *text)
{
	char got[256] = "";
	fd_auto int fd = openat(cow.fd, path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	ck_assert_int_ge(fd_read_all(fd, got, sizeof got - 1), 0);
	ck_assert_str_eq(got, text);
}

/* false: the file system does not support these attributes. */
static bool set_attribute(const char *path, const char *name, const char *value)
{
	fd_auto int fd = openat(cow.fd, path, O_RDONLY | O_CLOEXEC);
	return fsetxattr(fd, name, value, strlen(value), 0) == 0;
}

static void check_attribute(const char *path, const char *name, const char *value)
{
	char got[64] = "";
	fd_auto int fd = openat(cow.fd, path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fgetxattr(fd, name, got, sizeof got - 1), 0);
	ck_assert_str_eq(got, value);
}

START_TEST(a_copy_has_the_files_with_their_modes_and_times)
{
	const struct timespec times[2] = { { .tv_sec = 111 }, { .tv_sec = 222, .tv_nsec = 333 } };
	mkdirat(cow.fd, UPPER "d", 0700);
	write_text(UPPER "d/f", "text", 04751);
	write_text(UPPER "secret", "none may read it", 0);
	ck_assert_int_eq(symlinkat("../target", cow.fd, UPPER "link"), 0);
	ck_assert_int_eq(utimensat(cow.fd, UPPER "d/f", times, 0), 0);
	ck_assert_int_eq(utimensat(cow.fd, UPPER "link", times, AT_SYMLINK_NOFOLLOW), 0);
	ck_assert_int_eq(fchmodat(cow.fd, UPPER "d", 01000, 0), 0);
	ck_assert_int_eq(utimensat(cow.fd, UPPER "d", times, 0), 0);
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
	ck_assert_uint_eq(stat_of(UPPER "d").st_mode, S_IFDIR | 01000);
	ck_assert_uint_eq(stat_of(COPY "d").st_mode, S_IFDIR | 01000);
	ck_assert_int_eq(stat_of(COPY "d").st_mtim.tv_nsec, 333);
	ck_assert_int_eq(fchmodat(cow.fd, COPY "d", 0700, 0), 0);
	check_text(COPY "d/f", "text");
	ck_assert_uint_eq(stat_of(COPY "d/f").st_mode, S_IFREG | 04751);
	ck_assert_int_eq(stat_of(COPY "d/f").st_mtim.tv_sec, 222);
	ck_assert_int_eq(stat_of(COPY "d/f").st_mtim.tv_nsec, 333);
	ck_assert_uint_eq(stat_of(UPPER "secret").st_mode, S_IFREG);
	ck_assert_uint_eq(stat_of(COPY "secret").st_mode, S_IFREG);
	ck_assert_int_eq(fchmodat(cow.fd, COPY "secret", 0600, 0), 0);
	check_text(COPY "secret", "none may read it");
	char target[64] = "";
	ck_assert_int_eq(readlinkat(cow.fd, COPY "link", target, sizeof target - 1), 9);
	ck_assert_str_eq(target, "../target");
	ck_assert_int_eq(stat_of(COPY "link").st_mtim.tv_sec, 222);
}
END_TEST

START_TEST(a_copy_is_a_run_with_the_same_owner_start_and_roots)
{
	struct cow_owner a, b;
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
	fd_auto int from = openat(cow.fd, RUN "/owner", O_RDONLY | O_CLOEXEC);
	fd_auto int to = openat(cow.fd, CHECKPOINT "/owner", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(fd_read_all(from, &a, sizeof a), sizeof a);
	ck_assert_int_eq(fd_read_all(to, &b, sizeof b), sizeof b);
	ck_assert_mem_eq(&a, &b, sizeof a);
	ck_assert_int_eq(stat_of(CHECKPOINT "/0/root").st_size, sizeof(struct cow_root));
	ck_assert(exists(CHECKPOINT "/0/work"));
	ck_assert(!exists(CHECKPOINT "/0/work/work"));
	ck_assert(!exists(CHECKPOINT "/links"));
	ck_assert(!exists(CHECKPOINT ".partial"));
	ck_assert_int_eq(copy_within(CHECKPOINT, "proc_next", 0), 0);
	ck_assert(exists("proc_next/0/upper"));
}
END_TEST

START_TEST(whiteouts_and_marks_of_the_overlay_are_kept)
{
	ck_assert_int_eq(mknodat(cow.fd, UPPER "gone", S_IFCHR, makedev(0, 0)), 0);
	ck_assert_int_eq(linkat(cow.fd, UPPER "gone", cow.fd, UPPER "gone-too", 0), 0);
	ck_assert_int_eq(mknodat(cow.fd, UPPER "pipe", S_IFIFO | 0640, 0), 0);
	ck_assert_int_eq(mkdirat(cow.fd, UPPER "replaced", 0755), 0);
	write_text(UPPER "f", "x", 0400);
	bool marks = set_attribute(UPPER "replaced", "user.overlay.opaque", "y");
	marks = marks && set_attribute(UPPER "f", "user.note", "kept");
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
	struct stat gone = stat_of(COPY "gone"), too = stat_of(COPY "gone-too");
	ck_assert(cow_whiteout(&gone) && cow_whiteout(&too));
	ck_assert_uint_eq(gone.st_ino, too.st_ino);
	ck_assert_uint_eq(stat_of(COPY "pipe").st_mode, S_IFIFO | 0640);
	if (marks)
		check_attribute(COPY "replaced", "user.overlay.opaque", "y");
	if (marks)
		check_attribute(COPY "f", "user.note", "kept");
}
END_TEST

START_TEST(hard_links_stay_hard_links_within_the_copy)
{
	mkdirat(cow.fd, UPPER "d", 0700);
	write_text(UPPER "a", "one", 0600);
	ck_assert_int_eq(linkat(cow.fd, UPPER "a", cow.fd, UPPER "d/b", 0), 0);
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
	ck_assert_uint_eq(stat_of(COPY "a").st_ino, stat_of(COPY "d/b").st_ino);
	ck_assert_uint_eq(stat_of(COPY "a").st_nlink, 2);
	ck_assert_uint_ne(stat_of(COPY "a").st_ino, stat_of(UPPER "a").st_ino);
	write_text(UPPER "a", "two", 0600);
	check_text(COPY "d/b", "one");
}
END_TEST

START_TEST(holes_of_sparse_files_are_kept)
{
	fd_auto int fd = openat(cow.fd, UPPER "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(pwrite(fd, "middle", 6, 8 << 20), 6);
	ck_assert_int_eq(ftruncate(fd, 32 << 20), 0);
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
	struct stat st = stat_of(COPY "sparse");
	ck_assert_int_eq(st.st_size, 32 << 20);
	ck_assert_int_lt(st.st_blocks, (1 << 20) / 512);
	char got[7] = "";
	fd_auto int copy = openat(cow.fd, COPY "sparse", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(pread(copy, got, 6, 8 << 20), 6);
	ck_assert_str_eq(got, "middle");
}
END_TEST

START_TEST(a_directory_nested_too_deep_is_an_error_and_leaves_nothing)
{
	fd_auto int at = openat(cow.fd, UPPER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < COW_DEPTH_MAX + 8; i++) {
		ck_assert_int_eq(mkdirat(at, "d", 0700), 0);
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fd_close(&at);
		at = next;
	}
	ck_assert_int_eq(copy_to(CHECKPOINT), ELOOP);
	ck_assert(!exists(CHECKPOINT) && !exists(CHECKPOINT ".partial"));
}
END_TEST

START_TEST(a_copy_that_cannot_be_written_leaves_nothing)
{
	struct rlimit limit = { .rlim_cur = 4096, .rlim_max = RLIM_INFINITY };
	static char text[16384];
	memset(text, 'x', sizeof text - 1);
	write_text(UPPER "first", "fits", 0600);
	write_text(UPPER "long", text, 0600);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &limit);
	struct rlimit before = limit;
	limit.rlim_cur = 4096;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(copy_to(CHECKPOINT), EFBIG);
	ck_assert(!exists(CHECKPOINT) && !exists(CHECKPOINT ".partial"));
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
}
END_TEST

START_TEST(a_full_disk_leaves_no_copy_and_does_not_change_the_source)
{
	static char block[1 << 20];
	SKIP_IF(geteuid() != 0 || mount("tmpfs", folder, "tmpfs", 0, "size=6m") < 0,
		"requires root, to mount a small disk");
	fd_close(&cow.fd);
	cow_init(&cow, open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), true);
	make_run();
	memset(block, 'x', sizeof block - 1);
	write_text(UPPER "a", block, 0600);
	write_text(UPPER "b", block, 0600);
	write_text(UPPER "c", block, 0600);
	write_text(UPPER "d", block, 0600);
	ck_assert_int_eq(copy_to(CHECKPOINT), ENOSPC);
	ck_assert(!exists(CHECKPOINT) && !exists(CHECKPOINT ".partial"));
	ck_assert_int_eq(unlinkat(cow.fd, UPPER "d", 0), 0);
	ck_assert_int_eq(unlinkat(cow.fd, UPPER "c", 0), 0);
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
}
END_TEST

START_TEST(a_sweep_removes_unfinished_copies_and_keeps_named_ones)
{
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
	ck_assert_int_eq(copy_to("ckp_unknown"), 0);
	ck_assert_int_eq(mkdirat(cow.fd, "ckp_cut.partial", 0700), 0);
	write_text("ckp_cut.partial/owner", "half", 0600);
	ck_assert_int_eq(request(CHANGE_OP_SWEEP, "sweep", RUN "\0" CHECKPOINT, sizeof RUN "\0" CHECKPOINT), 0);
	ck_assert(exists(RUN) && exists(CHECKPOINT));
	ck_assert(!exists("ckp_unknown") && !exists("ckp_cut.partial"));
}
END_TEST

START_TEST(an_interrupted_copy_can_be_repeated)
{
	write_text(UPPER "file", "text", 0600);
	ck_assert_int_eq(mkdirat(cow.fd, CHECKPOINT ".partial", 0700), 0);
	ck_assert_int_eq(mkdirat(cow.fd, CHECKPOINT ".partial/0", 0), 0);
	write_text(CHECKPOINT ".partial/owner", "half", 0600);
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
	check_text(COPY "file", "text");
	ck_assert(!exists(CHECKPOINT ".partial"));
}
END_TEST

/* An interrupted start is repeated with its id while its remains are being removed. */
START_TEST(a_run_can_start_again_while_its_remains_are_removed)
{
	enum { RUNS = 200 };
	static const char *const argv[] = { "x" };
	const struct plan_mount_spec mount = { .kind = PLAN_MOUNT_WRITE, .path = "/w" };
	const struct plan_spec spec = { .flags = PLAN_PRIVATE_ROOT | PLAN_COW,
					.cwd = "/",
					.argv = argv,
					.argc = 1,
					.mounts = &mount,
					.nmounts = 1 };
	const struct spawn_identity peer = { .peer_uid = geteuid() };
	static int runs[RUNS];
	buf_auto struct buf plan = BUF_INIT;
	struct err e = ERR_INIT;
	char id[PLAN_KEY_MAX], path[PATH_MAX];
	ck_assert_int_eq(plan_build(&spec, &plan, &e), 0);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < RUNS; i++) {
			snprintf(id, sizeof id, "proc_%d", i);
			ck_assert_msg(cow_prepare(&cow, id, (const void *)plan.data, &peer, path, &runs[i], &e) == 0,
				      "%s: %s", id, e.message);
			if (round == 0)
				fd_close(&runs[i]);
		}
		if (round == 0) {
			sleep(2); /* so that they are old */
			ck_assert_int_eq(begin(CHANGE_OP_SWEEP, "sweep", RUN, sizeof RUN), 0);
		}
	}
	ck_assert_int_eq(finish(), 0);
	for (int i = 0; i < RUNS; i++) {
		snprintf(path, sizeof path, "proc_%d/0/work", i);
		ck_assert(exists(path));
		snprintf(path, sizeof path, "proc_%d/owner", i);
		ck_assert(exists(path));
		fd_close(&runs[i]);
	}
}
END_TEST

START_TEST(invalid_requests_are_rejected)
{
	ck_assert_int_eq(copy_to("../outside"), EINVAL);
	ck_assert_int_eq(copy_to(""), EINVAL);
	ck_assert_int_eq(copy_to("ckp_a_name_that_is_longer_than_any_key_can_be"), EINVAL);
	ck_assert_int_eq(request(CHANGE_OP_COPY, RUN, "two\0names", 9), EINVAL);
	ck_assert_int_eq(request(CHANGE_OP_COPY, RUN, CHECKPOINT, strlen(CHECKPOINT)), EINVAL);
	ck_assert_int_eq(copy_within("proc_missing", CHECKPOINT, 0), ENOENT);
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
	ck_assert_int_eq(copy_to(CHECKPOINT), EEXIST);
	ck_assert(exists(CHECKPOINT "/owner"));
}
END_TEST

/* A START can name a copy only if it belongs to the peer and has the same number of write roots. */
START_TEST(a_run_starts_only_with_a_matching_copy_of_its_owner)
{
	static const char *const argv[] = { "x" };
	const struct plan_mount_spec mounts[] = { { .kind = PLAN_MOUNT_WRITE, .path = "/w" },
						  { .kind = PLAN_MOUNT_WRITE, .path = "/v" } };
	struct plan_spec spec = { .flags = PLAN_PRIVATE_ROOT | PLAN_COW | PLAN_COW_COPY,
				  .cwd = "/",
				  .argv = argv,
				  .argc = 1,
				  .mounts = mounts,
				  .nmounts = 1 };
	struct spawn_identity peer = { .peer_uid = geteuid() };
	buf_auto struct buf one = BUF_INIT, two = BUF_INIT;
	char path[PATH_MAX];
	int fd = -1;
	struct err e = ERR_INIT;
	ck_assert_int_eq(plan_build(&spec, &one, &e), 0);
	spec.nmounts = 2;
	ck_assert_int_eq(plan_build(&spec, &two, &e), 0);
	const struct plan_head *plan = (const void *)one.data, *other = (const void *)two.data;
	ck_assert_int_lt(cow_prepare(&cow, CHECKPOINT, plan, &peer, path, &fd, &e), 0);
	ck_assert_int_eq(copy_to(CHECKPOINT), 0);
	ck_assert_int_eq(cow_prepare(&cow, CHECKPOINT, plan, &peer, path, &fd, &e), 0);
	fd_close(&fd);
	ck_assert_int_lt(cow_prepare(&cow, CHECKPOINT, other, &peer, path, &fd, &e), 0);
	peer.peer_uid++;
	ck_assert_int_lt(cow_prepare(&cow, CHECKPOINT, plan, &peer, path, &fd, &e), 0);
	ck_assert_int_eq(e.code, ERR_NOT_ALLOWED);
}
END_TEST

/* The owner of the parent directory replaces the directory after it was checked. */
START_TEST(a_directory_that_replaced_the_checked_one_is_not_changed)
{
	struct cow_spot s = { .upper_dir = cow.fd,
			      .host_dir = cow.fd,
			      .name = "folder",
			      .upper_name = "folder",
			      .type = CHANGE_TYPE_FOLDER,
			      .upper = { .st_mode = S_IFDIR | 0777, .st_uid = geteuid(), .st_gid = getegid() } };
	struct stat st;
	int fd;
	ck_assert_int_eq(mkdirat(cow.fd, "folder", 0700), 0);
	ck_assert_int_eq(mkdirat(cow.fd, "other", 0500), 0);
	ck_assert_int_eq(fstatat(cow.fd, "folder", &s.host, 0), 0);
	ck_assert_int_eq(renameat(cow.fd, "folder", cow.fd, "away"), 0);
	ck_assert_int_eq(renameat(cow.fd, "other", cow.fd, "folder"), 0);
	cow_put(&s);
	ck_assert_int_eq(s.outcome, CHANGE_OUTCOME_CONFLICT);
	ck_assert(!s.touched);
	ck_assert_uint_eq(cow_open_up(cow.fd, "folder", &s.host, &fd), 0);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(errno, ESTALE);
	ck_assert_int_lt(cow_remove_found(cow.fd, "folder", &s.host), 0);
	ck_assert_int_eq(errno, ESTALE);
	ck_assert_int_eq(fstatat(cow.fd, "folder", &st, 0), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0500);
}
END_TEST

/* The helpers end when they are reaped. */
START_TEST(copies_leave_helpers_for_other_requests)
{
	char to[] = "ckpt_0";
	for (unsigned i = 0; i < CHANGE_COPIES_MAX; i++, to[5]++)
		ck_assert_int_eq(begin_copy(RUN, to, 0), 0);
	ck_assert_int_eq(begin_copy(RUN, to, 0), EBUSY);
	ck_assert_int_eq(begin(CHANGE_OP_LIST, RUN, "", 0), 0);
	for (unsigned left = CHANGE_COPIES_MAX + 1; left; left--) {
		struct spawn_msg answer = { .error = -1 };
		int pidfds[CHANGE_HELPERS_MAX];
		ck_assert_uint_eq(cow_polls(&cow, pidfds), left);
		struct pollfd p = { .fd = pidfds[0], .events = POLLIN };
		ck_assert_int_eq(poll(&p, 1, 60000), 1);
		ck_assert(cow_reap(&cow, pidfds[0], &answer));
	}
	ck_assert_int_eq(copy_to(to), 0);
}
END_TEST

static void write_bytes(const char *path, size_t n)
{
	mem_auto char *bytes = mem_alloc(n);
	fd_auto int fd = openat(cow.fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	memset(bytes, 'x', n);
	ck_assert_int_eq(fd_write_all(fd, bytes, n), 0);
	ck_assert_int_eq(fsync(fd), 0); /* its blocks are allocated */
}

START_TEST(copies_of_one_owner_share_a_budget)
{
	const uint64_t budget = 3 << 20;
	write_bytes(UPPER "large", 1 << 20);
	ck_assert_int_eq(copy_within(RUN, "ckp_1", budget), 0);
	ck_assert_int_eq(copy_within("ckp_1", "proc_fork", budget), 0);
	ck_assert_int_eq(copy_within(RUN, "ckp_2", budget), COW_OVER_BUDGET);
	ck_assert(!exists("ckp_2") && !exists("ckp_2.partial"));
	ck_assert_int_eq(copy_within(RUN, "ckp_2", 2 * budget), 0);
	ck_assert_int_eq(request(CHANGE_OP_DROP, "ckp_1", "", 0), 0);
	ck_assert_int_eq(request(CHANGE_OP_DROP, "proc_fork", "", 0), 0);
	ck_assert_int_eq(copy_within(RUN, "ckp_3", budget), 0);
}
END_TEST

START_TEST(empty_files_and_damaged_or_missing_records_count_for_the_budget)
{
	write_bytes(UPPER "large", 1 << 20);
	ck_assert_int_eq(copy_within(RUN, "ckp_1", 0), 0);
	ck_assert_int_eq(copy_within(RUN, "ckp_2", 0), 0);
	ck_assert_int_eq(unlinkat(cow.fd, "ckp_1/copied", 0), 0);
	write_text("ckp_2/copied", "short", 0600);
	ck_assert_int_eq(copy_within(RUN, "ckp_3", 3 << 20), COW_OVER_BUDGET);
	ck_assert_int_eq(copy_within(RUN, "ckp_3", 4 << 20), 0);
	ck_assert_int_eq(unlinkat(cow.fd, UPPER "large", 0), 0);
	for (unsigned i = 0; i < 100; i++) {
		char name[64];
		snprintf(name, sizeof name, UPPER "%u", i);
		write_text(name, "", 0600);
	}
	ck_assert_int_eq(request(CHANGE_OP_SWEEP, "sweep", RUN, sizeof RUN), 0);
	ck_assert_int_eq(copy_within(RUN, "ckp_4", 100 * 1024), COW_OVER_BUDGET);
}
END_TEST

/* A record of another owner, as a privileged spawner sees it. */
START_TEST(copies_of_others_do_not_count)
{
	uint32_t record[4]; /* magic, uid, bytes */
	write_bytes(UPPER "large", 1 << 20);
	ck_assert_int_eq(copy_within(RUN, "ckp_1", 2 << 20), 0);
	fd_auto int fd = openat(cow.fd, "ckp_1/copied", O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(pread(fd, record, sizeof record, 0), sizeof record);
	record[1]++;
	ck_assert_int_eq(pwrite(fd, record, sizeof record, 0), sizeof record);
	ck_assert_int_eq(copy_within(RUN, "ckp_2", 2 << 20), 0);
	ck_assert_int_eq(copy_within(RUN, "ckp_3", 2 << 20), COW_OVER_BUDGET);
}
END_TEST

#define TESTS                                                                                                         \
	SUITE_TESTS(a_copy_has_the_files_with_their_modes_and_times,                                                  \
		    a_copy_is_a_run_with_the_same_owner_start_and_roots, whiteouts_and_marks_of_the_overlay_are_kept, \
		    hard_links_stay_hard_links_within_the_copy, holes_of_sparse_files_are_kept,                       \
		    a_directory_nested_too_deep_is_an_error_and_leaves_nothing,                                       \
		    a_copy_that_cannot_be_written_leaves_nothing,                                                     \
		    a_full_disk_leaves_no_copy_and_does_not_change_the_source,                                        \
		    a_sweep_removes_unfinished_copies_and_keeps_named_ones, an_interrupted_copy_can_be_repeated,      \
		    a_run_can_start_again_while_its_remains_are_removed, invalid_requests_are_rejected,               \
		    copies_leave_helpers_for_other_requests, a_run_starts_only_with_a_matching_copy_of_its_owner,     \
		    a_directory_that_replaced_the_checked_one_is_not_changed, copies_of_one_owner_share_a_budget,     \
		    empty_files_and_damaged_or_missing_records_count_for_the_budget, copies_of_others_do_not_count)

int main(void)
{
	const struct suite_case cases[] = {
		{ "present user", setup, teardown, 60, TESTS },
		{ "plain user", setup_plain, teardown, 60, TESTS },
	};
	return suite_run_cases("cow_copy", cases, sizeof cases / sizeof *cases);
}
