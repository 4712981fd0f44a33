#include "supervisor/fleet/fleet_input.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/bundle.h"
#include "supervisor/fleet/fleet_port.h"
#include "supervisor/fleet/workspaces.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUBMITTER "UALICE"

/* A bus with one archive that can lose or change chunks. */
static struct {
	char sha256[HASH_SHA256_TEXT];
	struct buf bytes;
	uint64_t damaged, missing;
} stored;

static int get_stored(struct fleet_port *p, const char *subject, struct buf *ret, struct err *e)
{
	uint64_t n = strtoull(strrchr(subject, '.') + 1, NULL, 10);
	size_t at = n * FLEET_CHUNK, left = at < stored.bytes.len ? stored.bytes.len - at : 0;

	if (!strstr(subject, FLEET_BLOB_SUBJECT SUBMITTER ".") || !strstr(subject, stored.sha256) || !left ||
	    n == stored.missing)
		return 1;
	buf_append(ret, stored.bytes.data + at, left < FLEET_CHUNK ? left : FLEET_CHUNK);
	if (n == stored.damaged)
		ret->data[600] ^= 1;
	return 0;
}

static const struct fleet_port_ops ops = { .get_stored = get_stored };
static struct fleet_port port = { &ops };
static char path[64];
static int dir = -1;

static void remove_tree(int at, const char *name)
{
	unsigned budget = UINT_MAX;

	ck_assert(workspace_remove(at, name, &budget));
}

static void setup(void)
{
	snprintf(path, sizeof(path), "/tmp/input-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	stored.damaged = stored.missing = UINT64_MAX;
}

static void teardown(void)
{
	remove_tree(AT_FDCWD, path);
	ck_assert_int_lt(access(path, F_OK), 0);
	fd_close(&dir);
	buf_done(&stored.bytes);
}

/* A task whose workspace is a directory with one file of this size. */
static void store_workspace(size_t size, struct fleet_spec *ret)
{
	char *names[] = { (char *)"file" };
	struct bundle b;
	struct err e = ERR_INIT;
	fd_auto int file = openat(dir, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600),
		    archive = memfd_create("a", MFD_CLOEXEC);

	ck_assert_int_eq(ftruncate(file, (off_t)size), 0);
	ck_assert_int_eq(bundle_pack(dir, names, 1, archive, &b, &e), 0);
	ck_assert_int_eq(fd_pread_all(archive, buf_reserve(&stored.bytes, b.bytes), b.bytes, 0), (ssize_t)b.bytes);
	buf_extend(&stored.bytes, b.bytes);
	memcpy(stored.sha256, b.sha256, sizeof(stored.sha256));
	*ret = (struct fleet_spec){ .bundle = stored.sha256, .bundle_bytes = b.bytes };
}

/* Prepares a workspace step by step; returns the number of steps, or −1. */
static int prepare(const struct fleet_spec *spec, struct err *e)
{
	const struct fleet_task t = { .spec = *spec, .spec_text.key = SUBMITTER };
	struct fleet_input *in = NULL;
	int steps = 1, r;

	if (fleet_input_new(&port, &t, dir, "task", &in, e) < 0)
		return -1;
	while ((r = fleet_input_step(in, e)) == 1)
		steps++;
	fleet_input_free(in);
	return r < 0 ? -1 : steps;
}

START_TEST(test_a_workspace_is_transferred_in_chunks)
{
	struct fleet_spec spec;
	struct err e = ERR_INIT;
	struct stat st;

	store_workspace(2 * FLEET_CHUNK + 1000, &spec);
	for (int i = 0; i < 2; i++) /* the second time it replaces an existing one */
		ck_assert_int_eq(prepare(&spec, &e), 4);
	ck_assert_int_eq(fstatat(dir, "task/file", &st, 0), 0);
	ck_assert_int_eq(st.st_size, 2 * FLEET_CHUNK + 1000);
	remove_tree(dir, "task");
	ck_assert_int_lt(faccessat(dir, "task", F_OK, 0), 0);
}
END_TEST

START_TEST(test_damaged_and_missing_chunks_are_detected)
{
	struct fleet_spec spec;
	struct err e = ERR_INIT;

	store_workspace(2 * FLEET_CHUNK, &spec);
	stored.damaged = 1;
	ck_assert_int_eq(prepare(&spec, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_int_lt(faccessat(dir, "task/file", F_OK, 0), 0);
	stored.damaged = UINT64_MAX, stored.missing = 2;
	ck_assert_int_eq(prepare(&spec, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	spec.bundle_bytes = BUNDLE_BYTES_MAX + 1;
	ck_assert_int_eq(prepare(&spec, &e), -1);
	ck_assert_str_eq(e.field, "bundleBytes");
}
END_TEST

START_TEST(test_a_workspace_without_a_bundle_is_empty)
{
	const struct fleet_spec spec = { 0 };
	struct err e = ERR_INIT;

	ck_assert_int_eq(prepare(&spec, &e), 1);
	ck_assert_int_eq(unlinkat(dir, "task", AT_REMOVEDIR), 0);
}
END_TEST

START_TEST(test_removal_does_not_follow_links)
{
	fd_auto int file = openat(dir, "safe", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(mkdirat(dir, "task", 0700), 0);
	ck_assert_int_eq(mkdirat(dir, "task/closed", 0700), 0);
	ck_assert_int_eq(mkdirat(dir, "task/closed/in", 0700), 0);
	ck_assert_int_eq(symlinkat("..", dir, "task/up"), 0);
	ck_assert_int_eq(fchmodat(dir, "task/closed", 0, 0), 0);
	remove_tree(dir, "task");
	ck_assert_int_lt(faccessat(dir, "task", F_OK, 0), 0);
	ck_assert_int_eq(faccessat(dir, "safe", F_OK, 0), 0);
	ck_assert_int_eq(symlinkat(".", dir, "task"), 0);
	remove_tree(dir, "task");
	ck_assert_int_eq(faccessat(dir, "safe", F_OK, 0), 0);
}
END_TEST

START_TEST(test_the_command_fetches_from_git)
{
	json_auto_t *command = json_pack("[ss]", "make", "test");
	struct fleet_spec spec = { .command = command };
	buf_auto struct buf text = BUF_INIT;

	fleet_input_command(&spec, &text);
	ck_assert_str_eq(text.data, "[\"make\",\"test\"]");
	buf_reset(&text);
	spec.git_url = "https://example.org/x.git", spec.git_ref = "main";
	fleet_input_command(&spec, &text);
	ck_assert_ptr_nonnull(strstr(text.data, "[\"sh\",\"-c\",\"git init"));
	ck_assert_ptr_nonnull(strstr(text.data, ",\"https://example.org/x.git\",\"main\",\"make\",\"test\"]"));
}
END_TEST

int main(void)
{
	const struct suite_case all = {
		"all", setup, teardown, 30,
		SUITE_TESTS(test_a_workspace_is_transferred_in_chunks, test_damaged_and_missing_chunks_are_detected,
			    test_a_workspace_without_a_bundle_is_empty, test_removal_does_not_follow_links,
			    test_the_command_fetches_from_git)
	};

	return suite_run_cases("fleet_input", &all, 1);
}
