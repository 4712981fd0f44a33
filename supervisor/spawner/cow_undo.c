/*
 * Undoes an apply. First every record of its journal is compared with the host; a conflict ends it before anything is
 * changed. Then, in the order that the parent-child relation needs: entries that the apply added are removed, the last
 * ones first; previous entries are restored, folders before their contents; and folders get their previous modes, the
 * innermost first.
 *
 * Killed in between, it is repeated from the start: entries that are as they were before need nothing.
 */

#include "supervisor/spawner/cow_undo.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct step {
	struct undo_record r;
	char *path;      /* relative to the write root */
	bool cancelled;  /* it was not changed */
	bool writing;    /* a write in place was not completed, of the file r.device, r.inode */
	bool restored;   /* it is as it was before the apply */
	struct stat now; /* st_mode 0: no entry */
	enum change_outcome outcome;
	char note[CHANGE_NOTE_MAX];
};

struct undoing {
	struct cow_undo *undo;
	const int *hosts;
	struct step *steps;
	size_t n, room;
	bool whole;            /* everything is synced at the end, instead of each step */
	struct strmap by_path; /* "<root>/<path>" → step */
	char key[CHANGE_PATH_MAX + 16];
};

static void set_conflict(struct step *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void set_conflict(struct step *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->note, sizeof s->note, fmt, ap);
	va_end(ap);
	s->outcome = CHANGE_OUTCOME_CONFLICT;
}

/* ---- the journal ---- */

static struct step *find_step(struct undoing *d, uint32_t root, const char *path, size_t len)
{
	snprintf(d->key, sizeof d->key, "%u/%.*s", root, (int)len, path);
	return strmap_get(&d->by_path, d->key);
}

static void add_step(struct undoing *d, const struct undo_record *r, const char *path)
{
	if (d->n == d->room) {
		d->room = d->room ? d->room * 2 : 64;
		d->steps = mem_realloc(d->steps, d->room * sizeof *d->steps);
	}
	d->steps[d->n++] = (struct step){ .r = *r, .path = mem_strndup(path, r->path_len) };
}

struct reading {
	struct undoing *undoing;
	uint32_t nroots;
};

static int take_record(void *ctx, const struct undo_record *r, const char *path)
{
	const struct reading *reading = ctx;
	struct undoing *d = reading->undoing;
	if (r->kind == UNDO_CHANGE) {
		if (r->root >= reading->nroots)
			return -1;
		add_step(d, r, path);
	} else if (r->kind == UNDO_WRITING || r->kind == UNDO_WRITTEN) {
		if (r->kept >= d->n)
			return -1;
		struct step *s = &d->steps[r->kept];
		s->writing = r->kind == UNDO_WRITING;
		s->r.device = r->device;
		s->r.inode = r->inode;
	} else if (r->kind == UNDO_CANCELLED) {
		if (r->kept >= d->n || r->cleared > d->n - r->kept)
			return -1;
		for (size_t i = 0; i < r->cleared; i++)
			d->steps[r->kept + i].cancelled = true;
	}
	return 0;
}

static int read_journal(struct undoing *d, uint32_t nroots)
{
	struct reading reading = { d, nroots };
	struct cow_journal_end end;
	if (cow_journal_read(d->undo->journal, take_record, &reading, &end) < 0)
		return -1;
	d->undo->interrupted = end.interrupted;
	d->undo->damaged = end.damaged;
	d->undo->damaged_at = end.valid;
	errno = EBADMSG;
	if (end.damaged)
		return -1;
	/* The undo's own notes are read again only if they follow the last valid record. */
	if (ftruncate(d->undo->journal, (off_t)end.valid) < 0)
		return -1;
	for (size_t i = 0; i < d->n; i++) {
		struct step *s = &d->steps[i];
		snprintf(d->key, sizeof d->key, "%u/%s", s->r.root, s->path);
		if (!s->cancelled)
			strmap_put(&d->by_path, d->key, s);
	}
	return 0;
}

/* ---- folders on the host ---- */

/* A step's folder, and the folders above it whose modes were changed to get there. */
struct parent {
	int fd;
	const char *name; /* of the entry in it */
	size_t n;
	struct {
		int fd;
		mode_t mode;
	} opened[COW_DEPTH_MAX];
};

static void parent_close(struct parent *p)
{
	while (p->n > 0) {
		p->n--;
		fchmod(p->opened[p->n].fd, p->opened[p->n].mode & 07777);
		fd_close(&p->opened[p->n].fd);
	}
	fd_close(&p->fd);
}

/* Never follows a link and stays on the file system, as apply does. */
static int parent_open(const struct undoing *d, const struct step *s, struct parent *p)
{
	char name[NAME_MAX + 1];
	*p = (struct parent){ .fd = fcntl(d->hosts[s->r.root], F_DUPFD_CLOEXEC, 3), .name = s->path };
	for (const char *slash; p->fd >= 0 && (slash = strchr(p->name, '/')); p->name = slash + 1) {
		size_t len = (size_t)(slash - p->name);
		int below = -1;
		mode_t before = 0;
		errno = ENAMETOOLONG;
		if (len < sizeof name && p->n < COW_DEPTH_MAX) {
			snprintf(name, sizeof name, "%.*s", (int)len, p->name);
			before = cow_open_up(p->fd, name, NULL, &below);
		}
		int saved = errno;
		fd_close(&p->fd);
		p->fd = below;
		if (before && below >= 0) {
			p->opened[p->n].fd = fcntl(below, F_DUPFD_CLOEXEC, 3);
			p->opened[p->n++].mode = before;
		}
		errno = saved;
	}
	int saved = errno;
	if (p->fd < 0)
		parent_close(p);
	errno = saved;
	return p->fd < 0 ? -1 : 0;
}

/* ---- comparing ---- */

static bool same_version(const struct undo_version *a, const struct undo_version *b, bool owner)
{
	const uint32_t extra = a->type == S_IFDIR ? 0700 : 0; /* while apply or undo works in a folder */
	if (a->type != b->type || (a->type != S_IFLNK && (a->mode | extra) != (b->mode | extra)) ||
	    (owner && (a->uid != b->uid || a->gid != b->gid)))
		return false;
	return a->type == S_IFDIR || a->type == 0 || (a->size == b->size && strcmp(a->digest, b->digest) == 0);
}

/* The owner of an entry of another user cannot be restored without root. */
static bool is_restored(const struct step *s, const struct undo_version *now)
{
	const struct undo_version *before = &s->r.before;
	bool owner = before->type && (geteuid() == 0 || geteuid() == before->uid);
	return same_version(before, now, owner);
}

struct contents {
	struct undoing *undoing;
	struct step *step;
};

/* In a folder that is to be removed: each entry must be one that the apply made. */
static int check_known(void *ctx, int folder, const char *name)
{
	struct contents *c = ctx;
	char path[CHANGE_PATH_MAX + NAME_MAX + 2];
	int n = snprintf(path, sizeof path, "%s/%s", c->step->path, name);
	if (find_step(c->undoing, c->step->r.root, path, (size_t)n))
		return 0;
	set_conflict(c->step, "it contains %.100s, which the apply did not make", name);
	return 1;
}

static void check_entry(struct undoing *d, struct step *s, const struct parent *p)
{
	struct undo_version now;
	struct contents c = { d, s };
	char temporary[64];
	cow_temporary_name(s->r.temporary, temporary);
	unlinkat(p->fd, temporary, 0); /* of an apply or undo that was killed */
	if (undo_version_read(p->fd, p->name, -1, UINT64_MAX, &now, &s->now) < 0) {
		set_conflict(s, "read it: %s", strerror(errno));
		return;
	}
	s->restored = is_restored(s, &now);
	bool half = s->writing && s->now.st_mode && s->now.st_dev == s->r.device && s->now.st_ino == s->r.inode;
	if (!s->restored && !same_version(&s->r.after, &now, false) && !(s->r.cleared && !now.type) && !half) {
		set_conflict(s, "changed since the apply");
		return;
	}
	if (now.type != S_IFDIR || s->r.before.type == S_IFDIR)
		return;
	int below = -1;
	mode_t before = cow_open_up(p->fd, p->name, &s->now, &below);
	if (below < 0 || cow_each_entry(below, check_known, &c) < 0)
		set_conflict(s, "read the folder: %s", strerror(errno));
	if (before && below >= 0)
		fchmod(below, before & 07777);
	fd_close(&below);
}

static void check_step(struct undoing *d, struct step *s)
{
	struct parent p;
	const char *slash = strrchr(s->path, '/');
	if (parent_open(d, s, &p) == 0) {
		check_entry(d, s, &p);
		parent_close(&p);
		return;
	}
	/* A folder that the apply removed or replaced, or that an undo has removed again: it is checked itself. */
	bool known = slash && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) &&
		     find_step(d, s->r.root, s->path, (size_t)(slash - s->path));
	if (!known)
		set_conflict(s, "open its folder: %s", strerror(errno));
	else if (s->r.before.type && s->r.after.type && !s->r.cleared)
		set_conflict(s, "changed since the apply");
	s->restored = !s->r.before.type;
}

/* ---- restoring ---- */

static void remove_added(struct step *s, const struct parent *p)
{
	bool folder = S_ISDIR(s->now.st_mode);
	const struct cow_spot spot = { .host_dir = p->fd, .name = p->name, .host = s->now };
	if (!folder && !cow_still_same(&spot))
		set_conflict(s, "changed on the host just now");
	else if (unlinkat(p->fd, p->name, folder ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT)
		set_conflict(s, "remove it: %s", strerror(errno));
}

static void restore_entry(struct undoing *d, struct step *s, const struct parent *p)
{
	const struct undo_version *v = &s->r.before;
	char kept[16];
	snprintf(kept, sizeof kept, "%u", s->r.kept);
	struct cow_spot spot = {
		.upper_dir = d->undo->folder,
		.upper_name = kept,
		.host_dir = p->fd,
		.name = p->name,
		.type = v->type == S_IFDIR   ? CHANGE_TYPE_FOLDER
			: v->type == S_IFLNK ? CHANGE_TYPE_SYMLINK
					     : CHANGE_TYPE_FILE,
		.undo = d->undo,
		.host = s->now,
		.upper = { .st_mode = v->type | v->mode,
			   .st_uid = v->uid,
			   .st_gid = v->gid,
			   .st_mtim = { .tv_sec = v->mtime_s, .tv_nsec = v->mtime_ns } },
	};
	bool other = s->now.st_mode && S_ISDIR(s->now.st_mode) != (v->type == S_IFDIR);
	if (other)
		remove_added(s, p);
	if (s->outcome == CHANGE_OUTCOME_CONFLICT)
		return;
	if (other)
		spot.host = (struct stat){ 0 };
	spot.record = (uint32_t)(s - d->steps);
	cow_temporary_name(s->r.temporary, spot.temporary);
	cow_put(&spot);
	if (spot.outcome == CHANGE_OUTCOME_CONFLICT)
		set_conflict(s, "%s", spot.note);
	else if (v->type == S_IFDIR)
		s->now = spot.folder;
}

static void finish_folder(struct step *s, const struct parent *p)
{
	const struct undo_version *v = &s->r.before;
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
					   { .tv_sec = v->mtime_s, .tv_nsec = v->mtime_ns } };
	fd_auto int fd = -1;
	cow_open_up(p->fd, p->name, &s->now, &fd);
	if (fd < 0 || fchmod(fd, v->mode) < 0 || futimens(fd, times) < 0)
		set_conflict(s, "set its mode: %s", strerror(errno));
}

enum phase { REMOVE, RESTORE, FINISH };

static void do_step(struct undoing *d, struct step *s, enum phase phase)
{
	struct parent p;
	bool wanted = phase == REMOVE    ? !s->r.before.type && s->now.st_mode
		      : phase == RESTORE ? s->r.before.type && !s->restored
					 : s->r.before.type == S_IFDIR;
	if (!wanted || s->cancelled)
		return;
	if (parent_open(d, s, &p) < 0) {
		set_conflict(s, "open its folder: %s", strerror(errno));
		return;
	}
	if (phase == REMOVE)
		remove_added(s, &p);
	else if (phase == RESTORE)
		restore_entry(d, s, &p);
	else
		finish_folder(s, &p);
	/* Durable before the journal is removed. */
	if (!d->whole && s->outcome != CHANGE_OUTCOME_CONFLICT && fsync(p.fd) < 0)
		set_conflict(s, "sync its folder: %s", strerror(errno));
	parent_close(&p);
}

/* False: it stopped at a failure, and can be repeated. */
static bool do_phase(struct undoing *d, enum phase phase)
{
	for (size_t i = 0; i < d->n; i++) {
		struct step *s = &d->steps[phase == RESTORE ? i : d->n - 1 - i];
		do_step(d, s, phase);
		if (s->outcome == CHANGE_OUTCOME_CONFLICT)
			return false;
	}
	return true;
}

/* ---- the whole ---- */

static void report_steps(struct undoing *d, struct cow_walk *w, const char *const *paths, bool done)
{
	for (size_t i = 0; i < d->n; i++) {
		struct step *s = &d->steps[i];
		if (s->cancelled)
			continue;
		const struct undo_version *v = s->r.before.type ? &s->r.before : &s->r.after;
		mem_auto char *path = mem_printf("%s/%s", paths[s->r.root], s->path);
		const struct change c = {
			.kind = !s->r.before.type  ? CHANGE_KIND_DELETED
				: !s->r.after.type ? CHANGE_KIND_ADDED
						   : CHANGE_KIND_MODIFIED,
			.type = v->type == S_IFDIR   ? CHANGE_TYPE_FOLDER
				: v->type == S_IFLNK ? CHANGE_TYPE_SYMLINK
						     : CHANGE_TYPE_FILE,
			.outcome = done ? CHANGE_OUTCOME_UNDONE : s->outcome,
			.mode = s->r.before.type | s->r.before.mode,
			.old_mode = s->r.after.type | s->r.after.mode,
			.bytes = s->r.before.size,
			.path = path,
			.path_len = strlen(path),
			.note = s->note,
			.note_len = strlen(s->note),
			.diff = "",
		};
		change_list_add(w->out, &c);
	}
}

void cow_undo_clean(struct cow_undo *u, const int *hosts, uint32_t nroots)
{
	struct cow_undo old = COW_UNDO_INIT;
	struct undoing d = { .undo = &old, .hosts = hosts, .by_path = STRMAP_INIT };
	struct reading reading = { &d, nroots };
	struct cow_journal_end end = { 0 };
	struct parent p;
	char temporary[64];
	uint32_t count, number = u->all < 0 ? 0 : cow_undo_newest(u, &count);
	old.all = u->all;
	if (number && cow_undo_enter(&old, number, false) == 0)
		cow_journal_read(old.journal, take_record, &reading, &end);
	for (size_t i = 0; end.interrupted && i < d.n; i++) {
		struct step *s = &d.steps[i];
		if (hosts[s->r.root] < 0 || parent_open(&d, s, &p) < 0)
			continue;
		cow_temporary_name(s->r.temporary, temporary);
		unlinkat(p.fd, temporary, 0);
		parent_close(&p);
	}
	for (size_t i = 0; i < d.n; i++)
		free(d.steps[i].path);
	free(d.steps);
	fd_close(&old.journal);
	fd_close(&old.folder);
}

int cow_undo_newest_apply(struct cow_undo *u, struct cow_walk *w, const int *hosts, const char *const *paths,
			  uint32_t nroots)
{
	struct undoing d = { .undo = u, .hosts = hosts, .by_path = STRMAP_INIT };
	uint32_t count, number = cow_undo_newest(u, &count);
	if (!number) {
		errno = u->all >= 0 && faccessat(u->all, UNDO_DONE, F_OK, 0) == 0 ? EALREADY : ENODATA;
		return -1;
	}
	if (cow_undo_enter(u, number, false) < 0 || read_journal(&d, nroots) < 0)
		return -1;
	bool done = true;
	for (size_t i = d.n; i-- > 0;) { /* what a folder contains is cleaned up before the folder is checked */
		if (d.steps[i].cancelled)
			continue;
		if (hosts[d.steps[i].r.root] < 0) {
			errno = ESTALE;
			return -1;
		}
		check_step(&d, &d.steps[i]);
		done &= d.steps[i].outcome != CHANGE_OUTCOME_CONFLICT;
	}
	d.whole = d.n > 0;
	for (uint32_t i = 0; i < nroots; i++)
		d.whole &= hosts[i] < 0 || cow_syncs_as_whole(hosts[i]);
	done = done && do_phase(&d, REMOVE) && do_phase(&d, RESTORE) && do_phase(&d, FINISH);
	for (uint32_t i = 0; done && d.whole && i < nroots; i++) {
		if (hosts[i] >= 0 && syncfs(hosts[i]) < 0)
			return -1;
	}
	report_steps(&d, w, paths, done);
	if (!done)
		return 0; /* the helper exits: nothing is freed */
	fd_auto int mark = openat(u->all, UNDO_DONE, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (mark < 0 || fsync(u->all) < 0)
		return -1;
	cow_undo_forget(u, number);
	return 0;
}
