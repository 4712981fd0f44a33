#include "sandbox/host_fingerprint.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "sandbox/become_peer.h"
#include "sandbox/file_stamp.h"
#include "sandbox/local_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int fingerprint_open(const char *path, bool follow, bool cached)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	how.resolve |= (follow ? 0u : RESOLVE_NO_SYMLINKS) | (cached ? RESOLVE_CACHED : 0u);
	int fd;
	do
		fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
	while (fd < 0 && (errno == EINTR || (errno == EAGAIN && !cached)));
	return fd;
}

/* Fills in what is compared; false = statx failed. */
static bool read_entry(int fd, struct fingerprint_entry *m)
{
	bool owners = m->flags & FINGERPRINT_OWNERS;
	struct statx st;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) < 0)
		return false;
	m->dev = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
	m->ino = st.stx_ino;
	m->changed_s = m->changed_ns = 0;
	m->mode = st.stx_mode & (owners ? S_IFMT | 07777u : S_IFMT);
	m->uid = owners ? st.stx_uid : 0;
	m->gid = owners ? st.stx_gid : 0;
	if (!S_ISDIR(st.stx_mode)) {
		m->changed_s = st.stx_ctime.tv_sec;
		m->changed_ns = st.stx_ctime.tv_nsec;
	}
	return true;
}

static bool entry_equal(const struct fingerprint_entry *a, const struct fingerprint_entry *b)
{
	return a->error == b->error && a->dev == b->dev && a->ino == b->ino && a->mode == b->mode && a->uid == b->uid &&
	       a->gid == b->gid && a->changed_s == b->changed_s && a->changed_ns == b->changed_ns;
}

static bool pin_file(struct host_fingerprint *s, int fd)
{
	int number = (int)(FINGERPRINT_PINS + s->pins);
	if (fcntl(fd, F_DUPFD_CLOEXEC, number) != number)
		return false;
	s->pins++;
	return true;
}

void fingerprint_record(struct host_fingerprint *s, uint32_t mount, size_t len, uint32_t flags, int fd)
{
	int keep = errno;
	struct fingerprint_entry m = { .mount = (uint16_t)mount, .len = (uint16_t)len, .flags = (uint16_t)flags };
	if (fd < 0)
		m.error = (uint16_t)keep;
	if (s->count == FINGERPRINT_MAX || len >= PATH_MAX || (fd >= 0 && (!read_entry(fd, &m) || !pin_file(s, fd))))
		s->lost = true;
	else
		s->mark[s->count++] = m;
	errno = keep;
}

void fingerprint_unpin(struct host_fingerprint *s)
{
	if (s->pins)
		fd_close_range(FINGERPRINT_PINS, FINGERPRINT_PINS + s->pins - 1);
	s->pins = 0;
}

/* ---- comparing ---- */

/*
 * On many kernels tmpfs does not remember that a name is absent: looking for it in the cache alone says
 * nothing. A real lookup does not wait for a disk there.
 */
static int open_absent(char *path)
{
	char *last = strrchr(path, '/');
	if (!last || last == path) /* the root is no tmpfs that matters */
		return -1;
	*last = 0;
	fd_auto int parent = fingerprint_open(path, true, true);
	*last = '/';
	if (parent < 0 || local_fs_of(parent) != LOCAL_FS_TMPFS) {
		errno = EAGAIN;
		return -1;
	}
	return fingerprint_open(path, false, false);
}

static bool copy_path(const struct plan_head *plan, uint16_t mount, uint16_t len, char ret[PATH_MAX])
{
	const char *whole = plan_string(plan, plan_mount(plan, mount)->path_off);
	if (len >= PATH_MAX || strnlen(whole, len) < len)
		return false;
	memcpy(ret, whole, len);
	ret[len] = 0;
	return true;
}

static bool entry_matches(const struct fingerprint_entry *m, const struct plan_head *plan)
{
	char path[PATH_MAX];
	struct fingerprint_entry now = { .flags = m->flags };
	if (!copy_path(plan, m->mount, m->len, path))
		return false;
	fd_auto int fd = fingerprint_open(path, m->flags & FINGERPRINT_FOLLOW, true);
	if (fd < 0 && errno == EAGAIN && m->error == ENOENT)
		fd = open_absent(path);
	if (fd < 0)
		return errno != EAGAIN && errno == m->error;
	return !m->error && read_entry(fd, &now) && entry_equal(m, &now);
}

/* ---- folders ---- */

/* Cuts the last name off; "/a" becomes "/". */
static void cut_name(char *path)
{
	char *last = strrchr(path, '/');
	if (last)
		last[last == path] = 0;
}

/* Whether the state of a folder can stand for this entry: it does not exist, or it is a folder and only that counts. */
static bool can_have_folder(const struct fingerprint_entry *m)
{
	return m->error ? m->error == ENOENT : S_ISDIR(m->mode) && !(m->flags & FINGERPRINT_OWNERS);
}

/* One pass of a check: the entries whose flags, under the mask, are `as`. */
struct pass {
	const struct host_fingerprint *s;
	struct fingerprint_folders *f;
	const struct plan_head *plan;
	uint32_t mask, as;
};

static bool is_in_pass(const struct pass *p, uint32_t flags) { return (flags & p->mask) == p->as; }

/* The nearest folder on the way to the entry that exists: its number, 0 = none, or too many. */
static uint8_t find_folder(const struct pass *p, const struct fingerprint_entry *m)
{
	char path[PATH_MAX], other[PATH_MAX];
	struct fingerprint_folders *f = p->f;
	const uint16_t flags = (uint16_t)(m->flags & (p->mask | FINGERPRINT_FOLLOW));
	fd_auto int fd = -1;
	if (!copy_path(p->plan, m->mount, m->len, path))
		return 0;
	do {
		if (strcmp(path, "/") == 0)
			return 0;
		cut_name(path);
		fd = fingerprint_open(path, flags & FINGERPRINT_FOLLOW, true);
	} while (fd < 0 && errno == ENOENT && m->error);
	if (fd < 0)
		return 0;
	for (uint32_t i = 0; i < f->count; i++) {
		const struct fingerprint_folder *one = &f->folder[i];
		if (one->flags == flags && copy_path(p->plan, one->mount, one->len, other) && strcmp(path, other) == 0)
			return (uint8_t)(i + 1);
	}
	if (f->count == FINGERPRINT_FOLDERS)
		return 0;
	f->folder[f->count++] = (struct fingerprint_folder){ .mount = m->mount,
							     .len = (uint16_t)strlen(path),
							     .flags = flags };
	return (uint8_t)f->count;
}

/* Assigns folders to the entries, once. */
static void sort_entries(const struct pass *p)
{
	const uint32_t bit = p->as ? 2 : 1;
	if (p->f->sorted & bit)
		return;
	p->f->sorted |= bit;
	for (uint32_t i = 0; i < p->s->count; i++) {
		const struct fingerprint_entry *m = &p->s->mark[i];
		uint8_t number = is_in_pass(p, m->flags) && can_have_folder(m) ? find_folder(p, m) : 0;
		if (number)
			p->f->folder[number - 1].entries++;
		if (is_in_pass(p, m->flags))
			p->f->of[i] = number;
	}
}

static bool is_useful(const struct pass *p, const struct fingerprint_folder *one)
{
	return is_in_pass(p, one->flags) && one->entries >= FINGERPRINT_FOLDER_LEAST;
}

static int open_folder(const struct fingerprint_folder *one, const struct plan_head *plan)
{
	char path[PATH_MAX];
	return copy_path(plan, one->mount, one->len, path)
		       ? fingerprint_open(path, one->flags & FINGERPRINT_FOLLOW, true)
		       : -1;
}

static bool read_folder(int fd, struct fingerprint_folder *ret)
{
	struct statx st;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) < 0 || !S_ISDIR(st.stx_mode))
		return false;
	ret->dev = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
	ret->ino = st.stx_ino;
	ret->changed_s = st.stx_ctime.tv_sec;
	ret->changed_ns = st.stx_ctime.tv_nsec;
	return true;
}

static bool is_current(const struct fingerprint_folder *one, const struct plan_head *plan)
{
	struct fingerprint_folder now;
	fd_auto int fd = one->known ? open_folder(one, plan) : -1;
	return fd >= 0 && read_folder(fd, &now) && now.dev == one->dev && now.ino == one->ino &&
	       now.changed_s == one->changed_s && now.changed_ns == one->changed_ns;
}

/* The entry by its name in the folder itself: a link that leads nowhere is a name that exists. */
static bool is_in_folder(int folder, const struct fingerprint_folder *one, const struct fingerprint_entry *m,
			 const struct plan_head *plan)
{
	struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				.resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED };
	struct fingerprint_entry now = { .flags = m->flags };
	char path[PATH_MAX];
	if (!copy_path(plan, m->mount, m->len, path))
		return false;
	char *name = path + one->len + strspn(path + one->len, "/");
	if (m->error)
		name[strcspn(name, "/")] = 0;
	if (!*name || strchr(name, '/'))
		return false;
	fd_auto int fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
	if (fd < 0 && errno == EAGAIN && m->error == ENOENT &&
	    local_fs_of(folder) == LOCAL_FS_TMPFS) { /* see open_absent */
		how.resolve &= ~(uint64_t)RESOLVE_CACHED;
		fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
	}
	if (fd < 0)
		return errno == ENOENT && m->error == ENOENT;
	return !m->error && read_entry(fd, &now) && entry_equal(m, &now);
}

/*
 * Remembers the state of the folder for those of its entries for which that is enough; the others are always checked
 * themselves. Its ctime is read before they are looked up and is in an earlier second than the clock was then, so that
 * a later change gives it another one, even where a file system stores seconds only.
 */
static void remember_folder(const struct pass *p, uint8_t number)
{
	struct fingerprint_folder *one = &p->f->folder[number - 1];
	struct timespec now;
	one->known = false;
	fd_auto int fd = open_folder(one, p->plan);
	if (fd < 0 || local_fs_of(fd) == LOCAL_FS_NONE || clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0 ||
	    !read_folder(fd, one) || one->changed_s >= now.tv_sec)
		return;
	for (uint32_t i = 0; i < p->s->count; i++) {
		if (p->f->of[i] != number || is_in_folder(fd, one, &p->s->mark[i], p->plan))
			continue;
		p->f->of[i] = 0;
		one->entries--;
	}
	one->known = true;
}

static bool all_match(const struct pass *p)
{
	struct fingerprint_folders *f = p->f;
	for (uint32_t i = 0; i < f->count; i++) {
		if (is_in_pass(p, f->folder[i].flags))
			f->folder[i].current = is_useful(p, &f->folder[i]) && is_current(&f->folder[i], p->plan);
	}
	for (uint32_t i = 0; i < p->s->count; i++) {
		const struct fingerprint_entry *m = &p->s->mark[i];
		const bool implied = f->of[i] && f->folder[f->of[i] - 1].current;
		if (is_in_pass(p, m->flags) && !implied && !entry_matches(m, p->plan))
			return false;
	}
	sort_entries(p);
	for (uint32_t i = 0; i < f->count; i++) {
		if (is_useful(p, &f->folder[i]) && !f->folder[i].current)
			remember_folder(p, (uint8_t)(i + 1));
	}
	return true;
}

static bool switch_to_peer(const struct fingerprint_peer *p)
{
	return !p->switches || fsid_set(p->uid, p->gid, p->groups, p->ngroups) == 0;
}

/* A process that cannot switch back would act as this peer for every later request: abort. */
static void switch_back(const struct fingerprint_peer *p)
{
	if (!p->switches || (fsid_restore() == 0 && syscall(SYS_setgroups, 0, NULL) == 0))
		return;
	log_error("cannot switch back from uid %u: %s", (unsigned)p->uid, strerror(errno));
	abort();
}

int fingerprint_open_as(const struct fingerprint_peer *peer, const char *path)
{
	int fd = switch_to_peer(peer) ? fingerprint_open(path, true, true) : -1, keep = errno;
	switch_back(peer);
	errno = keep;
	return fd;
}

bool fingerprint_matches(const struct host_fingerprint *s, struct fingerprint_folders *folders,
			 const struct plan_head *plan, const struct fingerprint_peer *peer)
{
	for (uint32_t i = 0; i < s->count && i < FINGERPRINT_MAX; i++) {
		if (s->mark[i].mount >= plan->mount_count)
			return false;
	}
	if (s->lost || s->count > FINGERPRINT_MAX)
		return false;
	struct pass p = { .s = s, .f = folders, .plan = plan, .mask = peer->switches ? FINGERPRINT_AS_PEER : 0 };
	if (!all_match(&p))
		return false;
	if (!peer->switches)
		return true; /* all entries were looked up with the same rights */
	p.as = FINGERPRINT_AS_PEER;
	bool match = switch_to_peer(peer) && all_match(&p);
	switch_back(peer);
	return match;
}
