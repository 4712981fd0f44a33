/* One autorun file's current version, and the set of known files. */

#include "sandbox/autorun_private.h"

#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "sandbox/placeholder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DIGESTED_MAX (16u << 20) /* a longer file is represented by its stat data */

/* ---- the set ---- */

static uint32_t slot_of(const char *path) { return (uint32_t)(hash64(path, strlen(path), 0) % AUTORUN_SLOTS); }

const struct autorun_file *autorun_find(const struct autorun_set *s, const char *path)
{
	for (uint32_t i = slot_of(path); s->slot[i]; i = (i + 1) % AUTORUN_SLOTS) {
		if (strcmp(s->file[s->slot[i] - 1].path, path) == 0)
			return &s->file[s->slot[i] - 1];
	}
	return NULL;
}

static const struct autorun_file *add_file(struct autorun_set *s, const struct autorun_file *f)
{
	uint32_t i = slot_of(f->path);
	while (s->slot[i])
		i = (i + 1) % AUTORUN_SLOTS;
	s->file[s->count] = *f;
	s->slot[i] = (uint16_t)++s->count;
	return &s->file[s->count - 1];
}

/* NULL: the space is exhausted. */
static char *autorun_text(struct autorun *a, const void *p, size_t n)
{
	if (n + 1 > AUTORUN_TEXT_MAX - a->text_used)
		return NULL;
	char *at = a->text + a->text_used;
	memcpy(at, p, n);
	at[n] = 0;
	a->text_used += (uint32_t)n + 1;
	return at;
}

/* ---- examining ---- */

/* Stores a digest of the content or of the stat data instead of the content. */
static void set_digest(struct autorun *a, struct autorun_file *f, const char *digest, size_t n)
{
	f->kept = false;
	f->text = autorun_text(a, digest, n);
	f->len = f->text ? (uint32_t)n : 0;
	if (!f->text)
		a->partial |= AUTORUN_PARTIAL_FILES;
}

static void digest_stat(struct autorun *a, const struct stat *st, struct autorun_file *f)
{
	char text[160];
	int n = snprintf(text, sizeof text, "%llu:%llu:%lld:%lld.%09ld", (unsigned long long)st->st_dev,
			 (unsigned long long)st->st_ino, (long long)st->st_size, (long long)st->st_ctim.tv_sec,
			 st->st_ctim.tv_nsec);
	set_digest(a, f, text, (size_t)n);
}

static int digest_content(struct autorun *a, int fd, struct autorun_file *f)
{
	char chunk[16384], digest[HASH_SHA256_TEXT];
	struct hash_sha256_stream *h = hash_sha256_stream_new();
	ssize_t n;
	for (size_t all = 0; (n = read(fd, chunk, sizeof chunk)) > 0 && all <= DIGESTED_MAX; all += (size_t)n)
		hash_sha256_stream_add(h, chunk, (size_t)n);
	hash_sha256_stream_free(h, digest);
	if (n != 0)
		return -1;
	set_digest(a, f, digest, sizeof digest - 1);
	return 0;
}

/* Reads all of a short file; false if it is longer or the space is exhausted. */
static bool keep_content(struct autorun *a, int fd, struct autorun_file *f)
{
	if (AUTORUN_TEXT_MAX - a->text_used < AUTORUN_KEPT_MAX + 1)
		return false;
	char *at = a->text + a->text_used;
	ssize_t n = fd_read_all(fd, at, AUTORUN_KEPT_MAX + 1);
	if (n < 0 || n > (ssize_t)AUTORUN_KEPT_MAX)
		return false;
	at[n] = 0;
	a->text_used += (uint32_t)n + 1;
	f->text = at;
	f->len = (uint32_t)n;
	f->kept = true;
	return true;
}

/*
 * On a read-only mount the command cannot write the file, only something outside can replace it, which its stat data
 * show. Reading all would take seconds where hooks are a link to a directory of the system.
 */
static bool is_read_only(int fd)
{
	struct statvfs v;
	return fstatvfs(fd, &v) == 0 && v.f_flag & ST_RDONLY;
}

static void read_content(struct autorun *a, int at, const char *name, const struct stat *st, struct autorun_file *f)
{
	fd_auto int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat now;
	if (fd < 0 || fstat(fd, &now) < 0 || !S_ISREG(now.st_mode) || now.st_size > (off_t)DIGESTED_MAX ||
	    (now.st_size > (off_t)AUTORUN_KEPT_MAX && is_read_only(fd))) {
		digest_stat(a, st, f);
		return;
	}
	if (keep_content(a, fd, f))
		return;
	if (lseek(fd, 0, SEEK_SET) < 0 || digest_content(a, fd, f) < 0)
		digest_stat(a, st, f);
}

void autorun_examine(struct autorun *a, int at, const char *name, struct autorun_file *ret)
{
	char target[PATH_MAX];
	struct stat st;
	*ret = (struct autorun_file){
		.type = AUTORUN_TYPE_NONE, .path = ret->path, .program = ret->program, .text = ""
	};
	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			a->partial |= errno == ENAMETOOLONG ? AUTORUN_PARTIAL_DEEP : AUTORUN_PARTIAL_SHUT;
		return;
	}
	if (S_ISREG(st.st_mode) && placeholder_is(&st))
		return; /* placeholder of a sandbox that runs at the same time */
	ret->mode = st.st_mode & 07777;
	ret->changed = st.st_ctim;
	if (S_ISREG(st.st_mode)) {
		ret->type = AUTORUN_TYPE_FILE;
		read_content(a, at, name, &st, ret);
	} else if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(at, name, target, sizeof target);
		const char *text = n < 0 ? NULL : autorun_text(a, target, (size_t)n);
		ret->type = AUTORUN_TYPE_LINK;
		ret->mode = 0777;
		ret->kept = text && n < (ssize_t)sizeof target;
		ret->text = text ? text : "";
		ret->len = text ? (uint32_t)n : 0;
		if (!text)
			a->partial |= AUTORUN_PARTIAL_FILES;
	} else {
		ret->type = S_ISDIR(st.st_mode) ? AUTORUN_TYPE_FOLDER : AUTORUN_TYPE_OTHER;
	}
}

bool autorun_in_write_root(const struct autorun *a, const char *path)
{
	for (uint32_t i = 0; i < a->plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(a->plan, i);
		if (m->kind == PLAN_MOUNT_WRITE && plan_path_inside(path, plan_string(a->plan, m->path_off)))
			return true;
	}
	return false;
}

/*
 * Executing a link executes its target, which may be anywhere in a write root: the target is examined under its own
 * name, as resolved by the kernel. A broken link has no target.
 */
static void meet_target(struct autorun *a, int at, const char *name, const char *program)
{
	char link[32], path[PATH_MAX];
	struct stat st;
	fd_auto int fd = openat(at, name, O_PATH | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	snprintf(link, sizeof link, "%s%d", a->self_fds < 0 ? "/proc/self/fd/" : "", fd);
	ssize_t n = readlinkat(a->self_fds, link, path, sizeof path - 1);
	if (n <= 0) {
		a->partial |= AUTORUN_PARTIAL_SHUT;
		return;
	}
	path[n] = 0;
	bool outer = a->led;
	a->led = true;
	if (autorun_in_write_root(a, path))
		autorun_check_entry(a, AT_FDCWD, path, path, program);
	a->led = outer;
}

const struct autorun_file *autorun_check_entry(struct autorun *a, int at, const char *name, const char *path,
					       const char *program)
{
	struct autorun_set *s = a->again ? &a->found : &a->before;
	const struct autorun_file *known = a->again ? autorun_find(&a->before, path) : NULL;
	if (known) {
		/*
		 * The same link may lead to another file by now, through links on its way or because the target did not
		 * exist.
		 */
		if (known->type == AUTORUN_TYPE_LINK && !a->led)
			meet_target(a, at, name, program);
		return known;
	}
	known = autorun_find(s, path);
	if (known) {
		s->file[known - s->file].led &= a->led;
		return known;
	}
	struct autorun_file f = { .path = autorun_text(a, path, strlen(path)), .program = program };
	if (!f.path || s->count == AUTORUN_FILES_MAX) {
		a->partial |= AUTORUN_PARTIAL_FILES;
		return NULL;
	}
	autorun_examine(a, at, name, &f);
	if (f.type == AUTORUN_TYPE_NONE)
		return NULL;
	f.led = a->led;
	known = add_file(s, &f);
	if (f.type == AUTORUN_TYPE_LINK)
		meet_target(a, at, name, program);
	return known;
}
