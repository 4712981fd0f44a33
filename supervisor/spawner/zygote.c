#include "supervisor/spawner/zygote.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/cgroup.h"
#include "supervisor/spawner/idmap.h"
#include "supervisor/spawner/order.h"
#include "supervisor/spawner/spawn_msg.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define KEEP_NS (600 * 1000000000ull) /* a kind that nobody asked for so long */
#define FITTED_FROM 2u                /* uses of a plan */
#define FAILURES_MAX 3u
#define HOPE 32u /* uses, after which what failed so far is tried again */
#define TEND_MS 60000
#define SURE_NS (2 * 1000000ull) /* from a request until its start */

void zygotes_init(struct zygotes *z, struct cgroup_tree *cgroup, struct idmap *idmap, bool privileged, size_t wanted)
{
	*z = (struct zygotes){ .cgroup = cgroup,
			       .idmap = idmap,
			       .privileged = privileged,
			       .wanted = wanted > ZYGOTE_SPARE_MAX ? ZYGOTE_SPARE_MAX : wanted,
			       .room = mem_zalloc(1, sizeof *z->room) };
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
	fd_close(&one->mounts);
	free(one->made_from);
	one->made_from = NULL;
	if (one->leaf.id[0])
		cgroup_tree_remove(z->cgroup, &one->leaf);
	idmap_release(z->idmap, &one->leaf);
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
	for (size_t i = 0; i < ZYGOTE_KINDS; i++)
		fitting_done(&z->kinds[i].fit);
	for (size_t i = 0; i < z->nleaves; i++)
		fd_close(&z->leaves[i].mounts);
	while (z->nremains)
		zygotes_clear_remains(z);
	free(z->room);
	free(z->leaves);
	fd_close(&z->mounts_fd);
}

/* ---- what is out of date ---- */

static struct zygote_mark mark_of(const char *path)
{
	struct statx st;
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) < 0)
		return (struct zygote_mark){ 0 };
	return (struct zygote_mark){ .dev = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor,
				     .ino = st.stx_ino,
				     .changed_s = st.stx_ctime.tv_sec,
				     .changed_ns = st.stx_ctime.tv_nsec };
}

static struct zygote_sight look(void)
{
	return (struct zygote_sight){ .root = mark_of("/"),
				      .resolver = mark_of("/etc/resolv.conf"),
				      .users = mark_of("/etc/passwd"),
				      .groups = mark_of("/etc/group") };
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
	uint32_t network = k->fit.plan ? k->fit.plan->network : k->shape.network;
	bool accounts = k->fit.plan && fitting_is_mapped(&k->fit);
	return same(&one->sight.root, &now->root) &&
	       (network != PLAN_NET_HOST || same(&one->sight.resolver, &now->resolver)) &&
	       (!accounts || (same(&one->sight.users, &now->users) && same(&one->sight.groups, &now->groups)));
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
	for (size_t i = 0; i < ZYGOTE_SHAPES; i++) {
		if (z->kinds[i].used_ns && memcmp(&z->kinds[i].shape, shape, sizeof *shape) == 0)
			return &z->kinds[i];
	}
	return NULL;
}

static struct zygote_kind *fitted_kind_of(struct zygotes *z, const struct plan_head *plan,
					  const struct spawn_identity *id)
{
	for (size_t i = ZYGOTE_SHAPES; i < ZYGOTE_KINDS; i++) {
		if (fitting_is_for(&z->kinds[i].fit, plan, id))
			return &z->kinds[i];
	}
	return NULL;
}

/* In the place of the one that was not used for longest. */
static struct zygote_kind *new_kind(struct zygotes *z, size_t first, size_t end)
{
	struct zygote_kind *k = &z->kinds[first];
	for (size_t i = first + 1; i < end; i++) {
		if (z->kinds[i].used_ns < k->used_ns)
			k = &z->kinds[i];
	}
	drop_kind(z, k);
	fitting_done(&k->fit);
	*k = (struct zygote_kind){ 0 };
	return k;
}

static void take_out(struct zygote_kind *k, size_t i, struct zygote *ret)
{
	*ret = k->spare[i];
	k->count--;
	memmove(k->spare + i, k->spare + i + 1, (k->count - i) * sizeof *k->spare);
}

bool zygotes_take(struct zygotes *z, const struct step_shape *shape, struct zygote *ret)
{
	if (!z->wanted)
		return false;
	struct zygote_kind *k = kind_of(z, shape);
	if (!k) {
		k = new_kind(z, 0, ZYGOTE_SHAPES);
		k->shape = *shape;
	}
	k->used_ns = clock_boot_ns();
	if (k->count)
		drop_stale(z);
	if (!k->count)
		return false;
	take_out(k, 0, ret);
	return true;
}

/* 1 = it has told what it was made from, 0 = not yet, −1 = it will not. */
static int complete(struct zygotes *z, struct zygote *one)
{
	int r = one->made_from ? 1 : order_take_fitted(one->link, z->room);
	if (r > 0 && !one->made_from) {
		one->made_from = mem_dup(&z->room->sight, sizeof z->room->sight);
		one->layers = z->room->layers;
	}
	return r;
}

size_t zygotes_polls(const struct zygotes *z, int fds[ZYGOTE_POLLS_MAX])
{
	size_t n = 0;
	for (size_t i = ZYGOTE_SHAPES; i < ZYGOTE_KINDS; i++) {
		for (size_t j = 0; j < z->kinds[i].count; j++) {
			if (!z->kinds[i].spare[j].made_from)
				fds[n++] = z->kinds[i].spare[j].link;
		}
	}
	return n;
}

/* Taken before it is needed. One that died instead is let go of. */
void zygotes_on_told(struct zygotes *z, int fd)
{
	for (size_t i = ZYGOTE_SHAPES; i < ZYGOTE_KINDS; i++) {
		struct zygote_kind *k = &z->kinds[i];
		for (size_t j = 0; j < k->count; j++) {
			struct zygote gone;
			if (k->spare[j].link != fd || complete(z, &k->spare[j]) >= 0)
				continue;
			take_out(k, j, &gone);
			zygote_free(z, &gone);
			k->failures++;
			return;
		}
	}
}

static bool holds(const struct zygotes *z, const struct zygote_kind *k, const struct zygote *one)
{
	return fitting_holds(&k->fit, one->made_from, z->privileged);
}

/*
 * One whose time has not come is left alone; one that does not hold is ended, and so is what was made from the same.
 * `sure`: the pid of one that was looked at for this very request.
 */
static bool take_complete(struct zygotes *z, struct zygote_kind *k, pid_t sure, struct zygote *ret)
{
	bool misfit = false;
	for (size_t i = 0; i < k->count;) {
		int r = complete(z, &k->spare[i]);
		if (r == 0) {
			i++;
			continue;
		}
		if (r > 0 && (k->spare[i].pid == sure || holds(z, k, &k->spare[i]))) {
			take_out(k, i, ret);
			k->failures = 0;
			return true;
		}
		struct zygote bad;
		take_out(k, i, &bad);
		zygote_free(z, &bad);
		misfit = true;
	}
	k->failures += misfit;
	return false;
}

bool zygotes_take_fitted(struct zygotes *z, const struct plan_head *plan, const struct spawn_identity *id,
			 const struct spawn_msg *start, struct zygote *ret)
{
	if (!z->wanted)
		return false;
	pid_t sure = start->token && start->token == z->sure.token && clock_boot_ns() - z->sure.ns < SURE_NS
			     ? z->sure.pid
			     : 0;
	z->sure.token = 0;
	struct zygote_kind *k = fitted_kind_of(z, plan, id);
	if (!k) {
		k = new_kind(z, ZYGOTE_SHAPES, ZYGOTE_KINDS);
		if (fitting_init(&k->fit, plan, id) < 0)
			return false;
	}
	k->hint = start->hint;
	if (++k->uses % HOPE == 0)
		k->failures = 0;
	k->used_ns = clock_boot_ns();
	if (!k->count)
		return false;
	if (!sure)
		drop_stale(z);
	return take_complete(z, k, sure, ret);
}

void zygotes_expect(struct zygotes *z, uint64_t hint, uint64_t token)
{
	struct zygote_kind *k = NULL;
	z->sure.token = 0;
	for (size_t i = ZYGOTE_SHAPES; i < ZYGOTE_KINDS && hint; i++) {
		if (z->kinds[i].count && z->kinds[i].hint == hint)
			k = &z->kinds[i];
	}
	if (!k)
		return;
	uint64_t now = clock_boot_ns();
	drop_stale(z);
	size_t i = 0;
	while (i < k->count && complete(z, &k->spare[i]) <= 0)
		i++;
	if (i == k->count || !holds(z, k, &k->spare[i]))
		return; /* whoever starts next deals with it */
	z->sure.token = token;
	z->sure.ns = now;
	z->sure.pid = k->spare[i].pid;
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
		if (k->fit.plan && k->uses < FITTED_FROM)
			continue;
		if (!best || k->count < best->count)
			best = k;
	}
	return best;
}

void zygotes_begin(struct zygotes *z, struct zygote *ret)
{
	*ret = (struct zygote){ .pidfd = -1, .link = -1, .mounts = -1 };
	snprintf(ret->leaf.id, sizeof ret->leaf.id, "%s", z->name);
	ret->leaf.attempt = ++z->serial;
	ret->sight = look();
}

void zygotes_add(struct zygote_kind *k, const struct zygote *one) { k->spare[k->count++] = *one; }

/* ---- names of cgroups, and what is left of the dead ---- */

void zygotes_name_leaf(struct zygotes *z, const struct plan_key *key, struct zygote *one)
{
	if (z->nleaves == z->room_leaves) {
		z->room_leaves = z->room_leaves ? 2 * z->room_leaves : 64;
		z->leaves = mem_realloc(z->leaves, z->room_leaves * sizeof *z->leaves);
	}
	z->leaves[z->nleaves++] = (struct zygote_leaf){ .key = *key,
							.leaf = one->leaf,
							.mounts = fd_take(&one->mounts) };
	free(one->made_from);
	one->made_from = NULL;
}

struct plan_key zygotes_forget_leaf(struct zygotes *z, const struct plan_key *key)
{
	for (size_t i = 0; i < z->nleaves; i++) {
		if (memcmp(&z->leaves[i].key, key, sizeof *key) != 0)
			continue;
		struct plan_key leaf = z->leaves[i].leaf;
		if (z->nremains == ZYGOTE_REMAINS_MAX)
			zygotes_clear_remains(z);
		if (z->leaves[i].mounts >= 0)
			z->remains[z->nremains++] = z->leaves[i].mounts;
		z->leaves[i] = z->leaves[--z->nleaves];
		return leaf;
	}
	return *key;
}

bool zygotes_has_remains(const struct zygotes *z) { return z->nremains > 0; }

void zygotes_clear_remains(struct zygotes *z)
{
	if (z->nremains)
		fd_close(&z->remains[--z->nremains]);
}
