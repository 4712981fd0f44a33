#include "supervisor/fleet/bundle.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char from_path[64], to_path[64];
static int from = -1, to = -1;

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at) { return remove(path); }

static void setup(void)
{
	snprintf(from_path, sizeof(from_path), "/tmp/bundle-from-XXXXXX");
	snprintf(to_path, sizeof(to_path), "/tmp/bundle-to-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(from_path));
	ck_assert_ptr_nonnull(mkdtemp(to_path));
	from = open(from_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	to = open(to_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void teardown(void)
{
	fd_close(&from), fd_close(&to);
	nftw(from_path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	nftw(to_path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void put_file(int dir, const char *name, const char *text, mode_t mode)
{
	fd_auto int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_all(fd, text, strlen(text)), 0);
	ck_assert_int_eq(fchmod(fd, mode), 0);
}

static void expect_file(int dir, const char *name, const char *text, mode_t mode)
{
	fd_auto int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char found[256] = "";
	struct stat st;

	ck_assert_msg(fd >= 0, "%s is missing", name);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_ge(fd_read_all(fd, found, sizeof(found) - 1), 0);
	ck_assert_str_eq(found, text);
	ck_assert_int_eq(st.st_mode & 07777, mode);
}

/* Writes an archive of the directory to a new memory file. */
static int pack(struct bundle *ret)
{
	struct bundle_names names = { 0 };
	struct err e = ERR_INIT;
	int file = memfd_create("bundle", MFD_CLOEXEC);

	ck_assert_int_eq(bundle_names_walk(from, &names, &e), 0);
	ck_assert_msg(bundle_pack(from, names.names, names.n, file, ret, &e) == 0, "%s", e.message);
	bundle_names_done(&names);
	return file;
}

static char *long_name(void) { return mem_printf("%080d/%080d/%0120d", 1, 2, 3); }

START_TEST(test_a_directory_is_packed_and_unpacked)
{
	mem_auto char *name = long_name(), *target = mem_printf("../%0200d", 7);
	struct bundle b, again;
	struct err e = ERR_INIT;
	char found[256] = "";

	umask(022);
	put_file(from, "empty", "", 0644);
	put_file(from, "run.sh", "#!/bin/sh\n", 04755); /* the setuid bit is not packed */
	ck_assert_int_eq(mkdirat(from, "src", 0755), 0);
	put_file(from, "src/a.c", "int a;\n", 0640);
	ck_assert_int_eq(symlinkat("src/a.c", from, "link"), 0);
	ck_assert_int_eq(symlinkat(target, from, "far"), 0);
	mem_auto char *top = mem_strndup(name, 80), *second = mem_strndup(name, 161);
	ck_assert_int_eq(mkdirat(from, top, 0755), 0);
	ck_assert_int_eq(mkdirat(from, second, 0755), 0);
	put_file(from, name, "deep\n", 0644);
	ck_assert_int_eq(mkdirat(from, ".git", 0755), 0);
	put_file(from, ".git/config", "[core]\n", 0644);
	fd_auto int file = pack(&b), other = pack(&again);
	ck_assert_int_ge(other, 0);
	ck_assert_str_eq(b.sha256, again.sha256);
	ck_assert_uint_eq(b.files, 6);
	ck_assert_msg(bundle_verify(file, &b, &e) == 0, "%s", e.message);
	ck_assert_msg(bundle_unpack(file, to, &e) == 0, "%s", e.message);
	expect_file(to, "empty", "", 0644);
	expect_file(to, "run.sh", "#!/bin/sh\n", 0755);
	expect_file(to, "src/a.c", "int a;\n", 0644);
	expect_file(to, name, "deep\n", 0644);
	ck_assert_int_gt(readlinkat(to, "link", found, sizeof(found) - 1), 0);
	ck_assert_str_eq(found, "src/a.c");
	ck_assert_int_eq(readlinkat(to, "far", found, sizeof(found) - 1), (int)strlen(target));
	ck_assert_int_lt(faccessat(to, ".git", F_OK, 0), 0);
}
END_TEST

START_TEST(test_changed_content_is_detected)
{
	struct bundle b;
	struct err e = ERR_INIT;

	put_file(from, "a", "content\n", 0644);
	fd_auto int file = pack(&b);
	ck_assert_int_eq((int)pwrite(file, "C", 1, 512), 1);
	ck_assert_int_lt(bundle_verify(file, &b, &e), 0);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_int_eq((int)pwrite(file, "c", 1, 512), 1);
	ck_assert_int_eq(bundle_verify(file, &b, &e), 0);
	ck_assert_int_eq(ftruncate(file, (off_t)b.bytes - 1), 0);
	ck_assert_int_lt(bundle_verify(file, &b, &e), 0);
}
END_TEST

/* Writes a valid header with this name, type and link, as an attacker could. */
static void forge(int file, const char *name, char type, const char *link, const char *content)
{
	char record[512] = { 0 };
	unsigned sum = 0;
	size_t n = strlen(content);

	memcpy(record, name, strnlen(name, 100));
	memcpy(record + 100, "0006777", 8);
	memcpy(record + 108, "0000000", 8);
	memcpy(record + 116, "0000000", 8);
	snprintf(record + 124, 12, "%011o", (unsigned)n & 0777u);
	snprintf(record + 136, 12, "%011o", 0);
	memset(record + 148, ' ', 8);
	record[156] = type;
	memcpy(record + 157, link, strnlen(link, 100));
	memcpy(record + 257, "ustar\00000", 8);
	for (size_t i = 0; i < sizeof(record); i++)
		sum += (unsigned char)record[i];
	snprintf(record + 148, 8, "%06o", sum & 0777777u);
	ck_assert_int_eq(fd_write_all(file, record, sizeof(record)), 0);
	if (n) {
		char padded[512] = { 0 };

		memcpy(padded, content, n);
		ck_assert_int_eq(fd_write_all(file, padded, sizeof(padded)), 0);
	}
}

static int unpack_forged(int file, struct err *e)
{
	static const char end[1024];

	ck_assert_int_eq(fd_write_all(file, end, sizeof(end)), 0);
	ck_assert_int_eq((int)lseek(file, 0, SEEK_SET), 0);
	*e = ERR_INIT;
	return bundle_unpack(file, to, e);
}

START_TEST(test_names_stay_inside_the_directory)
{
	static const char *const names[] = { "../out", "/tmp/out",    "a/../../out",
					     "./a",    "a//b",        "",
					     "..",     ".git/config", "a/.GIT/hooks/post-checkout" };

	for (size_t i = 0; i < countof(names); i++) {
		fd_auto int file = memfd_create("bundle", MFD_CLOEXEC);
		struct err e;

		forge(file, names[i], '0', "", "x");
		ck_assert_msg(unpack_forged(file, &e) < 0 && e.code == ERR_INVALID, "'%s' was accepted", names[i]);
	}
}
END_TEST

START_TEST(test_links_are_not_followed)
{
	mem_auto char *outside = mem_printf("%s/victim", from_path);
	fd_auto int file = memfd_create("bundle", MFD_CLOEXEC), second = memfd_create("bundle", MFD_CLOEXEC);
	struct err e;

	put_file(from, "victim", "safe\n", 0644);
	forge(file, "way", '2', from_path, "");
	forge(file, "way/new", '0', "", "x");
	ck_assert_int_lt(unpack_forged(file, &e), 0);
	ck_assert_int_lt(faccessat(from, "new", F_OK, 0), 0);
	forge(second, "over", '2', outside, "");
	forge(second, "over", '0', "", "bad\n"); /* a file in place of the link */
	ck_assert_int_lt(unpack_forged(second, &e), 0);
	expect_file(from, "victim", "safe\n", 0644);
}
END_TEST

START_TEST(test_only_files_and_links_are_unpacked)
{
	static const char types[] = { '1', '3', '4', '5', '6', 'x', 'g', 'S' };

	for (size_t i = 0; i < sizeof(types); i++) {
		fd_auto int file = memfd_create("bundle", MFD_CLOEXEC);
		struct err e;

		forge(file, "odd", types[i], "target", "");
		ck_assert_int_lt(unpack_forged(file, &e), 0);
		ck_assert_int_lt(faccessat(to, "odd", F_OK, AT_SYMLINK_NOFOLLOW), 0);
	}
}
END_TEST

START_TEST(test_modes_have_no_special_bits)
{
	fd_auto int file = memfd_create("bundle", MFD_CLOEXEC);
	struct err e;

	umask(022);
	forge(file, "tool", '0', "", "x"); /* 06777 */
	ck_assert_int_eq(unpack_forged(file, &e), 0);
	expect_file(to, "tool", "x", 0755);
}
END_TEST

START_TEST(test_truncated_archives_are_rejected)
{
	struct bundle b;

	put_file(from, "a", "content of a file\n", 0644);
	fd_auto int whole = pack(&b);
	for (off_t n = 0; n < 1024 + 512; n += 100) {
		fd_auto int file = memfd_create("bundle", MFD_CLOEXEC);
		char bytes[2048];
		struct err e = ERR_INIT;

		ck_assert_int_eq((int)fd_pread_all(whole, bytes, (size_t)n, 0), (int)n);
		ck_assert_int_eq(fd_write_all(file, bytes, (size_t)n), 0);
		ck_assert_int_eq((int)lseek(file, 0, SEEK_SET), 0);
		ck_assert_int_lt(bundle_unpack(file, to, &e), 0);
		(void)unlinkat(to, "a", 0);
	}
}
END_TEST

START_TEST(test_a_missing_file_is_omitted)
{
	char *names[] = { (char *)"gone", (char *)"there" };
	fd_auto int file = memfd_create("bundle", MFD_CLOEXEC);
	struct err e = ERR_INIT;
	struct bundle b;

	put_file(from, "there", "x", 0644);
	ck_assert_int_eq(bundle_pack(from, names, 2, file, &b, &e), 0);
	ck_assert_uint_eq(b.files, 1);
}
END_TEST

int main(void)
{
	const struct suite_case all = {
		"all", setup, teardown, 30,
		SUITE_TESTS(test_a_directory_is_packed_and_unpacked, test_changed_content_is_detected,
			    test_names_stay_inside_the_directory, test_links_are_not_followed,
			    test_only_files_and_links_are_unpacked, test_modes_have_no_special_bits,
			    test_truncated_archives_are_rejected, test_a_missing_file_is_omitted)
	};

	return suite_run_cases("bundle", &all, 1);
}
