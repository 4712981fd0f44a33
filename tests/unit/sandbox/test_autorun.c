/* What a search for autorun files takes from the search before, and what it must find all the same. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/autorun_private.h"
#include "sandbox/file_stamp.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FOLDERS 8 /* d0/in … d7/in */

struct rig {
	char root[32];
	struct buf plan;
	struct autorun *a;
	bool covered; /* the file system's ctime is reliable */
};

static const char *in_root(const struct rig *r, const char *name)
{
	static char path[2][PATH_MAX];
	static unsigned turn;
	char *ret = path[turn++ % 2];
	snprintf(ret, PATH_MAX, "%s/%s", r->root, name);
	return ret;
}

static void put(const struct rig *r, const char *name, const char *text)
{
	FILE *f = fopen(in_root(r, name), "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static const struct plan_head *plan_of(const struct rig *r)
{
	return (const struct plan_head *)(const void *)r->plan.data;
}

/* One command that does nothing. True: a change was reported. */
static bool run_nothing(struct rig *r)
{
	autorun_reset(r->a, plan_of(r));
	autorun_before(r->a);
	return autorun_after(r->a);
}

static void rig_open(struct rig *r)
{
	static const char *const argv[] = { "true" };
	struct err e = ERR_INIT;
	*r = (struct rig){ .root = "/tmp/bl-unit-XXXXXX", .plan = BUF_INIT };
	ck_assert_ptr_nonnull(mkdtemp(r->root));
	for (int i = 0; i < FOLDERS; i++) {
		char name[16];
		snprintf(name, sizeof name, "d%d", i);
		ck_assert_int_eq(mkdir(in_root(r, name), 0755), 0);
		snprintf(name, sizeof name, "d%d/in", i);
		ck_assert_int_eq(mkdir(in_root(r, name), 0755), 0);
	}
	const struct plan_mount_spec mount = { .kind = PLAN_MOUNT_WRITE, .path = r->root };
	const struct plan_spec spec = {
		.cwd = r->root, .argv = argv, .argc = 1, .flags = PLAN_PRIVATE_ROOT, .mounts = &mount, .nmounts = 1
	};
	ck_assert_msg(plan_build(&spec, &r->plan, &e) == 0, "%s", e.message);
	r->a = autorun_new(plan_of(r));
	ck_assert_ptr_nonnull(r->a);
	fd_auto int fd = open(r->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r->covered = file_stamp_covers_names(fd);
	usleep(2100000); /* the clock is in a later second than every ctime */
	ck_assert(!run_nothing(r));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) { return remove(path); }

static void rig_done(struct rig *r)
{
	ck_assert_int_eq(nftw(r->root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	munmap(r->a, sizeof *r->a);
	buf_done(&r->plan);
}

static uint32_t count_plain(const struct rig *r)
{
	const struct autorun_list *l = r->a->search.now;
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->count; i++)
		n += l->folder[i].plain && l->folder[i].before;
	return n;
}

/* Starts a command in a tree that the searches of an earlier one have remembered. */
static void begin(struct rig *r)
{
	autorun_reset(r->a, plan_of(r));
	autorun_before(r->a);
}

/* Ends it: the path, below the root, is the only change. */
static void end_with(struct rig *r, const char *changed)
{
	ck_assert(autorun_after(r->a));
	ck_assert_uint_eq(r->a->partial, 0);
	ck_assert_uint_eq(r->a->changes, 1);
	ck_assert_str_eq(r->a->change[0].after.path, in_root(r, changed));
}

START_TEST(unchanged_folders_are_not_read_again)
{
	struct rig r;
	rig_open(&r);
	begin(&r);
	ck_assert_uint_eq(r.a->search.now->count, 1 + 2 * FOLDERS);
	if (r.covered)
		ck_assert_uint_eq(count_plain(&r), 1 + 2 * FOLDERS);
	ck_assert_uint_eq(r.a->search.entries, 2 * FOLDERS);
	ck_assert(!autorun_after(r.a));
	put(&r, "d3/in/file", "");
	ck_assert(!run_nothing(&r));
	ck_assert_uint_eq(r.a->search.now->count, 1 + 2 * FOLDERS);
	ck_assert_uint_eq(r.a->search.entries, 2 * FOLDERS + 1);
	if (r.covered) /* all but the one that has just changed */
		ck_assert_uint_eq(count_plain(&r), 2 * FOLDERS);
	rig_done(&r);
}
END_TEST

START_TEST(every_change_is_found)
{
	struct rig r;
	rig_open(&r);
	begin(&r);
	put(&r, "d0/in/.envrc", "");
	end_with(&r, "d0/in/.envrc");

	begin(&r); /* a new folder in one that was remembered */
	ck_assert_int_eq(mkdir(in_root(&r, "d1/in/new"), 0755), 0);
	put(&r, "d1/in/new/.mcp.json", "{}");
	end_with(&r, "d1/in/new/.mcp.json");

	begin(&r); /* a folder that is replaced by another one of the same name */
	ck_assert_int_eq(mkdir(in_root(&r, "other"), 0755), 0);
	put(&r, "other/.exrc", "");
	ck_assert_int_eq(rename(in_root(&r, "d2/in"), in_root(&r, "away")), 0);
	ck_assert_int_eq(rename(in_root(&r, "other"), in_root(&r, "d2/in")), 0);
	end_with(&r, "d2/in/.exrc");

	begin(&r); /* one that becomes a git directory, file by file */
	ck_assert_int_eq(mkdir(in_root(&r, "d4/in/objects"), 0755), 0);
	ck_assert_int_eq(mkdir(in_root(&r, "d4/in/refs"), 0755), 0);
	put(&r, "d4/in/HEAD", "ref: refs/heads/main\n");
	put(&r, "d4/in/config", "[core]\n");
	end_with(&r, "d4/in/config");

	begin(&r); /* a link that is an autorun file */
	ck_assert_int_eq(symlink("nowhere", in_root(&r, "d5/in/.git")), 0);
	end_with(&r, "d5/in/.git");
	rig_done(&r);
}
END_TEST

START_TEST(known_files_and_what_they_lead_to_are_examined_again)
{
	struct rig r;
	rig_open(&r);
	ck_assert_int_eq(mkdir(in_root(&r, "d0/.git"), 0755), 0);
	put(&r, "d0/.git/config", "[core]\n\thooksPath = ../d6/in\n[include]\n\tpath = ../../d7/in/more\n");
	put(&r, "d6/in/pre-commit", "one");
	put(&r, "d7/in/more", "[core]\n");
	ck_assert_int_eq(symlink("../plain", in_root(&r, "d1/.envrc")), 0);
	put(&r, "plain", "one");
	usleep(2100000);
	ck_assert(!run_nothing(&r));
	ck_assert(!run_nothing(&r));

	/* The folders around them keep their ctime. */
	begin(&r);
	put(&r, "d6/in/pre-commit", "two");
	end_with(&r, "d6/in/pre-commit");
	begin(&r);
	put(&r, "d7/in/more", "[alias]\n");
	end_with(&r, "d7/in/more");
	begin(&r);
	put(&r, "plain", "two");
	end_with(&r, "plain");
	rig_done(&r);
}
END_TEST

START_TEST(folder_that_becomes_unreadable_is_not_considered_the_same)
{
	struct rig r;
	if (geteuid() == 0)
		return; /* root reads all of them */
	rig_open(&r);
	begin(&r);
	ck_assert_int_eq(chmod(in_root(&r, "d0/in"), 0), 0);
	ck_assert(autorun_after(r.a));
	ck_assert_uint_eq(r.a->partial, AUTORUN_PARTIAL_SHUT);
	ck_assert_int_eq(chmod(in_root(&r, "d0/in"), 0755), 0);
	rig_done(&r);
}
END_TEST

int main(void)
{
	return SUITE("autorun", unchanged_folders_are_not_read_again, every_change_is_found,
		     known_files_and_what_they_lead_to_are_examined_again,
		     folder_that_becomes_unreadable_is_not_considered_the_same);
}
