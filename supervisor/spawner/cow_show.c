/* Diffs as git writes them: a header that names the file and its mode, then the hunks, where both versions are text. */

#include "supervisor/spawner/cow.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "sandbox/diff.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX (1u << 20)
#define DIFF_MAX (256u * 1024)

/* 0 read, 1 no text, 2 too long, −1 it cannot be read. */
static int read_version(const struct cow_spot *s, bool upper, struct buf *out)
{
	const struct stat *st = upper ? &s->upper : &s->host;
	if (!st->st_mode)
		return 0;
	if (S_ISLNK(st->st_mode)) {
		ssize_t n = readlinkat(upper ? s->upper_dir : s->host_dir, s->name, buf_reserve(out, PATH_MAX), PATH_MAX);
		if (n < 0)
			return -1;
		out->len += (size_t)n;
		return 0;
	}
	if (st->st_size > (off_t)TEXT_MAX)
		return 2;
	fd_auto int fd = upper ? cow_open_upper(s) : openat(s->host_dir, s->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, buf_reserve(out, TEXT_MAX), TEXT_MAX);
	if (n < 0)
		return -1;
	out->len += (size_t)n;
	return diff_is_text(out->data, out->len) ? 0 : 1;
}

static unsigned git_mode(mode_t mode)
{
	return S_ISLNK(mode) ? (unsigned)S_IFLNK : (unsigned)mode;
}

static void put_header(const struct cow_walk *w, const struct cow_spot *s, const struct stat *after, struct buf *out)
{
	const char *path = w->path + w->root_len + 1;
	unsigned old_mode = git_mode(s->host.st_mode), new_mode = git_mode(after->st_mode);
	buf_printf(out, "diff --git a/%s b/%s\n", path, path);
	if (!old_mode)
		buf_printf(out, "new file mode %o\n", new_mode);
	else if (!new_mode)
		buf_printf(out, "deleted file mode %o\n", old_mode);
	else if (old_mode != new_mode)
		buf_printf(out, "old mode %o\nnew mode %o\n", old_mode, new_mode);
}

void cow_diff(const struct cow_walk *w, const struct cow_spot *s, struct buf *out)
{
	static const struct stat nothing;
	const struct stat *after = s->kind == CHANGES_KIND_DELETED ? &nothing : &s->upper;
	const char *path = w->path + w->root_len + 1;
	buf_auto struct buf a = BUF_INIT, b = BUF_INIT, hunks = BUF_INIT;
	if (S_ISDIR(s->host.st_mode) || S_ISDIR(after->st_mode) || s->type == CHANGES_TYPE_OTHER)
		return;
	int old = read_version(s, false, &a), new = after->st_mode ? read_version(s, true, &b) : 0;
	if (old < 0 || new < 0)
		return;
	put_header(w, s, after, out);
	if (old == 0 && new == 0 && (!diff_unified(buf_cstr(&a), a.len, buf_cstr(&b), b.len, &hunks)))
		return;
	const char *a_at = s->host.st_mode ? "a/" : "/dev/null", *a_path = s->host.st_mode ? path : "";
	const char *b_at = after->st_mode ? "b/" : "/dev/null", *b_path = after->st_mode ? path : "";
	if (old == 1 || new == 1) {
		buf_printf(out, "Binary files %s%s and %s%s differ\n", a_at, a_path, b_at, b_path);
		return;
	}
	if (old || new || hunks.len > DIFF_MAX) {
		buf_printf(out, "Files %s%s and %s%s differ (too long to show)\n", a_at, a_path, b_at, b_path);
		return;
	}
	buf_printf(out, "--- %s%s\n+++ %s%s\n", a_at, a_path, b_at, b_path);
	buf_append(out, hunks.data, hunks.len);
}
