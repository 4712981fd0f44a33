/*
 * Applies changes to the host, or discards them.
 *
 * The entries of a directory are applied together, because syncs are what takes time: all are recorded for undo, and
 * the records synced; all new files are written, and synced; then all are put in place (cow_put.c), and the directory
 * is synced.
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
#include "sandbox/autorun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
		cow_set_conflict(s, "changed on the host since the run began");
	else if (young < 0)
		cow_set_conflict(s, "look at what the host has there: %s", strerror(errno));
}

/* Removes the host's entry unless something in it changed after the run began. */
static int clear_host(const struct cow_walk *w, struct cow_spot *s)
{
	check_age(w, s);
	if (s->outcome == CHANGE_OUTCOME_CONFLICT)
		return -1;
	s->touched = true;
	if (cow_remove_found(s->host_dir, s->name, &s->host) < 0)
		cow_set_conflict(s, "remove: %s", strerror(errno));
	return s->outcome == CHANGE_OUTCOME_CONFLICT ? -1 : 0;
}

/* ---- applying ---- */

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
		cow_set_conflict(s, "its folder is not there on the host");
	else if (s->type == CHANGE_TYPE_OTHER && s->kind != CHANGE_KIND_DELETED)
		cow_set_conflict(s, "not a file, folder or symbolic link: never applied");
	else if (s->kind == CHANGE_KIND_DELETED || !s->host.st_mode || (folder_now && folder_then))
		return;
	else if (is_later(&s->host.st_ctim, &w->started))
		cow_set_conflict(s, "changed on the host since the run began");
	else
		s->replaces = folder_now != folder_then || !S_ISREG(s->host.st_mode) != !S_ISREG(s->upper.st_mode);
}

/* In the layer or on the host: of a path from the entry's directory. */
static bool has_entry(const struct cow_spot *s, const char *path)
{
	struct stat st;
	return (fstatat(s->upper_dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && !cow_whiteout(&st)) ||
	       (s->host_dir >= 0 && fstatat(s->host_dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0);
}

/* A part of git's own criteria is enough: what is missing may be applied later. */
static bool is_git_folder(void *spot, size_t levels)
{
	static const char *const names[] = { "HEAD", "objects", "refs" };
	bool has[countof(names)];
	char path[3 * COW_DEPTH_MAX + 16];
	if (levels > COW_DEPTH_MAX)
		return true;
	for (size_t i = 0; i < countof(names); i++) {
		size_t n = 0;
		for (size_t up = 0; up < levels; up++, n += 3)
			memcpy(path + n, "../", 3);
		snprintf(path + n, sizeof path - n, "%s", names[i]);
		has[i] = has_entry(spot, path);
	}
	return has[0] || (has[1] && has[2]);
}

/* Hooks read other files of their directory. */
static bool is_beside_hook(const struct cow_spot *s)
{
	for (size_t i = 0; autorun_hook_name(i); i++)
		if (has_entry(s, autorun_hook_name(i)))
			return true;
	return false;
}

static bool looks_like_autorun(const struct cow_walk *w, struct cow_spot *s)
{
	return s->type != CHANGE_TYPE_FOLDER && s->kind != CHANGE_KIND_DELETED &&
	       !change_list_names(w->paths, w->paths_len, w->path, w->path_len) &&
	       (autorun_name_matches(w->path + w->root_len, is_git_folder, s) || is_beside_hook(s));
}

/* True for an autorun file that the request does not name: those are applied only by name. */
static bool is_held_back(const struct cow_walk *w, struct cow_spot *s)
{
	for (size_t at = 0; at < w->held_len; at += strlen(w->held + at) + 1) {
		const char *path = w->held + at + 1;

		if (*path ? strcmp(path, w->path) == 0 : looks_like_autorun(w, s))
			return true;
	}
	return false;
}

static bool clears(const struct cow_spot *s) { return s->kind == CHANGE_KIND_DELETED || s->replaces; }

void cow_apply_begin(struct cow_walk *w, struct cow_spot *s)
{
	check_conflict(w, s);
	if (s->outcome != CHANGE_OUTCOME_CONFLICT && is_held_back(w, s))
		cow_set_conflict(s,
				 "held back: a program outside the sandbox executes it by itself; name it to apply it");
	if (s->outcome != CHANGE_OUTCOME_CONFLICT && clears(s))
		check_age(w, s); /* clear_host repeats it, for what changes meanwhile */
	if (s->outcome == CHANGE_OUTCOME_CONFLICT)
		return;
	cow_temporary_name(cow_temporary_bits(w->undo, w->path + w->root_len + 1), s->temporary);
	if (cow_keep(w, s) < 0)
		cow_set_conflict(s, "remove what can no longer be undone: %s", strerror(errno));
	else
		s->ready = true;
}

/* Fails the spots that would go on. */
static void fail_ready(struct cow_spot *spots, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++) {
		if (spots[i].ready && spots[i].outcome != CHANGE_OUTCOME_CONFLICT)
			cow_set_conflict(&spots[i], "%s: %s", what, strerror(errno));
	}
}

static void prepare_all(struct cow_spot *spots, size_t n)
{
	int unsynced[COW_BATCH_MAX] = { -1 };
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		if (!spots[i].ready || spots[i].outcome == CHANGE_OUTCOME_CONFLICT ||
		    spots[i].kind == CHANGE_KIND_DELETED)
			continue;
		cow_put_prepare(&spots[i]);
		if (spots[i].unsynced >= 0)
			unsynced[count++] = spots[i].unsynced;
	}
	bool failed = cow_sync(unsynced, count) < 0;
	int saved = errno;
	for (size_t i = 0; i < n; i++) {
		fd_close(&spots[i].unsynced);
		errno = saved;
		if (failed && spots[i].prepared) {
			cow_set_conflict(&spots[i], "sync it: %s", strerror(errno));
			cow_put_cancel(&spots[i]);
		}
	}
}

static void finish_spot(struct cow_walk *w, struct cow_spot *s)
{
	if (clears(s) && clear_host(w, s) == 0 && s->replaces)
		s->host = (struct stat){ 0 };
	if (s->outcome != CHANGE_OUTCOME_CONFLICT && s->kind != CHANGE_KIND_DELETED)
		cow_put_finish(s);
	else if (s->prepared)
		cow_put_cancel(s);
}

/* Best effort: if the unlink fails, the entry equals the host's and is no longer a difference. */
static void settle_spot(struct cow_walk *w, struct cow_spot *s)
{
	if (s->outcome == CHANGE_OUTCOME_CONFLICT) {
		if (s->ready && !s->touched)
			cow_keep_cancel(w->undo, s);
		return;
	}
	if (s->ready)
		s->outcome = CHANGE_OUTCOME_APPLIED;
	if ((s->ready || s->same) && s->in_upper && (s->type != CHANGE_TYPE_FOLDER || s->kind == CHANGE_KIND_DELETED))
		unlinkat(s->upper_dir, s->name, 0);
}

void cow_apply_batch(struct cow_walk *w, int host, struct cow_spot *spots, size_t n)
{
	bool work = false;
	for (size_t i = 0; i < n; i++)
		work |= spots[i].ready || spots[i].same;
	if (!work)
		return;
	if (cow_keep_sync(w->undo) < 0)
		fail_ready(spots, n, "remove what can no longer be undone");
	prepare_all(spots, n);
	for (size_t i = 0; i < n; i++) {
		if (spots[i].ready && spots[i].outcome != CHANGE_OUTCOME_CONFLICT)
			finish_spot(w, &spots[i]);
	}
	if (fsync(host) < 0) {
		for (size_t i = 0; i < n; i++) {
			spots[i].touched |= spots[i].ready && spots[i].outcome != CHANGE_OUTCOME_CONFLICT;
			spots[i].same = false;
		}
		fail_ready(spots, n, "sync its folder");
	}
	for (size_t i = 0; i < n; i++)
		settle_spot(w, &spots[i]);
}

void cow_discard(struct cow_walk *w, struct cow_spot *s)
{
	if (!s->in_upper) {
		/* The file returns when the directory that replaced its own is discarded. */
		s->outcome = CHANGE_OUTCOME_DISCARDED;
		if (!w->chosen)
			cow_set_conflict(s, "a part of a folder that was replaced: discard the folder");
	} else if ((s->type == CHANGE_TYPE_FOLDER && s->kind != CHANGE_KIND_DELETED) ||
		   unlinkat(s->upper_dir, s->name, 0) == 0) {
		s->outcome = CHANGE_OUTCOME_DISCARDED;
	} else {
		cow_set_conflict(s, "%s", strerror(errno));
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
