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
static uint64_t real; /* when everything here is old */
static unsigned asked;
static int dir = -1;
static struct workspaces w;

static int status(struct fleet_daemon *d, const char *local_id, struct fleet_local *ret, struct err *e)
{
	*ret = (struct fleet_local){ .ended = strcmp(local_id, ENDED) == 0, .ended_at = real - KEEP_MS + 1 };
	asked++;
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
	asked = 0;
	for (size_t i = 0; i < countof(names); i++)
		ck_assert_int_eq(mkdirat(dir, names[i], 0700), 0);
}

static void teardown(void)
{
	unsigned budget = UINT_MAX;

	while (!workspace_remove(AT_FDCWD, path, &budget)) /* folders that were moved up are in the parent of `path` */
		;
	workspaces_done(&w);
	fd_close(&dir);
}

static bool is_there(const char *name) { return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0; }

static void begin(void)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(workspaces_init(&w, dir, "rt_1", KEEP_MS, &e), 0);
}

START_TEST(old_ones_are_removed)
{

	begin();
	workspaces_tick(&w, &node, 1, real - KEEP_MS);
	ck_assert_uint_eq(asked, 0); /* their folders have changed since */
	w.has_offset = false;        /* the clocks of these ticks do not agree */
	workspaces_tick(&w, &node, w.check_at, real);
	ck_assert(!is_there(UNKNOWN) && is_there(ENDED) && is_there(RUNS) && is_there(CLAIMED) && is_there("other"));
	w.has_offset = false;
	workspaces_tick(&w, &node, w.check_at, real + 1);
	ck_assert(!is_there(ENDED) && is_there(RUNS) && is_there(CLAIMED) && is_there("other"));
}
END_TEST

/* Running tasks whose folders have not changed for days must not hide the others, nor hold the thread. */
START_TEST(the_daemon_is_asked_a_few_times_in_a_tick)
{
	uint64_t now = 1;
	char name[32];

	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "task_eeeeeeeeeeeeeeee%08u", i);
		ck_assert_int_eq(mkdirat(dir, name, 0700), 0);
	}
	begin();
	for (int ticks = 0; ticks < 12; ticks++, now = w.check_at) {
		asked = 0;
		workspaces_tick(&w, &node, now, real);
		ck_assert_uint_le(asked, 50);
		if (w.check_at > now + 1000)
			break;
	}
	ck_assert_uint_gt(w.check_at, now + 1000);
	ck_assert(!is_there(UNKNOWN) && is_there(name) && is_there(ENDED));
}
END_TEST

START_TEST(a_clock_that_is_set_makes_nothing_old)
{

	begin();
	workspaces_tick(&w, &node, 1, real - KEEP_MS);
	workspaces_tick(&w, &node, 200, real + 1000000);
	workspaces_tick(&w, &node, 199 + KEEP_MS, real + 1000000 + KEEP_MS);
	ck_assert(w.hold_until == 200 + KEEP_MS && is_there(UNKNOWN) && is_there(ENDED));
	workspaces_tick(&w, &node, 100000, real + 1100000);
	ck_assert(!is_there(UNKNOWN) && !is_there(ENDED));
}
END_TEST

START_TEST(only_names_of_its_own_are_removed)
{
	static const char *const others[] = { "deep_",   "deep_learning", "deep_1",   "deep_1_",
					      "deep__1", "deep_1_2_3",    "deep_1_2x" };

	for (size_t i = 0; i < countof(others); i++)
		ck_assert_int_eq(mkdirat(dir, others[i], 0700), 0);
	ck_assert_int_eq(mkdirat(dir, "deep_12_3", 0700), 0);
	begin();
	workspaces_tick(&w, &node, 1, real);
	for (size_t i = 0; i < countof(others); i++)
		ck_assert_msg(is_there(others[i]), "%s", others[i]);
	ck_assert(!is_there("deep_12_3"));
}
END_TEST

START_TEST(another_daemon_is_refused)
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
	ck_assert(is_there("other/kept") && !is_there(ENDED) && !is_there("link"));
	struct stat st;
	ck_assert_int_eq(fstatat(dir, "other/kept", &st, 0), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0500);
}
END_TEST

START_TEST(deep_trees_are_removed_in_pieces)
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
	ck_assert(is_there(ENDED) && is_there(RUNS));
}
END_TEST

/* As another user than the owner of the tree, which only root can arrange. */
START_TEST(what_cannot_be_removed_is_tried_less_and_less_often)
{
	uint64_t now = 1, waited = 0;
	char name[64];

	if (geteuid() != 0)
		return;
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
	ck_assert(!is_there(UNKNOWN) && strncmp(w.stuck[0].name, "deep_", 5) == 0 && !w.stuck[1].name[0]);
	ck_assert_uint_eq(w.stuck[0].delay_ms, 3600000);
	ck_assert_uint_gt(now, 100u * 60000u); /* not each second */
	ck_assert_uint_le(waited, 3600000);
	ck_assert_int_eq(seteuid(0), 0);
	now = w.stuck[0].again_at;
	for (int ticks = 0; ticks < 10 && is_there(w.stuck[0].name); ticks++, now = w.check_at) {
		w.has_offset = false;
		workspaces_tick(&w, &node, now, real);
	}
	ck_assert(!w.stuck[0].name[0]); /* removed, and forgotten */
}
END_TEST

int main(void)
{
	const struct suite_case all = { "workspaces", setup, teardown, 120,
					SUITE_TESTS(old_ones_are_removed, the_daemon_is_asked_a_few_times_in_a_tick,
						    another_daemon_is_refused, a_clock_that_is_set_makes_nothing_old,
						    only_names_of_its_own_are_removed, links_are_not_followed,
						    deep_trees_are_removed_in_pieces,
						    what_cannot_be_removed_is_tried_less_and_less_often) };

	return suite_run_cases("workspaces", &all, 1);
}
