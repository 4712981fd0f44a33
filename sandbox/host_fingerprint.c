#include "sandbox/host_fingerprint.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "sandbox/become_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
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
 * On older kernels (6.1 is one) tmpfs does not remember that a name is absent: looking for it in the cache alone says
 * nothing. A real lookup does not wait for a disk there.
 */
static int open_absent(char *path)
{
	char *last = strrchr(path, '/');
	struct statfs fs;
	if (!last || last == path) /* the root is no tmpfs that matters */
		return -1;
	*last = 0;
	fd_auto int parent = fingerprint_open(path, true, true);
	*last = '/';
	if (parent < 0 || fstatfs(parent, &fs) < 0 || fs.f_type != TMPFS_MAGIC) {
		errno = EAGAIN;
		return -1;
	}
	return fingerprint_open(path, false, false);
}

static bool entry_matches(const struct fingerprint_entry *m, const struct plan_head *plan)
{
	char path[PATH_MAX];
	const char *whole = plan_string(plan, plan_mount(plan, m->mount)->path_off);
	struct fingerprint_entry now = { .flags = m->flags };
	if (m->len >= sizeof path || strnlen(whole, m->len) < m->len)
		return false;
	memcpy(path, whole, m->len);
	path[m->len] = 0;
	fd_auto int fd = fingerprint_open(path, m->flags & FINGERPRINT_FOLLOW, true);
	if (fd < 0 && errno == EAGAIN && m->error == ENOENT)
		fd = open_absent(path);
	if (fd < 0)
		return errno != EAGAIN && errno == m->error;
	return !m->error && read_entry(fd, &now) && entry_equal(m, &now);
}

static bool all_match(const struct host_fingerprint *s, const struct plan_head *plan, uint32_t as)
{
	for (uint32_t i = 0; i < s->count; i++) {
		if ((s->mark[i].flags & FINGERPRINT_AS_PEER) == as && !entry_matches(&s->mark[i], plan))
			return false;
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

bool fingerprint_matches(const struct host_fingerprint *s, const struct plan_head *plan,
			 const struct fingerprint_peer *peer)
{
	for (uint32_t i = 0; i < s->count && i < FINGERPRINT_MAX; i++) {
		if (s->mark[i].mount >= plan->mount_count)
			return false;
	}
	if (s->lost || s->count > FINGERPRINT_MAX || !all_match(s, plan, 0))
		return false;
	bool match = switch_to_peer(peer) && all_match(s, plan, FINGERPRINT_AS_PEER);
	switch_back(peer);
	return match;
}
