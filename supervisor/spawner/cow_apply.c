/*
 * Applies changes to the host, or discards them.
 *
 * A file is written to a temporary name in the same directory and renamed, so that readers never see a partial file. If
 * that would change its owner (the file belongs to another user, and the peer can only write to it), it is written in
 * place, as the command itself would have done. Set-user-id and set-group-id bits, file capabilities and devices are
 * never applied.
 *
 * A conflict is a host file that changed after the run began. Overlayfs does not record a file's state when it copies
 * the file up, so the file's ctime, which cannot be set back, is compared with the run's start. Changes in conflict
 * stay in the upper layer; the rest is applied.
 *
 * A change leaves the upper layer only when it is durable on the host, file and name: the two may be on different
 * disks, and a power cut must not take a change from both.
 */

#include "supervisor/spawner/cow_undo.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COPY_CHUNK (128u * 1024)

static void set_conflict(struct cow_spot *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void set_conflict(struct cow_spot *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->note, sizeof s->note, fmt, ap);
	va_end(ap);
	s->outcome = CHANGE_OUTCOME_CONFLICT;
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* ---- removing ---- */

/* Whether anything in a host tree changed after the run began: 1 yes, 0 no, −1 with errno. */
struct age {
	const struct timespec *started;
	unsigned depth;
};

static int is_younger(void *ctx, int dir, const char *name)
{
	struct age *a = ctx;
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	if (is_later(&st.st_ctim, a->started))
		return 1;
	if (!S_ISDIR(st.st_mode))
		return 0;
	fd_auto int folder = cow_open_folder(dir, name);
	if (folder < 0)
		return -1;
	struct age below = { .started = a->started, .depth = a->depth + 1 };
	if (below.depth > COW_DEPTH_MAX) {
		errno = ELOOP;
		return -1;
	}
	return cow_each_entry(folder, is_younger, &below);
}

static void check_age(const struct cow_walk *w, struct cow_spot *s)
{
	struct age a = { .started = &w->started };
	int young = is_younger(&a, s->host_dir, s->name);
	if (young > 0)
		set_conflict(s, "changed on the host since the run began");
	else if (young < 0)
		set_conflict(s, "look at what the host has there: %s", strerror(errno));
}

/* Removes the host's entry unless something in it changed after the run began. */
static int clear_host(const struct cow_walk *w, struct cow_spot *s)
{
	check_age(w, s);
	if (s->outcome == CHANGE_OUTCOME_CONFLICT)
		return -1;
	s->touched = true;
	if (cow_remove(s->host_dir, s->name) < 0)
		set_conflict(s, "remove: %s", strerror(errno));
	return s->outcome == CHANGE_OUTCOME_CONFLICT ? -1 : 0;
}

/* ---- writing ---- */

static int copy_bytes(int from, int to)
{
	mem_auto char *chunk = mem_alloc(COPY_CHUNK);
	for (;;) {
		ssize_t n = read(from, chunk, COPY_CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		if (fd_write_all(to, chunk, (size_t)n) < 0)
			return -1;
	}
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
		set_conflict(s, "changed on the host just now");
	else
		set_conflict(s, "%s", strerror(errno));
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
	if (lseek(from, 0, SEEK_SET) < 0 || (s->undo && cow_keep_writing(s->undo, &st, false) < 0))
		return -1;
	s->touched = true;
	if (ftruncate(to, 0) < 0 || copy_bytes(from, to) < 0)
		return -1;
	if ((st.st_mode & COW_FILE_BITS) != (s->upper.st_mode & COW_FILE_BITS))
		fchmod(to, s->upper.st_mode & COW_FILE_BITS);
	if (fsync(to) < 0)
		return -1;
	return s->undo ? cow_keep_writing(s->undo, &st, true) : 0;
}

/* Returns 0, 1 if it is written but its owner could not be set, or −1 with errno. */
static int write_temporary(struct cow_spot *s, int from, const char *temporary)
{
	fd_auto int to = openat(s->host_dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, s->upper.st_mtim };
	struct stat st;
	if (to < 0)
		return -1;
	if (copy_bytes(from, to) < 0 || fstat(to, &st) < 0)
		goto failed;
	bool same_owner = (st.st_uid == s->upper.st_uid && st.st_gid == s->upper.st_gid) ||
			  fchown(to, s->upper.st_uid, s->upper.st_gid) == 0;
	if (fchmod(to, s->upper.st_mode & COW_FILE_BITS) < 0 || futimens(to, times) < 0 || fsync(to) < 0)
		goto failed;
	return same_owner ? 0 : 1;
failed:;
	int saved = errno;
	unlinkat(s->host_dir, temporary, 0);
	errno = saved;
	return -1;
}

static void apply_file(struct cow_spot *s)
{
	char temporary[64];
	fd_auto int from = cow_open_upper(s);
	if (from < 0) {
		set_conflict(s, "read what the command wrote: %s", strerror(errno));
		return;
	}
	cow_temporary_name(s->undo ? s->undo->temporary : 0, temporary);
	int r = write_temporary(s, from, temporary);
	/* The directory may be read-only, or chown may be denied; the file itself can still be writable. */
	bool in_place = r != 0 && S_ISREG(s->host.st_mode) && s->host.st_uid == s->upper.st_uid &&
			s->host.st_gid == s->upper.st_gid;
	if (r > 0 && in_place)
		unlinkat(s->host_dir, temporary, 0);
	if (in_place) {
		if (write_in_place(s, from) < 0)
			set_conflict(s, "%s", strerror(errno));
	} else if (r < 0) {
		set_conflict(s, "%s", strerror(errno));
	} else {
		put_in_place(s, temporary);
	}
}

static void apply_symlink(struct cow_spot *s)
{
	char target[PATH_MAX], temporary[64];
	ssize_t n = readlinkat(s->upper_dir, s->upper_name, target, sizeof target - 1);
	if (n < 0) {
		set_conflict(s, "read the link: %s", strerror(errno));
		return;
	}
	target[n] = 0;
	cow_temporary_name(s->undo ? s->undo->temporary : 0, temporary);
	if (symlinkat(target, s->host_dir, temporary) < 0) {
		set_conflict(s, "%s", strerror(errno));
		return;
	}
	(void)!fchownat(s->host_dir, temporary, s->upper.st_uid, s->upper.st_gid, AT_SYMLINK_NOFOLLOW);
	put_in_place(s, temporary);
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
		set_conflict(s, "make the folder: %s", strerror(errno));
		return;
	}
	s->touched = !found;
	fd_auto int folder = cow_open_folder(s->host_dir, s->name);
	struct stat st;
	if (folder < 0 || fstat(folder, &st) < 0) {
		set_conflict(s, "open the folder: %s", strerror(errno));
		return;
	}
	if (found ? st.st_dev != s->host.st_dev || st.st_ino != s->host.st_ino
		  : cow_each_entry(folder, has_entry, NULL) != 0) {
		set_conflict(s, "changed on the host just now");
		return;
	}
	s->touched = true;
	s->folder = st;
	if ((st.st_uid != s->upper.st_uid || st.st_gid != s->upper.st_gid) &&
	    fchown(folder, s->upper.st_uid, s->upper.st_gid) < 0 && found)
		set_conflict(s, "give it to its owner: %s", strerror(errno));
	else if (fchmod(folder, (s->upper.st_mode & COW_FOLDER_BITS) | 0700) <
		 0) /* cow_finish_folder removes the extra bits */
		set_conflict(s, "set its mode: %s", strerror(errno));
}

void cow_put(struct cow_spot *s)
{
	if (s->type == CHANGE_TYPE_FILE)
		apply_file(s);
	else if (s->type == CHANGE_TYPE_SYMLINK)
		apply_symlink(s);
	else
		apply_folder(s);
}

void cow_finish_folder(struct cow_spot *s, int host, mode_t before)
{
	struct stat st;
	mode_t wanted = s->outcome == CHANGE_OUTCOME_APPLIED ? s->upper.st_mode & COW_FOLDER_BITS : before & 07777;
	if ((s->outcome == CHANGE_OUTCOME_APPLIED || before) && fstat(host, &st) == 0 && (st.st_mode & 07777) != wanted)
		fchmod(host, wanted);
	if (s->outcome == CHANGE_OUTCOME_APPLIED)
		fsync(host); /* best effort: its mode and owner; what is in it is durable */
}

/* Checks whether the host's entry conflicts with the change; if so, sets s->outcome. */
static void check_conflict(struct cow_walk *w, struct cow_spot *s)
{
	bool folder_now = S_ISDIR(s->host.st_mode), folder_then = s->type == CHANGE_TYPE_FOLDER;
	if (s->host_dir < 0)
		set_conflict(s, "its folder is not there on the host");
	else if (s->type == CHANGE_TYPE_OTHER && s->kind != CHANGE_KIND_DELETED)
		set_conflict(s, "not a file, folder or symbolic link: never applied");
	else if (s->kind == CHANGE_KIND_DELETED || !s->host.st_mode || (folder_now && folder_then))
		return;
	else if (is_later(&s->host.st_ctim, &w->started))
		set_conflict(s, "changed on the host since the run began");
	else
		s->replaces = folder_now != folder_then || !S_ISREG(s->host.st_mode) != !S_ISREG(s->upper.st_mode);
}

/* True for an autorun file that the request does not name: those are applied only by name. */
static bool is_held_back(const struct cow_walk *w)
{
	for (size_t at = 0; at < w->held_len; at += strlen(w->held + at) + 1) {
		if (strcmp(w->held + at + 1, w->path) == 0)
			return true;
	}
	return false;
}

void cow_apply(struct cow_walk *w, struct cow_spot *s)
{
	check_conflict(w, s);
	if (s->outcome != CHANGE_OUTCOME_CONFLICT && is_held_back(w))
		set_conflict(s, "held back: a program outside the sandbox executes it by itself; name it to apply it");
	bool clears = s->kind == CHANGE_KIND_DELETED || s->replaces;
	if (s->outcome != CHANGE_OUTCOME_CONFLICT && clears)
		check_age(w, s); /* clear_host repeats it, for what changes while it is kept */
	if (s->outcome == CHANGE_OUTCOME_CONFLICT)
		return;
	off_t mark;
	if (cow_keep(w, s, &mark) < 0) {
		set_conflict(s, "remove what can no longer be undone: %s", strerror(errno));
		return;
	}
	if (clears && clear_host(w, s) == 0 && s->replaces)
		s->host = (struct stat){ 0 };
	if (s->outcome != CHANGE_OUTCOME_CONFLICT && s->kind != CHANGE_KIND_DELETED)
		cow_put(s);
	if (s->outcome != CHANGE_OUTCOME_CONFLICT && fsync(s->host_dir) < 0) {
		s->touched = true;
		set_conflict(s, "sync its folder: %s", strerror(errno));
	}
	if (s->outcome == CHANGE_OUTCOME_CONFLICT) {
		if (!s->touched)
			cow_keep_cancel(w->undo, mark);
		return;
	}
	s->outcome = CHANGE_OUTCOME_APPLIED;
	/* Best effort: if the unlink fails, the entry equals the host's and is no longer a difference. */
	if (s->in_upper && (s->type != CHANGE_TYPE_FOLDER || s->kind == CHANGE_KIND_DELETED))
		unlinkat(s->upper_dir, s->name, 0);
}

void cow_discard(struct cow_walk *w, struct cow_spot *s)
{
	if (!s->in_upper) {
		/* The file returns when the directory that replaced its own is discarded. */
		s->outcome = CHANGE_OUTCOME_DISCARDED;
		if (!w->chosen)
			set_conflict(s, "a part of a folder that was replaced: discard the folder");
	} else if ((s->type == CHANGE_TYPE_FOLDER && s->kind != CHANGE_KIND_DELETED) ||
		   unlinkat(s->upper_dir, s->name, 0) == 0) {
		s->outcome = CHANGE_OUTCOME_DISCARDED;
	} else {
		set_conflict(s, "%s", strerror(errno));
	}
}

/* An empty upper directory is still a change if it is new, has another mode, or replaces a directory. */
void cow_leave_folder(const struct cow_walk *w, const struct cow_spot *s, bool was_meant)
{
	bool settled = s->outcome == CHANGE_OUTCOME_APPLIED || s->outcome == CHANGE_OUTCOME_DISCARDED ||
		       (s->outcome == CHANGE_OUTCOME_PENDING && s->host.st_mode == s->upper.st_mode);
	if ((w->op == CHANGE_OP_APPLY || w->op == CHANGE_OP_DISCARD) && settled && (was_meant || !s->opaque))
		unlinkat(s->upper_dir, s->name, AT_REMOVEDIR);
}
