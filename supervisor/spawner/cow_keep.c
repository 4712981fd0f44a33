#include "supervisor/spawner/cow_undo.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (128u * 1024)

/* ---- the folders ---- */

int cow_undo_open(struct cow_undo *u, int run, const struct cow_owner *owner, bool create)
{
	/* Its name is durable before the host changes: a journal that a power cut takes cannot undo anything. */
	if (create && ((mkdirat(run, UNDO_NAME, 0700) < 0 && errno != EEXIST) || fsync(run) < 0))
		u->error = errno;
	u->all = openat(run, UNDO_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (u->all < 0) /* one that is there but cannot be opened may have journals */
		return errno == ENOENT && (!create || u->error) ? 0 : -1;
	if (create && geteuid() == 0 && fchown(u->all, owner->uid, owner->gid) < 0) {
		u->error = errno;
		if (unlinkat(run, UNDO_NAME, AT_REMOVEDIR) == 0)
			fd_close(&u->all);
	}
	return 0;
}

static void folder_name(char name[16], uint32_t number) { snprintf(name, 16, "%08u", number); }

/* The journal goes first: a folder without one is a remainder. */
int cow_undo_forget(const struct cow_undo *u, uint32_t number)
{
	char name[16];
	folder_name(name, number);
	fd_auto int folder = cow_open_folder(u->all, name);
	if (folder < 0)
		return errno == ENOENT ? 0 : -1;
	if ((unlinkat(folder, UNDO_JOURNAL, 0) < 0 && errno != ENOENT) || fsync(folder) < 0)
		return -1;
	cow_remove(u->all, name);
	return 0;
}

struct scan {
	uint32_t newest, oldest, count;
};

static int scan_entry(void *ctx, int all, const char *name)
{
	struct scan *s = ctx;
	uint32_t number = (uint32_t)strtoul(name, NULL, 10);
	char journal[32];
	if (strcmp(name, UNDO_DONE) == 0)
		return 0;
	snprintf(journal, sizeof journal, "%.16s/" UNDO_JOURNAL, name);
	if (faccessat(all, journal, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -1;
		cow_remove(all, name);
		return 0;
	}
	s->count++;
	s->newest = number > s->newest ? number : s->newest;
	s->oldest = !s->oldest || number < s->oldest ? number : s->oldest;
	return 0;
}

uint32_t cow_undo_newest(const struct cow_undo *u, uint32_t *ret_count)
{
	struct scan s = { 0 };
	if (u->all >= 0)
		cow_each_entry(u->all, scan_entry, &s);
	*ret_count = s.count;
	return s.newest;
}

int cow_undo_enter(struct cow_undo *u, uint32_t number, bool create)
{
	char name[16];
	folder_name(name, number);
	if (create && mkdirat(u->all, name, 0700) < 0)
		return -1;
	u->number = number;
	u->folder = cow_open_folder(u->all, name);
	if (u->folder < 0)
		return -1;
	u->journal = openat(u->folder, UNDO_JOURNAL,
			    O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
	return u->journal < 0 || (create && (fsync(u->folder) < 0 || fsync(u->all) < 0)) ? -1 : 0;
}

void cow_keep_begin(struct cow_undo *u)
{
	struct scan s = { 0 };
	if (u->error)
		return;
	if (cow_each_entry(u->all, scan_entry, &s) < 0) {
		u->error = errno;
		return;
	}
	if (s.count >= UNDO_APPLIES_MAX)
		cow_undo_forget(u, s.oldest);
	if ((unlinkat(u->all, UNDO_DONE, 0) < 0 && errno != ENOENT) || cow_undo_enter(u, s.newest + 1, true) < 0)
		u->error = errno;
}

/*
 * Called before the host changes in a way that no journal has. None may remain: this apply's would restore a part, and
 * the older ones what lies beneath it. The oldest goes first, so that whatever remains after a kill is still valid.
 */
static int lose_all(struct cow_undo *u)
{
	struct scan s = { 0 };
	int r = u->all < 0 ? 0 : cow_each_entry(u->all, scan_entry, &s);
	for (uint32_t n = s.oldest; r == 0 && n && n <= s.newest; n++)
		r = cow_undo_forget(u, n);
	u->lost = r < 0 ? UNDO_LOSS_FAILED : UNDO_LOST;
	return r;
}

/* ---- versions ---- */

/*
 * The host's file is left unchanged when it is kept: if it cannot be read, the apply cannot be undone. Otherwise its
 * mode may be in the way; `st` gets the change time after that.
 */
static int read_file(int dir, const char *name, int copy, uint64_t room, struct undo_version *v, struct stat *st)
{
	const struct cow_spot spot = { .upper_dir = dir, .upper_name = name, .upper = *st };
	struct hash_sha256_stream *digest;
	mem_auto char *chunk = mem_alloc(CHUNK);
	fd_auto int from = copy < 0 ? cow_open_upper(&spot)
				    : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat now;
	ssize_t n;
	if (from < 0 || fstat(from, &now) < 0)
		return -1;
	errno = EFBIG;
	if ((uint64_t)now.st_size > room)
		return -1;
	errno = ESTALE;
	if (now.st_ino != st->st_ino || now.st_dev != st->st_dev || !S_ISREG(now.st_mode))
		return -1;
	*st = now;
	digest = hash_sha256_stream_new();
	v->size = 0;
	while ((n = fd_read_all(from, chunk, CHUNK)) > 0) {
		v->size += (uint64_t)n;
		errno = EFBIG;
		if (v->size > room || (copy >= 0 && fd_write_all(copy, chunk, (size_t)n) < 0))
			break;
		hash_sha256_stream_add(digest, chunk, (size_t)n);
	}
	int saved = errno;
	hash_sha256_stream_free(digest, v->digest);
	errno = saved;
	return n == 0 ? 0 : -1;
}

static int read_link(int dir, const char *name, struct undo_version *v)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof target);
	if (n < 0)
		return -1;
	hash_sha256_text(target, (size_t)n, v->digest);
	return 0;
}

int undo_version_read(int dir, const char *name, int copy, uint64_t room, struct undo_version *ret, struct stat *ret_st)
{
	*ret = (struct undo_version){ 0 };
	*ret_st = (struct stat){ 0 };
	if (fstatat(dir, name, ret_st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	struct stat *st = ret_st;
	*ret = (struct undo_version){
		.type = st->st_mode & S_IFMT,
		.mode = st->st_mode & (S_ISDIR(st->st_mode) ? COW_FOLDER_BITS : COW_FILE_BITS),
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime_s = st->st_mtim.tv_sec,
		.mtime_ns = st->st_mtim.tv_nsec,
		.size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
	};
	return S_ISREG(st->st_mode)   ? read_file(dir, name, copy, room, ret, st)
	       : S_ISLNK(st->st_mode) ? read_link(dir, name, ret)
				      : 0;
}

/* ---- records ---- */

static int journal_add(struct cow_undo *u, struct undo_record *r, const char *path)
{
	buf_auto struct buf out = BUF_INIT;
	off_t at = lseek(u->journal, 0, SEEK_END);
	if (at < 0)
		return -1;
	if (r->kind == UNDO_CHANGE && u->records >= UNDO_RECORDS_MAX) {
		errno = EFBIG;
		return -1;
	}
	r->path_len = (uint32_t)strlen(path);
	buf_append(&out, r, sizeof *r);
	buf_append(&out, path, r->path_len);
	r->hash = hash64(out.data + sizeof r->hash, out.len - sizeof r->hash, (uint64_t)at);
	memcpy(out.data, &r->hash, sizeof r->hash);
	if (fd_write_all(u->journal, out.data, out.len) < 0)
		return -1;
	u->records += r->kind == UNDO_CHANGE;
	u->written = true;
	return 0;
}

/* Cancellations are not synced yet. */
static int journal_mark(struct cow_undo *u, enum undo_kind kind)
{
	struct undo_record r = { .kind = kind };
	return u->written && fdatasync(u->journal) < 0 ? -1 : journal_add(u, &r, "");
}

static int sync_kept(struct cow_undo *u)
{
	int fds[countof(u->unsynced) + 2] = { u->folder, u->journal };
	for (uint32_t i = 0; i < u->nunsynced; i++)
		fds[i + 2] = u->unsynced[i];
	int r = u->kept == u->kept_synced ? fdatasync(u->journal) : cow_sync(fds, u->nunsynced + 2);
	int saved = errno;
	while (u->nunsynced > 0)
		fd_close(&u->unsynced[--u->nunsynced]);
	u->kept_synced = u->kept;
	u->marked = u->written = false;
	errno = saved;
	return r;
}

/* Copies the content of a file, or the link itself. */
static int keep_content(struct cow_undo *u, int dir, const char *name, mode_t mode, struct undo_record *r)
{
	char kept[16], target[PATH_MAX];
	struct stat st;
	snprintf(kept, sizeof kept, "%u", r->kept = u->kept++);
	if (S_ISLNK(mode)) {
		ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
		if (n < 0)
			return -1;
		target[n] = 0;
		if (symlinkat(target, u->folder, kept) < 0)
			return -1;
	}
	fd_auto int to = !S_ISREG(mode) ? -1 : openat(u->folder, kept, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (S_ISREG(mode) && to < 0)
		return -1;
	if (undo_version_read(dir, name, to, UNDO_BYTES_MAX - u->bytes, &r->before, &st) < 0)
		return -1;
	errno = ESTALE;
	if (r->before.type != (mode & S_IFMT))
		return -1;
	u->bytes += r->before.size;
	if (to >= 0)
		u->unsynced[u->nunsynced++] = fd_take(&to);
	return u->nunsynced == countof(u->unsynced) ? sync_kept(u) : 0;
}

struct keeping {
	struct cow_undo *undo;
	char *path; /* relative to the write root; has room for CHANGE_PATH_MAX characters */
	const struct undo_version *after;
	bool cleared; /* everything in a folder goes, too */
	unsigned depth;
};

static int keep_entry(void *ctx, int dir, const char *name);

/* What a folder contains has no entry afterwards. */
static int keep_below(const struct keeping *k, int dir, const char *name)
{
	static const struct undo_version none;
	struct keeping below = { k->undo, k->path, &none, true, k->depth + 1 };
	errno = ELOOP;
	if (below.depth > COW_DEPTH_MAX)
		return -1;
	fd_auto int folder = cow_open_folder(dir, name);
	return folder < 0 ? -1 : cow_each_entry(folder, keep_entry, &below);
}

static int keep_entry(void *ctx, int dir, const char *name)
{
	const struct keeping *k = ctx;
	struct undo_record r = { .kind = UNDO_CHANGE, .root = k->undo->root, .after = *k->after };
	size_t len = strlen(k->path), n = strlen(name);
	struct stat st = { 0 };
	int done = -1;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT)
		return -1;
	errno = ENAMETOOLONG;
	if (k->depth > 0 && len + 1 + n > CHANGE_PATH_MAX)
		return -1;
	if (k->depth > 0)
		snprintf(k->path + len, CHANGE_PATH_MAX - len + 1, "/%s", name);
	errno = ENOTSUP;
	if (!st.st_mode || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode))
		done = 0;
	r.temporary = cow_temporary_bits(k->undo, k->path);
	r.cleared = st.st_mode && k->after->type && k->cleared;
	if (done == 0 && st.st_mode)
		done = keep_content(k->undo, dir, name, st.st_mode, &r);
	if (done == 0)
		done = journal_add(k->undo, &r, k->path);
	if (done == 0 && S_ISDIR(st.st_mode) && k->cleared)
		done = keep_below(k, dir, name);
	k->path[len] = 0;
	return done;
}

static int keep_spot(struct cow_walk *w, struct cow_spot *s)
{
	struct cow_undo *u = w->undo;
	struct undo_version after = { 0 };
	struct stat st;
	char path[CHANGE_PATH_MAX + 2];
	snprintf(path, sizeof path, "%s", w->path + w->root_len + 1);
	struct keeping k = { u, path, &after, s->kind == CHANGE_KIND_DELETED || s->replaces, 0 };
	if (s->kind != CHANGE_KIND_DELETED &&
	    undo_version_read(s->upper_dir, s->upper_name, -1, UINT64_MAX, &after, &st) < 0)
		return -1;
	if (!u->marked && journal_mark(u, UNDO_SYNCED) < 0)
		return -1;
	u->marked = true;
	s->record = u->records;
	if (keep_entry(&k, s->host_dir, s->name) < 0)
		return -1;
	s->records = u->records - s->record;
	return 0;
}

/* 0: there is a valid journal, or none. */
static int check_loss(struct cow_undo *u)
{
	if (u->lost == UNDO_LOSS_FAILED)
		errno = u->error;
	return !u->error || u->lost == UNDO_LOST ? 0 : u->lost == UNDO_LOSS_FAILED ? -1 : lose_all(u);
}

int cow_keep(struct cow_walk *w, struct cow_spot *s)
{
	struct cow_undo *u = w->undo;
	if (!u->error && keep_spot(w, s) < 0)
		u->error = errno;
	return check_loss(u);
}

int cow_keep_sync(struct cow_undo *u)
{
	if (!u->error && u->written && sync_kept(u) < 0)
		u->error = errno;
	return check_loss(u);
}

void cow_keep_cancel(struct cow_undo *u, const struct cow_spot *s)
{
	struct undo_record r = { .kind = UNDO_CANCELLED, .kept = s->record, .cleared = s->records };
	if (u->error || !s->records)
		return;
	if (journal_add(u, &r, "") < 0)
		u->error = errno;
	u->cancelled += s->records;
}

int cow_keep_writing(struct cow_undo *u, uint32_t record, const struct stat *st, bool written)
{
	struct undo_record r = {
		.kind = written ? UNDO_WRITTEN : UNDO_WRITING, .kept = record, .device = st->st_dev, .inode = st->st_ino
	};
	if (u->journal < 0 || u->error)
		return 0;
	return journal_add(u, &r, "") < 0 ? -1 : fdatasync(u->journal);
}

void cow_keep_end(struct cow_undo *u)
{
	bool empty = u->records == u->cancelled;
	if (u->error && !u->lost && u->records)
		lose_all(u); /* a record of a change that did not take place could not be removed */
	if (u->number && empty)
		cow_undo_forget(u, u->number);
	if (u->number && !empty && !u->error && (journal_mark(u, UNDO_END) < 0 || fdatasync(u->journal) < 0))
		log_warning("complete the journal of an apply: %s", strerror(errno)); /* it will read as interrupted */
	if (!u->lost)
		u->error = 0; /* nothing was applied */
	fd_close(&u->journal);
	fd_close(&u->folder);
}
