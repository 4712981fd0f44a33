#include "runtime/base/fd.h"
#include "sandbox/tree_files.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/bl-tree-files-XXXXXX";
static int leaf = -1;

static void make_leaf(void)
{
	memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
	ck_assert_ptr_nonnull(mkdtemp(folder));
	leaf = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(leaf, 0);
}

static void put(const char *name, const char *text)
{
	fd_auto int fd = openat(leaf, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_eq(fd_write_all(fd, text, strlen(text)), 0);
}

static void drop_leaf(const char *const *names)
{
	for (; *names; names++)
		ck_assert_int_eq(unlinkat(leaf, *names, 0), 0);
	fd_close(&leaf);
	ck_assert_int_eq(rmdir(folder), 0);
}

START_TEST(a_v2_leaf_is_read)
{
	struct tree_files f;
	struct tree_count c;
	make_leaf();
	put("cpu.stat",
	    "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods 7\nnr_throttled 3\nthrottled_usec 2000\n");
	put("memory.peak", "4096\n");
	put("memory.events", "low 0\nhigh 12\nmax 1\noom 2\noom_kill 6\noom_group_kill 0\n");
	put("pids.peak", "8\n");
	put("pids.events", "max 11\n");
	put("io.stat", "8:0 rbytes=100 wbytes=20 rios=1 wios=1 dbytes=5 dios=1\n254:0 rbytes=3 wbytes=4 rios=1 wios=1 "
		       "dbytes=0 dios=0\n");
	tree_files_init(&f);
	tree_files_open_v2(&f, leaf);
	tree_files_read(&f, &c);
	tree_files_close(&f);
	ck_assert_uint_eq(c.known, TREE_COUNT_CPU | TREE_COUNT_MEMORY | TREE_COUNT_PIDS | TREE_COUNT_IO |
					   TREE_COUNT_THROTTLE | TREE_COUNT_HIGH);
	ck_assert_uint_eq(c.user_us, 5);
	ck_assert_uint_eq(c.system_us, 4);
	ck_assert_uint_eq(c.throttled_periods, 3);
	ck_assert_uint_eq(c.throttled_us, 2000);
	ck_assert_uint_eq(c.memory_peak, 4096);
	ck_assert_uint_eq(c.high_events, 12);
	ck_assert_uint_eq(c.oom_kills, 6);
	ck_assert_uint_eq(c.pids_peak, 8);
	ck_assert_uint_eq(c.pids_refused, 11);
	ck_assert_uint_eq(c.io_read, 103);
	ck_assert_uint_eq(c.io_write, 24);
	drop_leaf((const char *const[]){ "cpu.stat", "memory.peak", "memory.events", "pids.peak", "pids.events",
					 "io.stat", NULL });
}
END_TEST

START_TEST(counts_of_v1_leaves_are_combined)
{
	struct tree_files f;
	struct tree_count c;
	make_leaf();
	put("cpu.stat", "nr_periods 7\nnr_throttled 3\nthrottled_time 5000000\n");
	put("memory.max_usage_in_bytes", "8192\n");
	put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
	put("blkio.throttle.io_service_bytes_recursive",
	    "8:0 Read 100\n8:0 Write 7\n8:0 Sync 107\n8:0 Total 107\nTotal 107\n");
	tree_files_init(&f);
	for (int i = 0; i < TREE_LIMITS; i++)
		if (i != TREE_LIMIT_PIDS)
			tree_files_open_v1(&f, (enum tree_limit)i, leaf);
	tree_files_read(&f, &c);
	tree_files_close(&f);
	ck_assert_uint_eq(c.known,
			  TREE_COUNT_MEMORY | TREE_COUNT_IO | TREE_COUNT_THROTTLE); /* cpu.stat of v1 has no times */
	ck_assert_uint_eq(c.throttled_us, 5000);
	ck_assert_uint_eq(c.memory_peak, 8192);
	ck_assert_uint_eq(c.oom_kills, 2);
	ck_assert_uint_eq(c.io_read, 100);
	ck_assert_uint_eq(c.io_write, 7);
	drop_leaf((const char *const[]){ "cpu.stat", "memory.max_usage_in_bytes", "memory.oom_control",
					 "blkio.throttle.io_service_bytes_recursive", NULL });
}
END_TEST

START_TEST(without_a_cgroup_no_counts_are_known)
{
	struct tree_files f;
	struct tree_count c;
	tree_files_init(&f);
	tree_files_read(&f, &c);
	ck_assert_uint_eq(c.known, 0);
	ck_assert_uint_eq(c.oom_kills, 0);
	tree_files_close(&f);
}
END_TEST

int main(void)
{
	return SUITE("tree_files", a_v2_leaf_is_read, counts_of_v1_leaves_are_combined,
		     without_a_cgroup_no_counts_are_known);
}
