/*
 * Finds what a run changed by walking the overlay's upper layer in parallel with the host's tree. An entry in the upper
 * layer was written or deleted; whether it existed before is decided by the host's current state.
 *
 * Both trees have untrusted content, and the host's can change during the walk: every descent is by descriptor and
 * never follows a link.
 */

#include "supervisor/spawner/cow.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/steps/overlay.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define COMPARE_CHUNK (128u * 1024)

struct names {
	char **name;
	size_t count, room;
};

static void names_done(struct names *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->name[i]);
	free(n->name);
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Reads a directory's entries, sorted. An error is no end: what was not seen would count as unchanged. */
static int names_read(struct names *n, int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		int saved = errno;
		fd_close(&fd);
		errno = saved;
		return -1;
	}
	for (const struct dirent *en; (errno = 0, en = readdir(d));) {
		if (strcmp(en->d_name, ".") == 0 || strcmp(en->d_name, "..") == 0)
			continue;
		if (n->count == n->room) {
			n->room = n->room ? n->room * 2 : 32;
			n->name = mem_realloc(n->name, n->room * sizeof *n->name);
		}
		n->name[n->count++] = mem_strdup(en->d_name);
	}
	const int error = errno;
	closedir(d);
	if (n->count)
		qsort(n->name, n->count, sizeof *n->name, compare_names);
	errno = error;
	return error ? -1 : 0;
}

/* True for a directory that replaces the lower one instead of merging with it. */
static bool is_opaque(int folder)
{
	char value = 0;
	return (fgetxattr(folder, "user.overlay.opaque", &value, 1) == 1 ||
		fgetxattr(folder, "trusted.overlay.opaque", &value, 1) == 1) &&
	       value == 'y';
}

static bool is_placeholder(int dir, const char *name, const struct stat *st, unsigned depth);

static bool holds_placeholders_only(int folder, unsigned depth)
{
	struct names names = { 0 };
	struct stat st;
	bool only = names_read(&names, folder) == 0 && depth < COW_DEPTH_MAX;
	for (size_t i = 0; only && i < names.count; i++)
		only = fstatat(folder, names.name[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		       is_placeholder(folder, names.name[i], &st, depth + 1);
	names_done(&names);
	return only;
}

/*
 * Created while the sandbox was built, as a mount point. The command can put the mark on what it creates itself. So
 * whatever has content is a change.
 */
static bool is_placeholder(int dir, const char *name, const struct stat *st, unsigned depth)
{
	char value = 0;
	if (!S_ISDIR(st->st_mode) && (!S_ISREG(st->st_mode) || st->st_size))
		return false;
	fd_auto int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fgetxattr(fd, OVERLAY_PLACEHOLDER, &value, 1) != 1)
		return false;
	return !S_ISDIR(st->st_mode) || holds_placeholders_only(fd, depth);
}

static enum change_type type_of(mode_t mode)
{
	return S_ISREG(mode)   ? CHANGE_TYPE_FILE
	       : S_ISDIR(mode) ? CHANGE_TYPE_FOLDER
	       : S_ISLNK(mode) ? CHANGE_TYPE_SYMLINK
			       : CHANGE_TYPE_OTHER;
}

static void stat_entry(int dir, const char *name, struct stat *st)
{
	if (dir < 0 || fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) < 0)
		*st = (struct stat){ 0 };
}

static bool same_target(const struct cow_spot *s)
{
	char a[PATH_MAX], b[PATH_MAX];
	ssize_t an = readlinkat(s->upper_dir, s->name, a, sizeof a), bn = readlinkat(s->host_dir, s->name, b, sizeof b);
	return an >= 0 && an == bn && memcmp(a, b, (size_t)an) == 0;
}

static bool same_bytes(int a, int b)
{
	mem_auto char *left = mem_alloc(COMPARE_CHUNK), *right = mem_alloc(COMPARE_CHUNK);
	for (;;) {
		ssize_t an = fd_read_all(a, left, COMPARE_CHUNK), bn = fd_read_all(b, right, COMPARE_CHUNK);
		if (an < 0 || an != bn || memcmp(left, right, (size_t)an) != 0)
			return false;
		if (an < (ssize_t)COMPARE_CHUNK)
			return true;
	}
}

static bool same_content(const struct cow_spot *s)
{
	fd_auto int upper = cow_open_upper(s),
		    host = openat(s->host_dir, s->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return upper >= 0 && host >= 0 && same_bytes(upper, host);
}

/*
 * Overlayfs copies a file up when it is opened for writing; that alone is not a change. A written file usually has
 * another mtime, but a command can set that back, so the contents are compared, too.
 */
static bool is_unchanged(const struct cow_spot *s)
{
	const struct stat *u = &s->upper, *h = &s->host;
	if (u->st_mode != h->st_mode || u->st_uid != h->st_uid || u->st_gid != h->st_gid)
		return false;
	if (S_ISDIR(u->st_mode))
		return true;
	if (S_ISLNK(u->st_mode))
		return same_target(s);
	return S_ISREG(u->st_mode) && u->st_size == h->st_size && u->st_mtim.tv_sec == h->st_mtim.tv_sec &&
	       u->st_mtim.tv_nsec == h->st_mtim.tv_nsec && same_content(s);
}

/* ---- one difference ---- */

static bool is_selected(const struct cow_walk *w)
{
	return w->chosen || change_list_selects(w->paths, w->paths_len, w->path, w->path_len);
}

static void report_change(struct cow_walk *w, const struct cow_spot *s, const struct buf *diff)
{
	const struct stat *st = s->upper.st_mode && s->kind != CHANGE_KIND_DELETED ? &s->upper : &s->host;
	const struct change c = {
		.kind = s->kind,
		.type = s->type,
		.outcome = s->outcome,
		.mode = s->kind == CHANGE_KIND_DELETED ? 0 : s->upper.st_mode,
		.old_mode = s->host.st_mode,
		.bytes = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
		.path = w->path,
		.path_len = w->path_len,
		.note = s->note,
		.note_len = strlen(s->note),
		.diff = diff ? diff->data : NULL,
		.diff_len = diff ? diff->len : 0,
	};
	change_list_add(w->out, &c);
}

/* Whether the request is about this difference. An apply is only begun here: cow_apply_batch does it. */
static void begin_change(struct cow_walk *w, struct cow_spot *s)
{
	/* The parent directories of a selected path must exist, too. */
	bool way = w->op == CHANGE_OP_APPLY && s->kind != CHANGE_KIND_DELETED && s->type == CHANGE_TYPE_FOLDER &&
		   change_list_leads_to(w->paths, w->paths_len, w->path, w->path_len);
	if (!is_selected(w) && !way)
		return;
	s->visited = true;
	s->outcome = CHANGE_OUTCOME_PENDING;
	if (w->op == CHANGE_OP_APPLY)
		cow_apply_begin(w, s);
}

static void end_change(struct cow_walk *w, struct cow_spot *s)
{
	buf_auto struct buf diff = BUF_INIT;
	if (w->op == CHANGE_OP_DISCARD)
		cow_discard(w, s);
	else if (w->op == CHANGE_OP_DIFF &&
		 ((const struct change_list_head *)(const void *)w->out->data)->count < CHANGE_LIST_DIFFED_MAX)
		cow_diff(w, s, &diff);
	report_change(w, s, &diff);
}

static bool push_name(struct cow_walk *w, const char *name)
{
	size_t n = strlen(name);
	if (w->path_len + 1 + n > CHANGE_PATH_MAX)
		return false;
	w->path[w->path_len++] = '/';
	memcpy(w->path + w->path_len, name, n + 1);
	w->path_len += n;
	return true;
}

static void pop_name(struct cow_walk *w, size_t len)
{
	w->path_len = len;
	w->path[len] = 0;
}

/* ---- folders ---- */

static int walk_folder(struct cow_walk *w, int upper, int host, bool opaque);

static void folder_unreadable(struct cow_walk *w, struct cow_spot *s, int errnum)
{
	if (!is_selected(w))
		return;
	s->outcome = CHANGE_OUTCOME_CONFLICT;
	snprintf(s->note, sizeof s->note, "the folder cannot be read: %s", strerror(errnum));
	report_change(w, s, NULL);
}

/* Entries too deep, or with names too long to report, can still be discarded with their directory. */
static bool is_discarded(const struct cow_walk *w, int upper_dir, const char *name)
{
	return w->op == CHANGE_OP_DISCARD && (w->chosen || is_selected(w)) && cow_remove(upper_dir, name) == 0;
}

static bool is_wanted(const struct stat *wanted, const struct stat *st)
{
	return !wanted || (st->st_dev == wanted->st_dev && st->st_ino == wanted->st_ino);
}

mode_t cow_open_up(int dir, const char *name, const struct stat *wanted, int *ret)
{
	struct stat st, now;
	mode_t before = 0;
	int fd = cow_open_folder(dir, name);
	if (fd < 0 && errno == EACCES && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	    is_wanted(wanted, &st) && fchmodat(dir, name, 0700, AT_SYMLINK_NOFOLLOW) == 0) {
		before = st.st_mode;
		fd = cow_open_folder(dir, name);
	}
	*ret = fd;
	if (fd < 0)
		return before;
	if (fstat(fd, &now) < 0 || !is_wanted(wanted, &now)) {
		fd_close(ret);
		errno = ESTALE;
		return 0;
	}
	if ((now.st_mode & 0700) != 0700 && fchmod(fd, (now.st_mode & 07777) | 0700) == 0)
		before = now.st_mode;
	return before;
}

static void walk_below(struct cow_walk *w, struct cow_spot *s)
{
	bool chosen = w->chosen, writes = w->op == CHANGE_OP_APPLY;
	fd_auto int upper = -1;
	mode_t upper_before = cow_open_up(s->upper_dir, s->name, NULL, &upper), host_before = 0;
	if (upper >= 0 && w->depth >= COW_DEPTH_MAX && is_discarded(w, s->upper_dir, s->name))
		return;
	if (upper < 0 || w->depth >= COW_DEPTH_MAX) {
		folder_unreadable(w, s, upper < 0 ? errno : ELOOP);
		return;
	}
	/*
	 * If the host has another type of entry there, nothing below can be compared. When applying, the directory
	 * exists by now.
	 */
	fd_auto int host = -1;
	if (s->host_dir >= 0 && writes)
		host_before = cow_open_up(s->host_dir, s->name, s->folder.st_mode ? &s->folder : &s->host, &host);
	else if (s->host_dir >= 0)
		host = cow_open_folder(s->host_dir, s->name);
	w->depth++;
	w->chosen = is_selected(w);
	s->opaque = is_opaque(upper);
	if (walk_folder(w, upper, host, s->opaque) < 0)
		folder_unreadable(w, s, errno);
	if (upper_before)
		fchmod(upper, upper_before & 07777);
	if (host >= 0 && writes)
		cow_finish_folder(s, host, host_before);
	cow_leave_folder(w, s, w->chosen);
	w->chosen = chosen;
	w->depth--;
}

static void find_entry(struct cow_walk *w, struct cow_spot *s)
{
	bool settles = w->op == CHANGE_OP_APPLY || w->op == CHANGE_OP_DISCARD;
	s->in_upper = true;
	s->undo = w->undo;
	if (cow_whiteout(&s->upper)) {
		s->kind = CHANGE_KIND_DELETED;
		s->type = type_of(s->host.st_mode);
		if (s->host.st_mode)
			begin_change(w, s);
		else if (settles)
			unlinkat(s->upper_dir, s->name, 0);
		return;
	}
	s->kind = s->host.st_mode ? CHANGE_KIND_MODIFIED : CHANGE_KIND_ADDED;
	s->type = type_of(s->upper.st_mode);
	if (s->kind == CHANGE_KIND_ADDED && is_placeholder(s->upper_dir, s->name, &s->upper, 0))
		return;
	s->below = s->type == CHANGE_TYPE_FOLDER;
	if (s->kind == CHANGE_KIND_ADDED || !is_unchanged(s))
		begin_change(w, s);
	else if (!s->below && is_selected(w) && settles)
		s->same = true; /* an apply that was interrupted may not have synced the name */
	if (s->same && w->op == CHANGE_OP_DISCARD)
		unlinkat(s->upper_dir, s->name, 0);
}

/* The next difference. `gone`: the names are those that the host has in a replaced directory. */
static void find_change(struct cow_walk *w, int upper, int host, const char *name, bool gone, struct cow_spot *s)
{
	*s = (struct cow_spot){
		.upper_dir = upper, .host_dir = host, .name = name, .upper_name = name, .unsynced = -1
	};
	stat_entry(upper, name, &s->upper);
	stat_entry(host, name, &s->host);
	if (!gone && s->upper.st_mode)
		find_entry(w, s);
	if (!gone || s->upper.st_mode || !s->host.st_mode)
		return; /* the new directory has it, too */
	s->kind = CHANGE_KIND_DELETED;
	s->type = type_of(s->host.st_mode);
	begin_change(w, s);
}

/* Up to COW_BATCH_MAX entries of one directory, then what is below them. */
static int walk_batch(struct cow_walk *w, int upper, int host, char **names, size_t n, bool gone)
{
	mem_auto struct cow_spot *spots = mem_zalloc(n, sizeof *spots);
	size_t len = w->path_len, found = 0;
	int error = 0;
	for (size_t i = 0; i < n; i++) {
		if (push_name(w, names[i]))
			find_change(w, upper, host, names[i], gone, &spots[found++]);
		else if (!gone && !is_discarded(w, upper, names[i]))
			error = ENAMETOOLONG;
		pop_name(w, len);
	}
	if (w->op == CHANGE_OP_APPLY)
		cow_apply_batch(w, host, spots, found);
	for (size_t i = 0; i < found; i++) {
		push_name(w, spots[i].name);
		if (spots[i].visited)
			end_change(w, &spots[i]);
		if (spots[i].below)
			walk_below(w, &spots[i]);
		pop_name(w, len);
	}
	return error;
}

/* Returns 0 or an errno. */
static int walk_names(struct cow_walk *w, int upper, int host, const struct names *names, bool gone)
{
	int error = 0;
	for (size_t at = 0; at < names->count; at += COW_BATCH_MAX) {
		size_t n = names->count - at < COW_BATCH_MAX ? names->count - at : COW_BATCH_MAX;
		int failed = walk_batch(w, upper, host, names->name + at, n, gone);
		error = failed ? failed : error;
	}
	return error;
}

static int walk_folder(struct cow_walk *w, int upper, int host, bool opaque)
{
	struct names above = { 0 }, below = { 0 };
	/* Read both listings first: the visits change the directories. */
	int r = names_read(&above, upper);
	if (r == 0 && opaque && host >= 0)
		r = names_read(&below, host);
	int error = r < 0 ? errno : 0;
	walk_names(w, upper, host, &below, true);
	int failed = walk_names(w, upper, host, &above, false);
	names_done(&above);
	names_done(&below);
	errno = failed ? failed : error;
	return failed || error ? -1 : 0;
}

int cow_walk_root(struct cow_walk *w, int upper, int host)
{
	w->depth = 0;
	w->chosen = change_list_selects(w->paths, w->paths_len, w->path, w->path_len);
	if (!change_list_leads_to(w->paths, w->paths_len, w->path, w->path_len))
		return 0;
	return walk_folder(w, upper, host, false);
}
