#include "sandbox/dirfd_path.h"

#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static const char *there; /* the only path with the inode that is searched */

static bool is_there(const char *path, const struct dirfd_path *f) { return strcmp(path, there) == 0; }

/* Words are separated by one space. */
static bool finds(const char *line, const char *entry, const char *path)
{
	struct dirfd_path f = { .inode = 7, .title_len = strlen(line) };
	char found[PATH_MAX];

	memcpy(f.title, line, f.title_len);
	for (size_t i = 0; i < f.title_len; i++)
		f.title[i] = f.title[i] == ' ' ? '\0' : f.title[i];
	there = path;
	return dirfd_path_resolve(&f, "/srv/home", entry, is_there, found, sizeof found) && strcmp(found, path) == 0;
}

START_TEST(the_directory_is_found_among_the_words)
{
	ck_assert(finds("cp file /etc/", "", "/etc"));
	ck_assert(finds("cp file /etc", "", "/etc"));
	ck_assert(finds("cp file /etc/", "file", "/etc/file"));
	ck_assert(finds("rm -rf sub/tree", "", "/srv/home/sub/tree"));
	ck_assert(finds("install -D a /opt/b", "", "/opt"));
	ck_assert(finds("install a /b", "", "/"));
	ck_assert(finds("cp a /", "", "/"));
	ck_assert(finds("cp a /", "x", "/x"));
	ck_assert(finds("tar --directory=/opt -x", "", "/opt"));
	ck_assert(finds("tar -C/opt -x", "", "/opt"));
	ck_assert(finds("cp  -a . /srv", "", "/srv"));
	/* The program name is not an argument, and a directory that no word names is unknown. */
	ck_assert(!finds("/usr/bin/cp", "", "/usr/bin"));
	ck_assert(!finds("cp a b", "", "/etc"));
	ck_assert(!finds("cp - -- = /", "", "/etc"));
	ck_assert(!finds("", "", "/etc"));
}
END_TEST

START_TEST(nothing_is_found_without_inode_or_check)
{
	struct dirfd_path f = { .title = "x\0/usr", .title_len = 6 };
	char found[PATH_MAX];

	there = "/usr";
	ck_assert(!dirfd_path_resolve(&f, "/srv/home", "", is_there, found, sizeof found));
	f.inode = 7;
	ck_assert(dirfd_path_resolve(&f, "/srv/home", "", is_there, found, sizeof found));
	ck_assert(!dirfd_path_resolve(&f, "/srv/home", "", NULL, found, sizeof found));
	ck_assert(!dirfd_path_resolve(&f, "", "", is_there, found, sizeof found));
	ck_assert(!dirfd_path_resolve(&f, "/srv/home", "", is_there, found, 4));
}
END_TEST

START_TEST(a_directory_is_identified_by_inode_and_device)
{
	struct stat st;

	ck_assert_int_eq(stat("/usr", &st), 0);
	struct dirfd_path f = { .inode = st.st_ino, .major = major(st.st_dev), .minor = minor(st.st_dev) };
	ck_assert(dirfd_path_is("/usr", &f));
	ck_assert(!dirfd_path_is("/etc", &f));
	ck_assert(!dirfd_path_is("/nowhere/at/all", &f));
	f.minor++;
	ck_assert(!dirfd_path_is("/usr", &f));
}
END_TEST

int main(void)
{
	return SUITE("dirfd_path", the_directory_is_found_among_the_words, nothing_is_found_without_inode_or_check,
		     a_directory_is_identified_by_inode_and_device);
}
