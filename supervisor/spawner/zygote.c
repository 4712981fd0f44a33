#include "supervisor/spawner/zygote.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define KEEP_NS (600 * 1000000000ull) /* a shape that nobody asked for so long */
#define FAILURES_MAX 3u
#define TEND_MS 60000

void zygotes_init(struct zygotes *z, struct cgroup_tree *cgroup, size_t wanted)
{
	*z = (struct zygotes){ .cgroup = cgroup, .wanted = wanted > ZYGOTE_SPARE_MAX ? ZYGOTE_SPARE_MAX : wanted };
	z->mounts_fd = z->wanted ? open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) : -1;
	if (z->mounts_fd < 0)
		z->wanted = 0; /* nobody would tell when they are out of date */
	snprintf(z->name, sizeof z->name, CGROUP_AHEAD "%llx", (unsigned long long)clock_boot_ns());
}

void zygote_free(struct zygotes *z, struct zygote *one)
{
	fd_close(&one->link);
	if (one->pidfd >= 0)
		fd_pidfd_signal(one->pidfd, SIGKILL);
	fd_close(&one->pidfd);
	if (one->leaf.id[0])
		cgroup_tree_remove(z->cgroup, &one->leaf);
}

static void drop_kind(struct zygotes *z, struct zygote_kind *k)
{
	while (k->count > 0)
		zygote_free(z, &k->spare[--k->count]);
}

void zygotes_drop(struct zygotes *z)
{
	for (size_t i = 0; i < ZYGOTE_KINDS; i++)
		drop_kind(z, &z->kinds[i]);
}

void zygotes_done(struct zygotes *z)
{
	zygotes_drop(z);
	free(z->leaves);
	fd_close(&z->mounts_fd);
}

/* ---- what is out of date ---- */

static struct zygote_mark mark_of(const char *path)
{
	struct statx st;
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) < 0)
		return (struct zygote_mark){ 0 };
	return (struct zygote_mark){ .dev = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor, .ino = st.stx_ino,
				     .changed_s = st.stx_ctime.tv_sec, .changed_ns = st.stx_ctime.tv_nsec };
}

static struct zygote_sight look(void)
{
	return (struct zygote_sight){ .root = mark_of("/"), .resolver = mark_of("/etc/resolv.conf") };
}

static bool same(const struct zygote_mark *a, const struct zygote_mark *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->changed_s == b->changed_s && a->changed_ns == b->changed_ns;
}

static bool mounts_changed(const struct zygotes *z)
{
	struct pollfd p = { .fd = z->mounts_fd, .events = POLLPRI };
	return poll(&p, 1, 0) != 0;
}

static bool fits(const struct zygote_kind *k, const struct zygote *one, const struct zygote_sight *now)
{
	return same(&one->sight.root, &now->root) &&
	       (k->shape.network != PLAN_NET_HOST || same(&one->sight.resolver, &now->resolver));
}

static void drop_stale(struct zygotes *z)
{
	const struct zygote_sight now = look();
	bool all = mounts_changed(z);
	for (size_t i = 0; i < ZYGOTE_KINDS; i++) {
		struct zygote_kind *k = &z->kinds[i];
		size_t kept = 0;
		for (size_t j = 0; j < k->count; j++) {
			if (!all && fits(k, &k->spare[j], &now))
				k->spare[kept++] = k->spare[j];
			else
				zygote_free(z, &k->spare[j]);
		}
		k->count = kept;
	}
}

int zygotes_tend(struct zygotes *z)
{
	uint64_t now = clock_boot_ns();
	int wait_ms = -1;
	for (size_t i = 0; i < ZYGOTE_KINDS; i++) {
		struct zygote_kind *k = &z->kinds[i];
		if (k->count && now - k->used_ns > KEEP_NS)
			drop_kind(z, k);
		if (k->count)
			wait_ms = TEND_MS;
	}
	return wait_ms;
}

/* ---- taking and making ---- */

static struct zygote_kind *kind_of(struct zygotes *z, const struct step_shape *shape)
{
	for (size_t i = 0; i < ZYGOTE_KINDS; i++) {
		if (z->kinds[i].used_ns && memcmp(&z->kinds[i].shape, shape, sizeof *shape) == 0)
			return &z->kinds[i];
	}
	return NULL;
}

/* In the place of the one that was not used for longest. */
static struct zygote_kind *new_kind(struct zygotes *z, const struct step_shape *shape)
{
	struct zygote_kind *k = &z->kinds[0];
	for (size_t i = 1; i < ZYGOTE_KINDS; i++) {
		if (z->kinds[i].used_ns < k->used_ns)
			k = &z->kinds[i];
	}
	drop_kind(z, k);
	*k = (struct zygote_kind){ .shape = *shape };
	return k;
}

bool zygotes_take(struct zygotes *z, const struct step_shape *shape, struct zygote *ret)
{
	if (!z->wanted)
		return false;
	struct zygote_kind *k = kind_of(z, shape);
	if (!k)
		k = new_kind(z, shape);
	k->used_ns = clock_boot_ns();
	if (k->count)
		drop_stale(z);
	if (!k->count)
		return false;
	*ret = k->spare[0];
	k->count--;
	memmove(k->spare, k->spare + 1, k->count * sizeof *k->spare);
	return true;
}

void zygotes_failed(struct zygotes *z, const struct step_shape *shape)
{
	struct zygote_kind *k = kind_of(z, shape);
	if (k)
		k->failures++;
}

struct zygote_kind *zygotes_wants(struct zygotes *z)
{
	uint64_t now = clock_boot_ns();
	struct zygote_kind *best = NULL;
	for (size_t i = 0; i < ZYGOTE_KINDS; i++) {
		struct zygote_kind *k = &z->kinds[i];
		if (!k->used_ns || k->count >= z->wanted || k->failures >= FAILURES_MAX || now - k->used_ns > KEEP_NS)
			continue;
		if (!best || k->count < best->count)
			best = k;
	}
	return best;
}

void zygotes_begin(struct zygotes *z, struct zygote *ret)
{
	*ret = (struct zygote){ .pidfd = -1, .link = -1 };
	snprintf(ret->leaf.id, sizeof ret->leaf.id, "%s", z->name);
	ret->leaf.attempt = ++z->serial;
	ret->sight = look();
}

void zygotes_add(struct zygote_kind *k, const struct zygote *one)
{
	k->spare[k->count++] = *one;
}

/* ---- names of cgroups ---- */

void zygotes_name_leaf(struct zygotes *z, const struct plan_key *key, const struct plan_key *leaf)
{
	if (z->nleaves == z->room) {
		z->room = z->room ? 2 * z->room : 64;
		z->leaves = mem_realloc(z->leaves, z->room * sizeof *z->leaves);
	}
	z->leaves[z->nleaves++] = (struct zygote_leaf){ .key = *key, .leaf = *leaf };
}

struct plan_key zygotes_forget_leaf(struct zygotes *z, const struct plan_key *key)
{
	for (size_t i = 0; i < z->nleaves; i++) {
		if (memcmp(&z->leaves[i].key, key, sizeof *key) != 0)
			continue;
		struct plan_key leaf = z->leaves[i].leaf;
		z->leaves[i] = z->leaves[--z->nleaves];
		return leaf;
	}
	return *key;
}
