#include "supervisor/guard/policy_watch.h"

#include "runtime/base/fd.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[64];
static int watch = -1;
static char file_path[PATH_MAX];
static const char *files[2];

static const char *at(const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, PATH_MAX, "%s/%s", root, name);
	return path;
}

static void put(const char *name, const char *text)
{
	fd_auto int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_all(fd, text, strlen(text)), 0);
}

static void move(const char *from, const char *to) { ck_assert_int_eq(rename(at(from), at(to)), 0); }

static void make(const char *name) { ck_assert_int_eq(mkdir(at(name), 0700), 0); }

/* Watches ROOT/a/b/policy.json. */
static void begin(void)
{
	snprintf(file_path, sizeof file_path, "%s", at("a/b/policy.json"));
	files[0] = NULL;
	files[1] = file_path;
	watch = policy_watch_open(files, 2);
	ck_assert_int_ge(watch, 0);
}

static bool touched(void) { return policy_watch_touched(&watch, files, 2); }

static void setup(void)
{
	snprintf(root, sizeof root, "/tmp/bailiff-unit-watch-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk) { return remove(path); }

static void teardown(void)
{
	fd_close(&watch);
	ck_assert_int_eq(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

START_TEST(written_linked_renamed_and_removed_files_are_reported)
{
	make("a");
	make("a/b");
	begin();
	ck_assert(!touched());
	put("a/b/other", "text");
	ck_assert(!touched());
	ck_assert_int_eq(link(at("a/b/other"), at("a/b/policy.json")), 0);
	ck_assert(touched());
	ck_assert_int_eq(unlink(at("a/b/policy.json")), 0);
	ck_assert(touched());
	ck_assert_int_eq(symlink("other", at("a/b/policy.json")), 0);
	ck_assert(touched());
	move("a/b/other", "a/b/policy.json");
	ck_assert(touched());
	put("a/b/policy.json", "more");
	ck_assert(touched());
	ck_assert(!touched());
}
END_TEST

START_TEST(a_file_that_is_being_written_is_reported_when_it_is_closed)
{
	make("a");
	make("a/b");
	begin();
	int fd = open(at("a/b/policy.json"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert(!touched());
	ck_assert_int_eq(fd_write_all(fd, "x", 1), 0);
	fd_close(&fd);
	ck_assert(touched());
}
END_TEST

START_TEST(replaced_directories_are_reported_and_watched)
{
	static const char *const replaced[] = { "a", "a/b" };
	make("a");
	make("a/b");
	begin();
	for (size_t i = 0; i < 2; i++) {
		char old[16];
		snprintf(old, sizeof old, "old%zu", i);
		move(replaced[i], old);
		ck_assert(touched());
		make(replaced[i]);
		ck_assert(touched());
		if (i == 0) {
			make("a/b");
			ck_assert(touched());
		}
		put("a/b/policy.json", "text");
		ck_assert(touched());
		ck_assert(!touched());
	}
	/* The directories that were moved away no longer count. */
	put("old0/b/policy.json", "text");
	put("old1/policy.json", "text");
	ck_assert(!touched());
}
END_TEST

START_TEST(directories_that_are_missing_at_first_are_reported_and_watched)
{
	begin();
	make("new");
	make("new/b");
	put("new/b/policy.json", "text");
	ck_assert(!touched());
	move("new", "a");
	ck_assert(touched());
	put("a/b/policy.json", "more");
	ck_assert(touched());
}
END_TEST

/* In a user namespace with a limit of its own, so that other programs of the user are not disturbed. */
static bool limit_instances(void)
{
	fd_auto int fd = unshare(CLONE_NEWUSER) == 0
				 ? open("/proc/sys/user/max_inotify_instances", O_WRONLY | O_CLOEXEC)
				 : -1;
	return fd >= 0 && fd_write_all(fd, "4", 1) == 0;
}

/* Takes every instance that is left, and each one that becomes free. */
static pid_t take_instances(void)
{
	int ready[2];
	char c;
	ck_assert_int_eq(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (bool first = true;; first = false) {
			while (inotify_init1(IN_CLOEXEC) >= 0)
				;
			if (first)
				(void)!write(ready[1], "", 1);
		}
	}
	(void)!read(ready[0], &c, 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* Returns how many changes were not reported. */
static int replace_often(void)
{
	int lost = 0;
	for (int i = 0; i < 100; i++) {
		char old[16];
		snprintf(old, sizeof old, "a/old%d", i);
		move("a/b", old);
		make("a/b");
		touched();
		put("a/b/policy.json", "text");
		lost += watch < 0 || !touched();
	}
	return lost;
}

START_TEST(replaced_directories_are_watched_when_the_user_has_no_instance_left)
{
	int status;
	make("a");
	make("a/b");
	pid_t child = fork();
	if (child == 0) {
		if (!limit_instances())
			_exit(77);
		begin();
		pid_t taker = take_instances();
		int lost = replace_often();
		kill(taker, SIGKILL);
		_exit(lost > 0);
	}
	waitpid(child, &status, 0);
	SKIP_IF(WIFEXITED(status) && WEXITSTATUS(status) == 77, "user namespaces are not available");
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "policy watch", setup, teardown, 60,
		  SUITE_TESTS(written_linked_renamed_and_removed_files_are_reported,
			      a_file_that_is_being_written_is_reported_when_it_is_closed,
			      replaced_directories_are_reported_and_watched,
			      directories_that_are_missing_at_first_are_reported_and_watched,
			      replaced_directories_are_watched_when_the_user_has_no_instance_left) },
	};
	return suite_run_cases("policy_watch", cases, 1);
}
