/*
 * Writes diffs in git's format: a header with the file's name and mode, then the hunks if both versions are text. A
 * directory has no version: what takes its place is a new file, and a file in whose place a directory is was deleted.
 */

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

/* Returns 0 if read, 1 if not text, 2 if too long, −1 if it cannot be read. */
static int read_version(const struct cow_spot *s, bool upper, const struct stat *st, struct buf *out)
{
	if (!st->st_mode)
		return 0;
	if (S_ISLNK(st->st_mode)) {
		ssize_t n = readlinkat(upper ? s->upper_dir : s->host_dir, s->name, buf_reserve(out, PATH_MAX),
				       PATH_MAX);
		if (n < 0)
			return -1;
		buf_extend(out, (size_t)n);
		return 0;
	}
	if (st->st_size > (off_t)TEXT_MAX)
		return 2;
	fd_auto int fd = upper ? cow_open_upper(s)
			       : openat(s->host_dir, s->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, buf_reserve(out, TEXT_MAX), TEXT_MAX);
	if (n < 0)
		return -1;
	buf_extend(out, (size_t)n);
	return diff_is_text(out->data, out->len) ? 0 : 1;
}

static unsigned git_mode(mode_t mode) { return S_ISLNK(mode) ? (unsigned)S_IFLNK : (unsigned)mode; }

static void put_text(struct buf *out, const char *text) { buf_append(out, text, strlen(text)); }

static const char *relative_path(const struct cow_walk *w) { return w->path + w->root_len + 1; }

/* A version that does not exist is named /dev/null. */
static void put_name(const struct cow_walk *w, const struct stat *st, const char *side, struct buf *out)
{
	if (st->st_mode)
		diff_name(side, relative_path(w), out);
	else
		put_text(out, "/dev/null");
}

/* "Files a/x and b/x differ", for versions without hunks. */
static void put_differ(const struct cow_walk *w, const struct stat *before, const struct stat *after, const char *what,
		       const char *why, struct buf *out)
{
	put_text(out, what);
	put_name(w, before, "a/", out);
	put_text(out, " and ");
	put_name(w, after, "b/", out);
	put_text(out, why);
}

/* A tab terminates a name that contains spaces. */
static void put_version(const struct cow_walk *w, const struct stat *st, const char *mark, const char *side,
			struct buf *out)
{
	put_text(out, mark);
	put_name(w, st, side, out);
	put_text(out, st->st_mode && strchr(relative_path(w), ' ') ? "\t\n" : "\n");
}

static void put_header(const struct cow_walk *w, const struct stat *before, const struct stat *after, struct buf *out)
{
	unsigned old_mode = git_mode(before->st_mode), new_mode = git_mode(after->st_mode);
	put_text(out, "diff --git ");
	diff_name("a/", relative_path(w), out);
	put_text(out, " ");
	diff_name("b/", relative_path(w), out);
	put_text(out, "\n");
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
	const struct stat *before = S_ISDIR(s->host.st_mode) ? &nothing : &s->host;
	const struct stat *after = s->kind == CHANGE_KIND_DELETED || S_ISDIR(s->upper.st_mode) ? &nothing : &s->upper;
	buf_auto struct buf a = BUF_INIT, b = BUF_INIT, hunks = BUF_INIT;
	if ((!before->st_mode && !after->st_mode) || s->type == CHANGE_TYPE_OTHER)
		return;
	int old = read_version(s, false, before, &a), new = read_version(s, true, after, &b);
	if (old < 0 || new < 0)
		return;
	if (S_ISDIR(s->host.st_mode))
		put_text(out, "# it replaces a directory, with everything in it\n");
	put_header(w, before, after, out);
	if (old == 0 && new == 0 && (!diff_unified(buf_cstr(&a), a.len, buf_cstr(&b), b.len, &hunks)))
		return;
	if (old == 1 || new == 1) {
		put_differ(w, before, after, "Binary files ", " differ\n", out);
		return;
	}
	if (old || new || hunks.len > DIFF_MAX) {
		put_differ(w, before, after, "Files ", " differ (too long to show)\n", out);
		return;
	}
	put_version(w, before, "--- ", "a/", out);
	put_version(w, after, "+++ ", "b/", out);
	buf_append(out, hunks.data, hunks.len);
}
