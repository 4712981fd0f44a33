/*
 * A power cut against the store: a child appends to a store on an ext4 file system in a file and reports
 * acknowledgements. Meanwhile the file system is shut down without writing anything back (EXT4_IOC_SHUTDOWN), so that
 * all unsynced data is lost. After a new mount all acknowledged events must exist, without a gap, and verify must
 * succeed. The control syncs nothing and must be caught.
 *
 * Requires root and loop devices, otherwise it is skipped. POWER_N=n and SEED=n set the number of cuts and the seed,
 * which is printed.
 */

#include "tests/crash/appender.h"

#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#define DEFAULT_CUTS 40
#define CONTROL_CUTS 12
#define CUTS_A_STORE 8

#ifndef EXT4_IOC_SHUTDOWN
#define EXT4_IOC_SHUTDOWN _IOR('X', 125, uint32_t)
#endif
#define NO_LOG_FLUSH 2u

static unsigned seed, cuts;
static bool lying; /* syncs do nothing */

int fdatasync(int fd) { return lying ? 0 : (int)syscall(SYS_fdatasync, fd); }

int fsync(int fd) { return lying ? 0 : (int)syscall(SYS_fsync, fd); }

struct disk {
	char dir[64], image[96], top[96];
	struct rig r;
};

static bool run(const char *const argv[])
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool disk_mount(struct disk *d)
{
	return run((const char *const[]){ "mount", "-o", "loop", d->image, d->top, NULL });
}

/* Creates an empty file system. */
static bool disk_make(struct disk *d)
{
	int fd = open(d->image, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || ftruncate(fd, 96 << 20) != 0)
		return false;
	close(fd);
	if (!run((const char *const[]){ "mkfs.ext4", "-q", "-F", d->image, NULL }) || !disk_mount(d))
		return false;
	rig_at(&d->r, d->top);
	d->r.o.soon_ms = 1;
	return true;
}

static bool disk_init(struct disk *d)
{
	char dir[] = "/dev/shm/bailiff-power-XXXXXX";

	memset(d, 0, sizeof(*d));
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || !mkdtemp(dir))
		return false;
	snprintf(d->dir, sizeof(d->dir), "%s", dir);
	snprintf(d->image, sizeof(d->image), "%s/image", dir);
	snprintf(d->top, sizeof(d->top), "%s/top", dir);
	return mkdir(d->top, 0700) == 0 && disk_make(d);
}

static void disk_done(struct disk *d)
{
	umount(d->top);
	rmdir(d->top);
	unlink(d->image);
	rmdir(d->dir);
}

/* Cuts the power of one child; returns what it acknowledged last. */
static struct ack run_once(struct disk *d, bool lies, unsigned *windows)
{
	struct ack a = { 0 }, next;
	useconds_t wait = (useconds_t)(rand() % 40000);
	const uint32_t how = NO_LOG_FLUSH;
	int p[2], status, top = open(d->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid;

	ck_assert_int_ge(top, 0);
	ck_assert_int_eq(pipe(p), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(p[0]);
		lying = lies;
		if (!freopen("/dev/null", "w", stderr)) /* its messages about the failing disk */
			_exit(7);
		appender_main(&d->r, p[1], false, true);
	}
	close(p[1]);
	if (rand() % 4 && read(p[0], &next, sizeof(next)) == sizeof(next))
		a = next;
	usleep(wait);
	ck_assert_int_eq(ioctl(top, EXT4_IOC_SHUTDOWN, &how), 0);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	while (read(p[0], &next, sizeof(next)) == sizeof(next))
		a = next;
	close(p[0]);
	close(top);
	*windows += a.last != 0;
	ck_assert_int_eq(umount(d->top), 0);
	ck_assert(disk_mount(d));
	return a;
}

START_TEST(acknowledged_survives_a_power_cut)
{
	uint64_t before = 0, events = 0;
	unsigned windows = 0;
	struct disk d;

	if (!disk_init(&d)) {
		printf("# skipped: no ext4 of our own to shut down\n");
		disk_done(&d);
		return;
	}
	srand(seed);
	for (unsigned i = 0; i < cuts; i++) {
		struct rig_seen x;
		struct ack a;

		if (i % CUTS_A_STORE == CUTS_A_STORE - 1) {
			events += before;
			before = 0;
			ck_assert_int_eq(umount(d.top), 0);
			ck_assert(disk_make(&d));
		}
		a = run_once(&d, false, &windows);
		rig_open(&d.r);
		ck_assert_uint_ge(store_last_sequence(d.r.s), a.last);
		ck_assert_uint_ge(store_last_sequence(d.r.s), before);
		before = store_last_sequence(d.r.s);
		x = rig_events(&d.r, 0, 0, -1, NULL);
		ck_assert(x.gapless && x.count == before);
		ck_assert_uint_ge(appender_bytes(&d.r), a.spooled);
		rig_verify_ok(&d.r);
		rig_close(&d.r);
	}
	printf("# %u power cuts (seed %u), %u of them after an acknowledgement; %llu events; 0 lost, 0 gaps\n", cuts,
	       seed, windows, (unsigned long long)(events + before));
	ck_assert_uint_gt(windows, cuts / 4);
	disk_done(&d);
}
END_TEST

START_TEST(a_store_that_does_not_sync_is_caught)
{
	unsigned caught = 0, windows = 0;
	struct disk d;

	if (!disk_init(&d)) {
		printf("# skipped: no ext4 of our own to shut down\n");
		disk_done(&d);
		return;
	}
	srand(seed);
	for (unsigned i = 0; i < CONTROL_CUTS; i++) {
		struct err e = ERR_INIT;
		struct ack a;

		a = run_once(&d, true, &windows);
		if (store_open(&d.r.o, &d.r.s, &e) != 0) {
			caught++;
		} else {
			caught += store_last_sequence(d.r.s) < a.last;
			rig_close(&d.r);
		}
		ck_assert_int_eq(umount(d.top), 0);
		ck_assert(disk_make(&d));
	}
	printf("# control: a store that does not sync was caught in %u of %u cuts\n", caught, CONTROL_CUTS);
	ck_assert_uint_gt(caught, 0);
	disk_done(&d);
}
END_TEST

int main(void)
{
	const char *s = getenv("SEED"), *n = getenv("POWER_N");

	seed = s ? (unsigned)strtoul(s, NULL, 10) : (unsigned)time(NULL);
	cuts = n ? (unsigned)strtoul(n, NULL, 10) : DEFAULT_CUTS;
	const struct suite_case all = { "crash_power", NULL, NULL, 3600,
					SUITE_TESTS(acknowledged_survives_a_power_cut,
						    a_store_that_does_not_sync_is_caught) };
	return suite_run_cases("crash_power", &all, 1);
}
