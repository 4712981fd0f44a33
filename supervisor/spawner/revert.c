#include "supervisor/spawner/revert.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/change_list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEY_NAME ".autorun-key"
#define READ_MAX (16u << 20)

/* ---- the key ---- */

static int read_key(int folder, uint8_t key[AUTORUN_SEAL_BYTES])
{
	fd_auto int fd = openat(folder, KEY_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	errno = EIO;
	return fd_read_all(fd, key, AUTORUN_SEAL_BYTES) == (ssize_t)AUTORUN_SEAL_BYTES ? 0 : -1;
}

/* Written under a temporary name first: a truncated key must never be loaded. */
static int write_key(int folder, const uint8_t key[AUTORUN_SEAL_BYTES])
{
	static const char temporary[] = KEY_NAME ".new";
	unlinkat(folder, temporary, 0);
	fd_auto int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, key, AUTORUN_SEAL_BYTES) < 0 || fsync(fd) < 0)
		return -1;
	return renameat(folder, temporary, folder, KEY_NAME) < 0 ? -1 : fsync(folder);
}

void revert_key_load(int folder, uint8_t key[AUTORUN_SEAL_BYTES])
{
	if (folder >= 0 && read_key(folder, key) == 0)
		return;
	int error = folder >= 0 ? errno : ENOENT;
	for (size_t n = 0; n < AUTORUN_SEAL_BYTES;) {
		ssize_t got = getrandom(key + n, AUTORUN_SEAL_BYTES - n, 0);
		n += got > 0 ? (size_t)got : 0;
	}
	if (folder >= 0 && ((error != ENOENT && error != EIO) || write_key(folder, key) < 0))
		log_warning(
			"keep the key that seals reports on autorun files: %s; runs cannot be reverted after a restart",
			strerror(errno));
}

/* ---- the report ---- */

int revert_read(int fd, const uint8_t key[AUTORUN_SEAL_BYTES], struct buf *ret)
{
	struct err e = ERR_INIT;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -1;
	errno = EBADMSG;
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)AUTORUN_REPORT_BYTES_MAX)
		return -1;
	ssize_t n = pread(fd, buf_reserve(ret, (size_t)st.st_size + 1), (size_t)st.st_size, 0);
	if (n < 0)
		return -1;
	ret->len = (size_t)n;
	errno = EBADMSG;
	return autorun_report_check(ret->data, ret->len, &e) < 0 || !autorun_report_sealed(ret->data, key) ? -1 : 0;
}

/* ---- one file ---- */

struct spot {
	char path[PATH_MAX];
	const char *name; /* last component of the path */
	int folder;
	enum change_outcome outcome;
	char note[CHANGE_NOTE_MAX];
};

static void set_conflict(struct spot *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void set_conflict(struct spot *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->note, sizeof s->note, fmt, ap);
	va_end(ap);
	s->outcome = CHANGE_OUTCOME_CONFLICT;
}

static int open_strictly(int at, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)flags | O_CLOEXEC,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	return (int)syscall(SYS_openat2, at, path, &how, sizeof how);
}

/* Opens the file's directory; recreates directories that the run removed. */
static int open_folder(const char *path, const char *name, bool make)
{
	char folder[PATH_MAX], step[NAME_MAX + 1];
	size_t n = (size_t)(name - 1 - path);
	memcpy(folder, path, n);
	folder[n] = 0;
	int fd = open_strictly(AT_FDCWD, n ? folder : "/", O_RDONLY | O_DIRECTORY);
	if (fd >= 0 || errno != ENOENT || !make)
		return fd;
	fd_auto int at = open_strictly(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY);
	for (const char *p = folder; at >= 0 && *p == '/';) {
		if (path_step(&p, step) < 0)
			return -1;
		if (mkdirat(at, step, 0755) < 0 && errno != EEXIST)
			return -1;
		fd = open_strictly(at, step, O_RDONLY | O_DIRECTORY);
		fd_close(&at);
		at = fd;
	}
	return fd_take(&at);
}

/* Reads the current version in the form that a report uses. */
static int read_now(const struct spot *s, struct buf *text, struct autorun_version *ret)
{
	struct stat st;
	*ret = (struct autorun_version){ .type = AUTORUN_TYPE_NONE, .text = "" };
	if (s->folder < 0 || fstatat(s->folder, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return s->folder < 0 || errno == ENOENT ? 0 : -1;
	ret->mode = st.st_mode & 07777;
	ret->kept = true;
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(s->folder, s->name, buf_reserve(text, PATH_MAX), PATH_MAX);
		if (n < 0)
			return -1;
		text->len = (size_t)n;
		ret->type = AUTORUN_TYPE_LINK;
		ret->mode = 0777;
	} else if (S_ISREG(st.st_mode) && st.st_size <= (off_t)READ_MAX) {
		fd_auto int fd = open_strictly(s->folder, s->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
		ssize_t n = fd < 0 ? -1 : fd_read_all(fd, buf_reserve(text, READ_MAX + 1), READ_MAX + 1);
		if (n < 0)
			return -1;
		text->len = (size_t)n;
		ret->type = AUTORUN_TYPE_FILE;
	} else {
		ret->type = S_ISDIR(st.st_mode) ? AUTORUN_TYPE_FOLDER : AUTORUN_TYPE_OTHER;
	}
	ret->text = text->data ? text->data : "";
	ret->len = text->len;
	return 0;
}

/* `now` has the full text; the other version may have only a digest. */
static bool version_equal(const struct autorun_version *now, const struct autorun_version *other)
{
	char digest[HASH_SHA256_TEXT];
	if (now->type != other->type || now->mode != other->mode)
		return false;
	if (now->type == AUTORUN_TYPE_NONE)
		return true;
	if (other->kept)
		return now->len == other->len && memcmp(now->text, other->text, now->len) == 0;
	hash_sha256_text(now->text, now->len, digest);
	return now->type == AUTORUN_TYPE_FILE && other->len == strlen(digest) &&
	       memcmp(other->text, digest, other->len) == 0;
}

static int write_file(const struct spot *s, const struct autorun_version *v, const char *temporary)
{
	fd_auto int fd = openat(s->folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, v->text, v->len) < 0 || fchmod(fd, v->mode & 0777) < 0 || fsync(fd) < 0)
		return -1;
	return 0;
}

/* Written to a temporary name and renamed, so that readers never see a partial file. */
static void put_back(struct spot *s, const struct autorun_version *v)
{
	char temporary[64];
	uint64_t bits = 0;
	(void)!getrandom(&bits, sizeof bits, 0);
	snprintf(temporary, sizeof temporary, ".bailiff-%016llx", (unsigned long long)bits);
	mem_auto char *target = mem_strndup(v->text, v->len);
	int r = v->type == AUTORUN_TYPE_LINK ? symlinkat(target, s->folder, temporary) : write_file(s, v, temporary);
	if (r == 0)
		r = renameat(s->folder, temporary, s->folder, s->name);
	if (r == 0)
		r = fsync(s->folder);
	if (r == 0)
		return;
	set_conflict(s, "%s", strerror(errno));
	unlinkat(s->folder, temporary, 0);
}

static void revert_one(const struct autorun_record *r, struct spot *s)
{
	buf_auto struct buf text = BUF_INIT;
	struct autorun_version now;
	bool whole = r->before.type == AUTORUN_TYPE_NONE ||
		     ((r->before.type == AUTORUN_TYPE_FILE || r->before.type == AUTORUN_TYPE_LINK) && r->before.kept);
	fd_auto int folder = open_folder(s->path, s->name, whole && r->before.type != AUTORUN_TYPE_NONE);
	s->folder = folder;
	s->outcome = CHANGE_OUTCOME_REVERTED;
	if (folder < 0 && errno != ENOENT)
		set_conflict(s, "open its folder: %s", strerror(errno));
	else if (read_now(s, &text, &now) < 0)
		set_conflict(s, "read it: %s", strerror(errno));
	else if (version_equal(&now, &r->before))
		s->outcome = CHANGE_OUTCOME_UNCHANGED;
	else if (!whole)
		set_conflict(s, "what it was before the run was not kept: too large, not a file, or not examined then");
	else if (!version_equal(&now, &r->after))
		set_conflict(s, "changed since the run ended");
	else if (r->before.type != AUTORUN_TYPE_NONE)
		put_back(s, &r->before);
	else if (unlinkat(s->folder, s->name, now.type == AUTORUN_TYPE_FOLDER ? AT_REMOVEDIR : 0) < 0 ||
		 fsync(s->folder) < 0)
		set_conflict(s, "remove it: %s", strerror(errno));
}

static enum change_kind kind_of(const struct autorun_record *r)
{
	return r->before.type == AUTORUN_TYPE_NONE  ? CHANGE_KIND_ADDED
	       : r->after.type == AUTORUN_TYPE_NONE ? CHANGE_KIND_DELETED
						    : CHANGE_KIND_MODIFIED;
}

void revert_apply(const void *report, const char *paths, size_t paths_len, struct buf *out)
{
	struct autorun_record r;
	change_list_begin(out);
	for (size_t at = 0; autorun_report_next(report, &at, &r);) {
		if (!change_list_selects(paths, paths_len, r.path, r.path_len))
			continue;
		struct spot s = { .folder = -1 };
		memcpy(s.path, r.path, r.path_len); /* revert_read has checked that it is shorter than PATH_MAX */
		s.name = strrchr(s.path, '/') + 1;
		revert_one(&r, &s);
		const struct change c = { .kind = kind_of(&r),
					  .type = r.before.type == AUTORUN_TYPE_LINK ? CHANGE_TYPE_SYMLINK
										     : CHANGE_TYPE_FILE,
					  .outcome = s.outcome,
					  .mode = r.after.mode,
					  .old_mode = r.before.mode,
					  .bytes = r.before.kept ? r.before.len : 0,
					  .path = r.path,
					  .path_len = r.path_len,
					  .note = s.note,
					  .note_len = strlen(s.note),
					  .diff = "" };
		change_list_add(out, &c);
	}
	change_list_end(out);
}
