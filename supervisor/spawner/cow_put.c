/*
 * Puts one entry on the host, for apply and undo, in two steps, between which a batch of entries is synced: prepare
 * writes the new file or link under a temporary name in the same directory; finish renames it, so that readers never
 * see a partial file.
 *
 * If that would change the file's owner (it belongs to another user, and the peer can only write to it), it is written
 * in place, as the command itself would have done. Set-user-id and set-group-id bits, file capabilities and devices are
 * never applied.
 */

#include "supervisor/spawner/cow_undo.h"

#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void cow_set_conflict(struct cow_spot *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->note, sizeof s->note, fmt, ap);
	va_end(ap);
	s->outcome = CHANGE_OUTCOME_CONFLICT;
}

static int copy_content(int from, int to)
{
	struct stat st;
	return fstat(from, &st) < 0 ? -1 : cow_copy_data(from, to, st.st_size);
}

bool cow_still_same(const struct cow_spot *s)
{
	struct stat now;
	if (fstatat(s->host_dir, s->name, &now, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT && !s->host.st_mode;
	return now.st_ino == s->host.st_ino && now.st_dev == s->host.st_dev &&
	       now.st_ctim.tv_sec == s->host.st_ctim.tv_sec && now.st_ctim.tv_nsec == s->host.st_ctim.tv_nsec;
}

/* Renames the new entry to its final name. Never replaces an entry that the walk did not see. */
static int put_in_place(struct cow_spot *s, const char *temporary)
{
	int r;
	if (!s->host.st_mode)
		r = renameat2(s->host_dir, temporary, s->host_dir, s->name, RENAME_NOREPLACE);
	else if (!cow_still_same(s))
		r = (errno = ESTALE, -1);
	else
		r = renameat(s->host_dir, temporary, s->host_dir, s->name);
	if (r == 0)
		return 0;
	if (errno == EEXIST || errno == ESTALE)
		cow_set_conflict(s, "changed on the host just now");
	else
		cow_set_conflict(s, "%s", strerror(errno));
	unlinkat(s->host_dir, temporary, 0);
	return -1;
}

static int write_in_place(struct cow_spot *s, int from)
{
	fd_auto int to = openat(s->host_dir, s->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	if (to < 0 || fstat(to, &st) < 0)
		return -1;
	if (st.st_ino != s->host.st_ino || st.st_dev != s->host.st_dev || !S_ISREG(st.st_mode)) {
		errno = ESTALE;
		return -1;
	}
	if ((s->undo && cow_keep_writing(s->undo, s->record, &st, false) < 0))
		return -1;
	s->touched = true;
	if (ftruncate(to, 0) < 0 || copy_content(from, to) < 0)
		return -1;
	if ((st.st_mode & COW_FILE_BITS) != (s->upper.st_mode & COW_FILE_BITS))
		fchmod(to, s->upper.st_mode & COW_FILE_BITS);
	if (fsync(to) < 0)
		return -1;
	return s->undo ? cow_keep_writing(s->undo, s->record, &st, true) : 0;
}

/* One that is there already was left by an apply that was killed. */
static int make_temporary(const struct cow_spot *s, const char *temporary)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(s->host_dir, temporary, flags, 0600);
	if (fd < 0 && errno == EEXIST && unlinkat(s->host_dir, temporary, 0) == 0)
		fd = openat(s->host_dir, temporary, flags, 0600);
	return fd;
}

/*
 * Returns 0, 1 if it is written but its owner could not be set, or −1 with errno. It is not synced yet: s->unsynced is
 * its descriptor.
 */
static int write_temporary(struct cow_spot *s, int from, const char *temporary)
{
	fd_auto int to = make_temporary(s, temporary);
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, s->upper.st_mtim };
	struct stat st;
	if (to < 0)
		return -1;
	if (copy_content(from, to) < 0 || fstat(to, &st) < 0)
		goto failed;
	bool same_owner = (st.st_uid == s->upper.st_uid && st.st_gid == s->upper.st_gid) ||
			  fchown(to, s->upper.st_uid, s->upper.st_gid) == 0;
	if (fchmod(to, s->upper.st_mode & COW_FILE_BITS) < 0 || futimens(to, times) < 0)
		goto failed;
	s->unsynced = fd_take(&to);
	return same_owner ? 0 : 1;
failed:;
	int saved = errno;
	unlinkat(s->host_dir, temporary, 0);
	errno = saved;
	return -1;
}

static void prepare_file(struct cow_spot *s)
{
	fd_auto int from = cow_open_upper(s);
	if (from < 0) {
		cow_set_conflict(s, "read what the command wrote: %s", strerror(errno));
		return;
	}
	int r = write_temporary(s, from, s->temporary);
	/* The directory may be read-only, or chown may be denied; the file itself can still be writable. */
	s->in_place = r != 0 && S_ISREG(s->host.st_mode) && s->host.st_uid == s->upper.st_uid &&
		      s->host.st_gid == s->upper.st_gid;
	if (r > 0 && s->in_place)
		cow_put_cancel(s);
	else if (r < 0 && !s->in_place)
		cow_set_conflict(s, "%s", strerror(errno));
	s->prepared = r >= 0 && !s->in_place;
}

/* Best effort. The owner of the folder can put another file at the name, which must not be given away. */
static void give_link(const struct cow_spot *s)
{
	fd_auto int link = openat(s->host_dir, s->temporary, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (link >= 0 && fstat(link, &st) == 0 && S_ISLNK(st.st_mode))
		(void)!fchownat(link, "", s->upper.st_uid, s->upper.st_gid, AT_EMPTY_PATH);
}

static void prepare_symlink(struct cow_spot *s)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(s->upper_dir, s->upper_name, target, sizeof target - 1);
	if (n < 0) {
		cow_set_conflict(s, "read the link: %s", strerror(errno));
		return;
	}
	target[n] = 0;
	int r = symlinkat(target, s->host_dir, s->temporary);
	if (r < 0 && errno == EEXIST && unlinkat(s->host_dir, s->temporary, 0) == 0)
		r = symlinkat(target, s->host_dir, s->temporary);
	if (r < 0) {
		cow_set_conflict(s, "%s", strerror(errno));
		return;
	}
	s->prepared = true;
	give_link(s);
}

void cow_put_cancel(struct cow_spot *s)
{
	fd_close(&s->unsynced);
	unlinkat(s->host_dir, s->temporary, 0);
	s->prepared = false;
}

static void finish_in_place(struct cow_spot *s)
{
	fd_auto int from = cow_open_upper(s);
	if (from < 0)
		cow_set_conflict(s, "read what the command wrote: %s", strerror(errno));
	else if (write_in_place(s, from) < 0)
		cow_set_conflict(s, "%s", strerror(errno));
}

static int has_entry(void *ctx, int folder, const char *name) { return 1; }

/*
 * The owner of the folder above can put another one at the name: it must be the one that was found, or, as a new
 * one is, empty.
 */
static void apply_folder(struct cow_spot *s)
{
	bool found = S_ISDIR(s->host.st_mode);
	if (!found && mkdirat(s->host_dir, s->name, 0700) < 0) {
		cow_set_conflict(s, "make the folder: %s", strerror(errno));
		return;
	}
	s->touched = !found;
	fd_auto int folder = cow_open_folder(s->host_dir, s->name);
	struct stat st;
	if (folder < 0 || fstat(folder, &st) < 0) {
		cow_set_conflict(s, "open the folder: %s", strerror(errno));
		return;
	}
	if (found ? st.st_dev != s->host.st_dev || st.st_ino != s->host.st_ino
		  : cow_each_entry(folder, has_entry, NULL) != 0) {
		cow_set_conflict(s, "changed on the host just now");
		return;
	}
	s->touched = true;
	s->folder = st;
	if ((st.st_uid != s->upper.st_uid || st.st_gid != s->upper.st_gid) &&
	    fchown(folder, s->upper.st_uid, s->upper.st_gid) < 0 && found)
		cow_set_conflict(s, "give it to its owner: %s", strerror(errno));
	else if (fchmod(folder, (s->upper.st_mode & COW_FOLDER_BITS) | 0700) <
		 0) /* cow_finish_folder removes the extra bits */
		cow_set_conflict(s, "set its mode: %s", strerror(errno));
}

void cow_put_prepare(struct cow_spot *s)
{
	s->unsynced = -1;
	if (s->type == CHANGE_TYPE_FILE)
		prepare_file(s);
	else if (s->type == CHANGE_TYPE_SYMLINK)
		prepare_symlink(s);
}

void cow_put_finish(struct cow_spot *s)
{
	if (s->prepared)
		put_in_place(s, s->temporary);
	else if (s->in_place)
		finish_in_place(s);
	else
		apply_folder(s);
}

void cow_put(struct cow_spot *s)
{
	cow_put_prepare(s);
	if (s->unsynced >= 0 && fsync(s->unsynced) < 0) {
		cow_set_conflict(s, "%s", strerror(errno));
		cow_put_cancel(s);
	}
	fd_close(&s->unsynced);
	if (s->outcome != CHANGE_OUTCOME_CONFLICT)
		cow_put_finish(s);
}
