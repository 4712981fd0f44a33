/* Paths with symbolic links, while links are refused. */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[] = "/tmp/links-XXXXXX";

static void write_text(const char *path)
{
	fd_auto int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_eq(fd_write_all(fd, "x", 1), 0);
}

/* dir/file, link -> dir, dir/again -> file */
static void enter_place(void)
{
	ck_assert_ptr_nonnull(mkdtemp(place));
	ck_assert_int_eq(chdir(place), 0);
	ck_assert_int_eq(mkdir("dir", 0700), 0);
	write_text("dir/file");
	ck_assert_int_eq(symlink("dir", "link"), 0);
	ck_assert_int_eq(symlink("file", "dir/again"), 0);
	ck_assert_int_eq(setenv("BAILIFF_FILE_LINKS", "refuse", 1), 0);
}

static void leave_place(void)
{
	static const char *const files[] = { "dir/new", "dir/again", "dir/file", "link" };

	for (size_t i = 0; i < countof(files); i++)
		(void)unlink(files[i]);
	(void)rmdir("dir");
	(void)rmdir(place);
	memcpy(place + sizeof place - sizeof "XXXXXX", "XXXXXX", sizeof "XXXXXX");
	unsetenv("BAILIFF_FILE_LINKS");
}

START_TEST(a_path_with_a_link_in_any_component_is_refused)
{
	static const struct {
		const char *path;
		int flags, error; /* 0: it is opened */
	} rows[] = {
		{ "dir/file", O_RDONLY, 0 },
		{ "./dir//file", O_RDONLY, 0 },
		{ "dir/../dir/file", O_RDONLY, 0 },
		{ "dir", O_RDONLY | O_DIRECTORY, 0 },
		{ "dir/", O_RDONLY | O_DIRECTORY, 0 },
		{ ".", O_PATH, 0 },
		{ "/", O_PATH | O_DIRECTORY, 0 },
		{ "dir/new", O_WRONLY | O_CREAT, 0 },
		{ "link/file", O_RDONLY, ELOOP },
		{ "link", O_RDONLY | O_DIRECTORY, ELOOP },
		{ "link", O_PATH, ELOOP },
		{ "link", O_PATH | O_NOFOLLOW, 0 }, /* the link itself */
		{ "link/new", O_WRONLY | O_CREAT, ELOOP },
		{ "dir/again", O_RDONLY, ELOOP },
		{ "dir/again", O_WRONLY | O_CREAT, ELOOP },
		{ "/proc/self/cwd/dir/file", O_RDONLY, ELOOP },
		{ "dir/none", O_RDONLY, ENOENT },
		{ "dir/file/x", O_RDONLY, ENOTDIR },
		{ "", O_RDONLY, ENOENT },
	};

	enter_place();
	for (size_t i = 0; i < countof(rows); i++) {
		errno = 0;
		fd_auto int fd = tool_links_open(AT_FDCWD, rows[i].path, rows[i].flags, 0600);

		ck_assert_msg(rows[i].error ? fd < 0 && errno == rows[i].error : fd >= 0, "%s: %s", rows[i].path,
			      strerror(errno));
	}
	leave_place();
}
END_TEST

START_TEST(the_error_names_the_link_and_the_file)
{
	struct err e = ERR_INIT;
	struct buf text = BUF_INIT;

	enter_place();
	mem_auto char *real = mem_printf("%s/dir/file", place);
	ck_assert_int_lt(tool_file_load("link/file", &text, &e), 0);
	ck_assert_int_eq(e.code, ERR_PERMISSION);
	ck_assert_msg(strstr(e.message, "'link' is a symbolic link") && strstr(e.message, real), "%s", e.message);
	ck_assert_int_eq(tool_links_check("link", true, &e), 0);
	ck_assert_int_lt(tool_links_check("link/x", true, &e), 0);
	e = ERR_INIT;
	ck_assert_int_lt(tool_file_store("dir/again", "y", 1, 0, 0, &e), 0);
	ck_assert_int_eq(e.code, ERR_PERMISSION);
	ck_assert_int_lt(tool_file_remove("link/file", &e), 0);
	ck_assert_int_eq(access("dir/file", F_OK), 0);
	leave_place();
	buf_done(&text);
}
END_TEST

START_TEST(links_are_followed_unless_they_are_refused)
{
	struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	struct stat st;

	enter_place();
	unsetenv("BAILIFF_FILE_LINKS");
	ck_assert_int_eq(tool_file_load("link/again", &text, &e), 0);
	ck_assert_int_eq(tool_file_store("link/again", "yy", 2, 0, 0, &e), 0);
	ck_assert(lstat("dir/again", &st) == 0 && S_ISLNK(st.st_mode));
	ck_assert(stat("dir/file", &st) == 0 && st.st_size == 2);
	leave_place();
	buf_done(&text);
}
END_TEST

int main(void)
{
	return SUITE("tool_links", a_path_with_a_link_in_any_component_is_refused,
		     the_error_names_the_link_and_the_file, links_are_followed_unless_they_are_refused);
}
