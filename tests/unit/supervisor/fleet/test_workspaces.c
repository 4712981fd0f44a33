#include "supervisor/fleet/workspaces.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_node.h"
#include "tests/unit/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNKNOWN "task_aaaaaaaaaaaaaaaaaaaaaaaa"
#define ENDED "task_bbbbbbbbbbbbbbbbbbbbbbbb"
#define RUNS "task_cccccccccccccccccccccccc"
#define CLAIMED "task_dddddddddddddddddddddddd"

#define KEEP_MS 5000u

static char path[64];
static uint64_t real; /* a time at which everything here is old */
static unsigned status_calls;
static int dir = -1;
static struct workspaces w;

static int status(struct fleet_daemon *d, const char *local_id, struct fleet_local *ret, struct err *e)
{
	*ret = (struct fleet_local){ .ended = strcmp(local_id, ENDED) == 0, .ended_at = real - KEEP_MS + 1 };
	status_calls++;
	return strcmp(local_id, UNKNOWN) == 0 || strcmp(local_id, CLAIMED) == 0 ? 1 : 0;
}

static const struct fleet_daemon_ops ops = { .status = status };
static struct fleet_daemon fake = { &ops };
static struct fleet_run claimed = { .local_id = CLAIMED };
static struct fleet_node node = { .daemon = &fake, .runs = &claimed, .recovered = true };

static void setup(void)
{
	static const char *const names[] = { UNKNOWN, ENDED, RUNS, CLAIMED, "other" };

	snprintf(path, sizeof(path), "/tmp/spaces-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	real = clock_real_us() / 1000 + 1000 + KEEP_MS;
	status_calls = 0;
	for (size_t i = 0; i < countof(names); i++)
		ck_assert_int_eq(mkdirat(dir, names[i], 0700), 0);
}

static void teardown(void)
{
	unsigned budget = UINT_MAX;

	while (!workspace_remove(AT_FDCWD, path,
				 &budget)) /* directories that were moved up are in the parent of `path` */
		;
	workspaces_done(&w);
	fd_close(&dir);
}

static bool exists(const char *name) { return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0; }

static void begin(void)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(workspaces_init(&w, dir, "rt_1", KEEP_MS, &e), 0);
}

START_TEST(old_workspaces_are_removed)
{

	begin();
	workspaces_tick(&w, &node, 1, real - KEEP_MS);
	ck_assert_uint_eq(status_calls, 0); /* their directories have changed since */
	w.has_offset = false;               /* the clocks of these ticks differ */
	workspaces_tick(&w, &node, w.check_at, real);
	ck_assert(!exists(UNKNOWN) && exists(ENDED) && exists(RUNS) && exists(CLAIMED) && exists("other"));
	w.has_offset = false;
	workspaces_tick(&w, &node, w.check_at, real + 1);
	ck_assert(!exists(ENDED) && exists(RUNS) && exists(CLAIMED) && exists("other"));
}
END_TEST

/* Running tasks whose directories have not changed for days must neither hide other workspaces nor block the thread. */
START_TEST(status_calls_per_tick_are_bounded)
{
	uint64_t now = 1;
	char name[32];

	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "task_eeeeeeeeeeeeeeee%08u", i);
		ck_assert_int_eq(mkdirat(dir, name, 0700), 0);
	}
	begin();
	for (int ticks = 0; ticks < 12; ticks++, now = w.check_at) {
		status_calls = 0;
		workspaces_tick(&w, &node, now, real);
		ck_assert_uint_le(status_calls, 50);
		if (w.check_at > now + 1000)
			break;
	}
	ck_assert_uint_gt(w.check_at, now + 1000);
	ck_assert(!exists(UNKNOWN) && exists(name) && exists(ENDED));
}
END_TEST

START_TEST(setting_the_clock_does_not_age_workspaces)
{

	begin();
	workspaces_tick(&w, &node, 1, real - KEEP_MS);
	workspaces_tick(&w, &node, 200, real + 1000000);
	workspaces_tick(&w, &node, 199 + KEEP_MS, real + 1000000 + KEEP_MS);
	ck_assert(w.hold_until == 200 + KEEP_MS && exists(UNKNOWN) && exists(ENDED));
	workspaces_tick(&w, &node, 100000, real + 1100000);
	ck_assert(!exists(UNKNOWN) && !exists(ENDED));
}
END_TEST

START_TEST(only_directories_with_generated_names_are_removed)
{
	static const char *const others[] = { "deep_",   "deep_learning", "deep_1",   "deep_1_",
					      "deep__1", "deep_1_2_3",    "deep_1_2x" };

	for (size_t i = 0; i < countof(others); i++)
		ck_assert_int_eq(mkdirat(dir, others[i], 0700), 0);
	ck_assert_int_eq(mkdirat(dir, "deep_12_3", 0700), 0);
	begin();
	workspaces_tick(&w, &node, 1, real);
	for (size_t i = 0; i < countof(others); i++)
		ck_assert_msg(exists(others[i]), "%s", others[i]);
	ck_assert(!exists("deep_12_3"));
}
END_TEST

START_TEST(a_work_directory_of_another_daemon_is_rejected)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(workspaces_init(&w, dir, "rt_1", 0, &e), 0);
	ck_assert_int_eq(workspaces_init(&w, dir, "rt_2", 0, &e), -1);
	ck_assert_str_eq(e.field, "fleet.workDir");
	ck_assert_ptr_nonnull(strstr(e.message, "fleet.node"));
	ck_assert_int_eq(workspaces_init(&w, dir, "rt_1", 0, &e), 0);
	ck_assert_int_eq(unlinkat(dir, ".owner", 0), 0);
	ck_assert_int_eq(workspaces_init(&w, dir, "rt_2", 0, &e), 0);
}
END_TEST

START_TEST(links_are_not_followed)
{
	unsigned budget = UINT_MAX;

	ck_assert_int_eq(mkdirat(dir, "other/kept", 0500), 0);
	ck_assert_int_eq(symlinkat("../other", dir, ENDED "/link"), 0);
	ck_assert_int_eq(symlinkat("other", dir, "link"), 0);
	ck_assert(workspace_remove(dir, ENDED, &budget));
	ck_assert(workspace_remove(dir, "link", &budget));
	ck_assert(exists("other/kept") && !exists(ENDED) && !exists("link"));
	struct stat st;
	ck_assert_int_eq(fstatat(dir, "other/kept", &st, 0), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0500);
}
END_TEST

START_TEST(deep_trees_are_removed_in_several_ticks)
{
	fd_auto int at = openat(dir, UNKNOWN, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int ticks = 0;

	for (int i = 0; i < 3000; i++) {
		ck_assert_int_eq(mkdirat(at, "d", 0700), 0);
		int below = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ck_assert_int_ge(below, 0);
		ck_assert_int_eq(fchmod(at, 0), 0);
		close(at);
		at = below;
	}
	begin();
	for (bool more = true; more; ticks++) {
		ck_assert_int_lt(ticks, 1000);
		w.has_offset = false;
		workspaces_tick(&w, &node, w.check_at + 1, real);
		DIR *d = opendir(path);
		more = false;
		for (struct dirent *x; (x = readdir(d));)
			more |= strncmp(x->d_name, "deep_", 5) == 0 || strcmp(x->d_name, UNKNOWN) == 0;
		closedir(d);
	}
	ck_assert_int_gt(ticks, 1);
	ck_assert(exists(ENDED) && exists(RUNS));
}
END_TEST

/* As another user than the owner of the tree, which only root can arrange. */
START_TEST(failed_removals_are_retried_less_and_less_often)
{
	uint64_t now = 1, waited = 0;
	char name[64];

	SKIP_IF(geteuid() != 0, "requires root");
	begin();
	ck_assert_int_eq(fchmod(dir, 0777), 0);
	for (unsigned i = 0; i < 3000; i++) { /* more than a tick removes */
		snprintf(name, sizeof(name), UNKNOWN "/file%u", i);
		ck_assert_int_eq(mknodat(dir, name, S_IFREG | 0600, 0), 0);
	}
	ck_assert_int_eq(fchmodat(dir, UNKNOWN, 0755, 0), 0);
	real = clock_real_us() / 1000 + 1000 + KEEP_MS;
	ck_assert_int_eq(seteuid(65534), 0);
	for (int ticks = 0; ticks < 200; ticks++) {
		w.has_offset = false;
		workspaces_tick(&w, &node, now, real);
		waited = w.stuck[0].name[0] ? w.stuck[0].again_at - now : 0;
		now = w.check_at;
	}
	ck_assert(!exists(UNKNOWN) && strncmp(w.stuck[0].name, "deep_", 5) == 0 && !w.stuck[1].name[0]);
	ck_assert_uint_eq(w.stuck[0].delay_ms, 3600000);
	ck_assert_uint_gt(now, 100u * 60000u); /* not every second */
	ck_assert_uint_le(waited, 3600000);
	ck_assert_int_eq(seteuid(0), 0);
	now = w.stuck[0].again_at;
	for (int ticks = 0; ticks < 10 && exists(w.stuck[0].name); ticks++, now = w.check_at) {
		w.has_offset = false;
		workspaces_tick(&w, &node, now, real);
	}
	ck_assert(!w.stuck[0].name[0]); /* removed, and no longer recorded */
}
END_TEST

int main(void)
{
	const struct suite_case all = {
		"workspaces", setup, teardown, 120,
		SUITE_TESTS(old_workspaces_are_removed, status_calls_per_tick_are_bounded,
			    a_work_directory_of_another_daemon_is_rejected, setting_the_clock_does_not_age_workspaces,
			    only_directories_with_generated_names_are_removed, links_are_not_followed,
			    deep_trees_are_removed_in_several_ticks, failed_removals_are_retried_less_and_less_often)
	};

	return suite_run_cases("workspaces", &all, 1);
}
