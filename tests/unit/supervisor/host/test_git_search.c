/*
 * Searches for the repository of a folder. The test plays the kernel's cache, the helper, the engine and the clocks;
 * the folder whose stamps are compared is real.
 */

#include "supervisor/host/git_search.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/host/peer_files_link.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define UID 1000u
#define PEER_FD 99 /* of a client; never used here */
#define HOME "/home/ann"
#define FOLDER "/home/ann/proj/src"
#define ROOT "/home/ann/proj"
#define RUNNING_MAX 16 /* as in git_search.c */
#define SECOND_NS 1000000000ull

struct peer_files_link {
	bool open;
	char request[2 * PATH_MAX];
	const struct peer_files_link_events *on;
	void *ctx;
};

static struct git_searches searches;
static struct peer_files_link links[64];
static unsigned nlinks, continued; /* searches by helpers; folders whose requests the engine was told to continue */
static const char *cached_root;    /* what the kernel's cache tells; NULL = it does not */
static int cached_git;             /* of workspace_git_cached */
static uint64_t now_ns, now_us;
static char folder_of_stamps[64], last_continued[PATH_MAX], root[PATH_MAX];
static struct err e;

/* ---- what surrounds the module ---- */

uint64_t __wrap_clock_boot_ns(void);
uint64_t __wrap_clock_real_us(void);
int __wrap_workspace_search(const char *folder, const char *home, bool cached, char ret[PATH_MAX]);
int __wrap_workspace_git_cached(int at, const char *name);
void __wrap_engine_on_policy(struct engine *engine, uint32_t uid, const char *folder);
struct peer_files_link *__wrap_peer_files_link_new(struct event_base *base, struct spawn_link *spawner,
						   enum peer_files_op what, const void *request, size_t len,
						   int peer_fd, const struct peer_files_link_events *on, void *ctx);
void __wrap_peer_files_link_free(struct peer_files_link *l);

uint64_t __wrap_clock_boot_ns(void) { return now_ns; }

uint64_t __wrap_clock_real_us(void) { return now_us; }

int __wrap_workspace_search(const char *folder, const char *home, bool cached, char ret[PATH_MAX])
{
	ck_assert(cached);
	if (!cached_root)
		return 1;
	snprintf(ret, PATH_MAX, "%s", cached_root);
	return 0;
}

int __wrap_workspace_git_cached(int at, const char *name)
{
	ck_assert_str_eq(name, ".git");
	return cached_git;
}

void __wrap_engine_on_policy(struct engine *engine, uint32_t uid, const char *folder)
{
	ck_assert_uint_eq(uid, UID);
	snprintf(last_continued, sizeof last_continued, "%s", folder);
	continued++;
}

struct peer_files_link *__wrap_peer_files_link_new(struct event_base *base, struct spawn_link *spawner,
						   enum peer_files_op what, const void *request, size_t len,
						   int peer_fd, const struct peer_files_link_events *on, void *ctx)
{
	ck_assert_uint_lt(nlinks, sizeof links / sizeof *links);
	struct peer_files_link *l = &links[nlinks++];

	ck_assert_int_eq(what, PEER_FILES_FIND);
	ck_assert_int_eq(peer_fd, PEER_FD);
	ck_assert_uint_le(len, sizeof l->request);
	memcpy(l->request, request, len);
	l->open = true;
	l->on = on;
	l->ctx = ctx;
	return l;
}

void __wrap_peer_files_link_free(struct peer_files_link *l)
{
	if (l)
		l->open = false;
}

static void set_up(void)
{
	memset(links, 0, sizeof links);
	nlinks = continued = 0;
	cached_root = NULL;
	cached_git = 1;
	now_ns = 100 * SECOND_NS;
	snprintf(folder_of_stamps, sizeof folder_of_stamps, "/tmp/bailiff-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder_of_stamps));
	now_us = UINT64_MAX / 2; /* long after the folder was changed */
	git_searches_init(&searches, NULL, NULL, NULL);
}

static void tear_down(void)
{
	git_searches_done(&searches);
	for (unsigned i = 0; i < nlinks; i++)
		ck_assert(!links[i].open);
	ck_assert_int_eq(rmdir(folder_of_stamps), 0);
}

/* ---- requests and replies ---- */

static int ask_for(uint32_t uid, int peer_fd, const char *folder, uint64_t since_ns)
{
	const struct git_key at = {
		.uid = uid, .peer_fd = peer_fd, .folder = folder, .home = HOME, .since_ns = since_ns
	};

	e = ERR_INIT;
	root[0] = '\0';
	return git_searches_of(&searches, &at, root, &e);
}

/* A request that arrives; one that arrived earlier and has waited. */
static int ask_first(void) { return ask_for(UID, PEER_FD, FOLDER, now_ns); }
static int ask_again(uint64_t since_ns) { return ask_for(UID, PEER_FD, FOLDER, since_ns); }

static void end_link(struct peer_files_link *l, const struct err *failure)
{
	l->open = false;
	l->on->over(l->ctx, failure);
}

/* The helper searched one directory, the real one, and found this root. */
static void reply(struct peer_files_link *l, const char *found)
{
	struct peer_files_reply searched = { .index = 0, .nwatch = 1 }, last = { .index = PEER_FILES_GIT, .git = 1 };
	int fd = open(folder_of_stamps, O_PATH | O_DIRECTORY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(file_stamp_get(fd, &searched.watch[0]), 0);
	l->on->found(l->ctx, &searched, &fd, 1);
	fd_close(&fd);
	snprintf(last.path, sizeof last.path, "%s", found);
	l->on->found(l->ctx, &last, NULL, 0);
	end_link(l, NULL);
}

/* A search that has ended with ROOT. */
static void search(void)
{
	const uint64_t since_ns = now_ns;

	ck_assert_int_eq(ask_first(), 1);
	reply(&links[nlinks - 1], ROOT);
	ck_assert_int_eq(ask_again(since_ns), 0);
	ck_assert_str_eq(root, ROOT);
}

static void advance(uint64_t ns) { now_ns += ns; }

/* ---- tests ---- */

START_TEST(what_the_kernel_has_cached_needs_no_helper)
{
	cached_root = ROOT;
	ck_assert_int_eq(ask_first(), 0);
	ck_assert_str_eq(root, ROOT);
	ck_assert_uint_eq(nlinks, 0);
}
END_TEST

START_TEST(an_answer_holds_for_a_moment_although_the_cache_no_longer_has_it)
{
	cached_root = ROOT;
	ck_assert_int_eq(ask_first(), 0);
	cached_root = NULL;
	ck_assert_int_eq(ask_again(0), 0);
	ck_assert_str_eq(root, ROOT);
	ck_assert_int_eq(ask_for(UID + 1, PEER_FD, FOLDER, 0), 1); /* but not for another user */
	advance(SECOND_NS);
	ck_assert_int_eq(ask_again(0), 1);
}
END_TEST

START_TEST(requests_wait_for_one_search_of_their_folder)
{
	const uint64_t since_ns = now_ns;

	ck_assert_int_eq(ask_first(), 1);
	ck_assert_int_eq(ask_first(), 1);
	ck_assert_uint_eq(nlinks, 1);
	ck_assert_str_eq(links[0].request, FOLDER);
	ck_assert_str_eq(links[0].request + sizeof FOLDER, HOME);
	advance(1);
	reply(&links[0], ROOT);
	ck_assert_uint_eq(continued, 1);
	ck_assert_str_eq(last_continued, FOLDER);
	ck_assert_int_eq(ask_again(since_ns), 0);
	ck_assert_str_eq(root, ROOT);
	ck_assert_uint_eq(nlinks, 1);
}
END_TEST

START_TEST(nothing_found_is_an_answer)
{
	const uint64_t since_ns = now_ns;

	ck_assert_int_eq(ask_first(), 1);
	reply(&links[0], "");
	ck_assert_int_eq(ask_again(since_ns), 0);
	ck_assert_str_eq(root, "");
}
END_TEST

START_TEST(a_result_holds_while_its_folders_are_unchanged)
{
	search();
	cached_git = -1;
	advance(2 * SECOND_NS);
	ck_assert_int_eq(ask_first(), 0);
	ck_assert_str_eq(root, ROOT);
	ck_assert_uint_eq(nlinks, 1);
}
END_TEST

START_TEST(a_name_that_came_or_went_matters_only_if_git_cannot_be_checked)
{
	char other[sizeof folder_of_stamps + 8];

	search();
	snprintf(other, sizeof other, "%s/other", folder_of_stamps);
	ck_assert_int_eq(mkdir(other, 0700), 0);
	ck_assert_int_eq(rmdir(other), 0);
	advance(2 * SECOND_NS);
	ck_assert_int_eq(ask_first(), 0);
	cached_git = -1;
	ck_assert_int_eq(ask_first(), 1);
	ck_assert_uint_eq(nlinks, 2);
}
END_TEST

START_TEST(a_repository_that_is_gone_is_searched_for_again)
{
	char other[sizeof folder_of_stamps + 8];

	search();
	snprintf(other, sizeof other, "%s/other", folder_of_stamps);
	ck_assert_int_eq(mkdir(other, 0700), 0);
	ck_assert_int_eq(rmdir(other), 0);
	cached_git = 0;
	advance(2 * SECOND_NS);
	ck_assert_int_eq(ask_first(), 1);
}
END_TEST

/* A move changes only ctime, as a change of the mode does. */
START_TEST(a_folder_that_may_have_been_moved_is_searched_again)
{
	search();
	ck_assert_int_eq(chmod(folder_of_stamps, 0750), 0);
	advance(2 * SECOND_NS);
	ck_assert_int_eq(ask_first(), 1);
}
END_TEST

START_TEST(a_stamp_of_just_before_the_search_does_not_prove_that_nothing_changed)
{
	struct file_stamp stamp = file_stamp_of_path(folder_of_stamps);

	now_us = (uint64_t)stamp.changed_s * 1000000 + stamp.changed_ns / 1000 + 1000;
	search();
	advance(2 * SECOND_NS);
	ck_assert_int_eq(ask_first(), 0); /* .git itself was checked */
	cached_git = -1;
	ck_assert_int_eq(ask_first(), 1);
}
END_TEST

START_TEST(a_result_is_searched_for_again_in_the_background)
{
	search();
	advance(4 * SECOND_NS);
	ck_assert_int_eq(ask_first(), 0);
	ck_assert_uint_eq(nlinks, 2);
	ck_assert_int_eq(ask_first(), 0); /* meanwhile, too */
	ck_assert_uint_eq(nlinks, 2);
	reply(&links[1], "/home/ann/proj/src");
	ck_assert_int_eq(ask_first(), 0);
	ck_assert_str_eq(root, "/home/ann/proj/src");
}
END_TEST

START_TEST(a_failed_search_fails_its_requests_and_is_not_repeated_at_once)
{
	const uint64_t since_ns = now_ns;
	struct err failure = ERR_INIT;

	ck_assert_int_eq(ask_first(), 1);
	err_set(&failure, ERR_UNAVAILABLE, "no answer in time");
	end_link(&links[0], &failure);
	ck_assert_uint_eq(continued, 1);
	ck_assert_int_eq(ask_again(since_ns), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(e.message, "no answer in time"));
	advance(SECOND_NS / 10);
	ck_assert_int_eq(ask_first(), -1);
	ck_assert_uint_eq(nlinks, 1);
	advance(SECOND_NS / 5);
	ck_assert_int_eq(ask_again(since_ns), -1); /* it waited for the one that failed */
	ck_assert_int_eq(ask_first(), 1);
	ck_assert_uint_eq(nlinks, 2);
}
END_TEST

/* The helper runs as the user, who could let it answer anything. */
START_TEST(a_reply_with_a_root_that_no_search_can_find_is_a_failure)
{
	static const char *const bad[] = { "/etc", "/home/ann/proj/other", HOME, "/home/ann/proj/", "relative" };

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		ck_assert_int_eq(ask_first(), 1);
		reply(&links[nlinks - 1], bad[i]);
		ck_assert_msg(ask_first() == -1, "%s", bad[i]);
		ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
		advance(SECOND_NS);
	}
}
END_TEST

START_TEST(a_result_without_all_stamps_holds_only_for_those_that_waited)
{
	const uint64_t since_ns = now_ns;
	struct peer_files_reply last = { .index = PEER_FILES_GIT, .git = PEER_FILES_SEARCHED_MAX + 1, .path = ROOT };

	ck_assert_int_eq(ask_first(), 1);
	links[0].on->found(links[0].ctx, &last, NULL, 0);
	end_link(&links[0], NULL);
	ck_assert_int_eq(ask_again(since_ns), 0);
	ck_assert_str_eq(root, ROOT);
	advance(1);
	ck_assert_int_eq(ask_first(), 1);
}
END_TEST

START_TEST(without_a_client_of_the_user_a_search_is_impossible)
{
	ck_assert_int_eq(ask_for(UID, -1, FOLDER, now_ns), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(e.message, "no client of uid 1000"));
}
END_TEST

START_TEST(searches_of_a_user_beyond_the_limit_wait_for_the_others)
{
	char folder[64];

	for (int i = 0; i <= RUNNING_MAX; i++) {
		snprintf(folder, sizeof folder, "/home/ann/p%d", i);
		ck_assert_int_eq(ask_for(UID, PEER_FD, folder, now_ns), 1);
	}
	ck_assert_uint_eq(nlinks, RUNNING_MAX);
	ck_assert_int_eq(ask_for(UID + 1, PEER_FD, FOLDER, now_ns), 1); /* another user's limit is another one */
	ck_assert_uint_eq(nlinks, RUNNING_MAX + 1);
	reply(&links[0], "/home/ann/p0");
	ck_assert_uint_eq(continued, 2);
	ck_assert_str_eq(last_continued, folder);
	ck_assert_int_eq(ask_for(UID, PEER_FD, folder, now_ns), 1);
	ck_assert_uint_eq(nlinks, RUNNING_MAX + 2);
}
END_TEST

int main(void)
{
	const struct suite_case all = {
		"git_search",
		set_up,
		tear_down,
		60,
		SUITE_TESTS(what_the_kernel_has_cached_needs_no_helper,
			    an_answer_holds_for_a_moment_although_the_cache_no_longer_has_it,
			    requests_wait_for_one_search_of_their_folder, nothing_found_is_an_answer,
			    a_result_holds_while_its_folders_are_unchanged,
			    a_name_that_came_or_went_matters_only_if_git_cannot_be_checked,
			    a_repository_that_is_gone_is_searched_for_again,
			    a_folder_that_may_have_been_moved_is_searched_again,
			    a_stamp_of_just_before_the_search_does_not_prove_that_nothing_changed,
			    a_result_is_searched_for_again_in_the_background,
			    a_failed_search_fails_its_requests_and_is_not_repeated_at_once,
			    a_reply_with_a_root_that_no_search_can_find_is_a_failure,
			    a_result_without_all_stamps_holds_only_for_those_that_waited,
			    without_a_client_of_the_user_a_search_is_impossible,
			    searches_of_a_user_beyond_the_limit_wait_for_the_others),
	};
	return suite_run_cases("git_search", &all, 1);
}
