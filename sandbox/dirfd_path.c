#include "sandbox/dirfd_path.h"

#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRIES 16

/* The kernel also fails a cached lookup if a mount or rename happens at the same time, so retry a few times. */
static int open_cached(const char *path)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_CACHED | RESOLVE_NO_MAGICLINKS };
	int fd = -1;
	for (int i = 0; i < TRIES && fd < 0 && (i == 0 || errno == EAGAIN); i++)
		fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
	return fd;
}

bool dirfd_path_is(const char *path, const struct dirfd_path *f)
{
	struct statx st;
	fd_auto int fd = open_cached(path);
	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st) < 0)
		return false;
	return st.stx_ino == f->inode && st.stx_dev_major == f->major && st.stx_dev_minor == f->minor;
}

struct dirfd_search {
	const struct dirfd_path *folder;
	const char *cwd, *entry;
	dirfd_path_is_fn *is;
	char *ret;
	size_t cap;
};

/* Whether the first `len` bytes of a word name the directory. */
static bool is_named(const struct dirfd_search *l, const char *word, size_t len)
{
	while (len > 1 && word[len - 1] == '/')
		len--;
	if (!len)
		return false;
	bool root = len == 1 && word[0] == '/', absolute = word[0] == '/';
	int n = snprintf(l->ret, l->cap, "%s%s%.*s%s%s", absolute ? "" : l->cwd, absolute ? "" : "/",
			 root ? 0 : (int)len, word, l->entry[0] || root ? "/" : "", l->entry);
	return n > 0 && (size_t)n < l->cap && l->is(l->ret, l->folder);
}

/* The word may be the directory, a path in it, or an option with one: --target=/x, -C/x. */
static bool in_word(const struct dirfd_search *l, const char *word, size_t len)
{
	const char *slash = memrchr(word, '/', len), *equals = memchr(word, '=', len);
	if (is_named(l, word, len) || (slash && is_named(l, word, (size_t)(slash - word) + (slash == word))))
		return true;
	if (word[0] != '-' || len < 3)
		return false;
	const char *value = equals ? equals + 1 : word + 2;
	return is_named(l, value, (size_t)(word + len - value));
}

bool dirfd_path_resolve(const struct dirfd_path *f, const char *cwd, const char *entry, dirfd_path_is_fn *is, char *ret,
			size_t cap)
{
	const struct dirfd_search l = { f, cwd, entry, is, ret, cap };
	size_t first = strnlen(f->title, f->title_len);
	if (!f->inode || !is || cwd[0] != '/')
		return false;
	/* Skip the first word, the program. */
	for (size_t at = first + 1; at < f->title_len;) {
		size_t len = strnlen(f->title + at, f->title_len - at);
		if (len && in_word(&l, f->title + at, len))
			return true;
		at += len + 1;
	}
	return false;
}
