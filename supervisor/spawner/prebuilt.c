#include "supervisor/spawner/prebuilt.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/cgroup.h"
#include "supervisor/spawner/idmap.h"
#include "supervisor/spawner/netpool.h"
#include "supervisor/spawner/prebuilt_msg.h"
#include "supervisor/spawner/spawn_msg.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define KEEP_NS (600 * 1000000000ull) /* a kind that no request needed for this long is dropped */
#define DEDICATED_FROM 2u             /* uses of a plan before a dedicated sandbox is built for it */
#define FAILURES_MAX 3u
#define RETRY_USES 32u /* uses after which a kind that failed is tried again */
#define LOST_MAX 8u    /* waiting ones that exited since the last use */
#define EXPIRE_MS 60000
#define SPARE_MS 5000
#define EARLY_CHECK_NS (2 * 1000000ull) /* from a request until its start */
#define EARLY_SKIP 16u                  /* announcements after a check that came too early, or for another start */

void prebuilt_pool_init(struct prebuilt_pool *pool, struct cgroup_tree *cgroup, struct idmap *idmap,
			struct netpool *netpool, bool privileged, size_t wanted, unsigned spare_ms)
{
	*pool = (struct prebuilt_pool){ .cgroup = cgroup,
					.idmap = idmap,
					.netpool = netpool,
					.privileged = privileged,
					.wanted = wanted > PREBUILT_WANTED_MAX ? PREBUILT_WANTED_MAX : wanted,
					.spare_ms = spare_ms ? spare_ms : SPARE_MS,
					.buffer = mem_zalloc(1, sizeof *pool->buffer) };
	pool->mounts_fd = pool->wanted ? open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) : -1;
	if (pool->mounts_fd < 0)
		pool->wanted = 0; /* without mount notifications stale sandboxes would go undetected */
	snprintf(pool->name, sizeof pool->name, CGROUP_PREBUILT "%llx", (unsigned long long)clock_boot_ns());
}

void prebuilt_free(struct prebuilt_pool *pool, struct prebuilt *one)
{
	fd_close(&one->link);
	if (one->pidfd >= 0)
		fd_pidfd_signal(one->pidfd, SIGKILL);
	fd_close(&one->pidfd);
	fd_close(&one->mounts);
	fd_close(&one->net);
	free(one->fingerprint);
	one->fingerprint = NULL;
	if (one->leaf.id[0])
		cgroup_tree_remove(pool->cgroup, &one->leaf);
	idmap_release(pool->idmap, &one->leaf);
}

static void drop_kind(struct prebuilt_pool *pool, struct prebuilt_kind *k)
{
	while (k->count > 0)
		prebuilt_free(pool, &k->spare[--k->count]);
}

void prebuilt_drop_all(struct prebuilt_pool *pool)
{
	pool->era++;
	for (size_t i = 0; i < PREBUILT_KINDS; i++) {
		drop_kind(pool, &pool->kinds[i]);
		pool->kinds[i].mapped = false;
	}
}

static void close_held(struct prebuilt_held *held)
{
	fd_close(&held->mounts);
	fd_close(&held->net);
	fd_close(&held->pidfd);
}

/* An init that runs a command does not notice that its link is closed before that has ended. */
static void close_checked_out(struct prebuilt_leaf *leaf)
{
	if (!leaf->checked_out)
		return;
	fd_close(&leaf->checked_out->link);
	fd_close(&leaf->checked_out->pidfd);
	fd_close(&leaf->checked_out->mounts);
	fd_close(&leaf->checked_out->net);
	free(leaf->checked_out->fingerprint);
	free(leaf->checked_out);
	leaf->checked_out = NULL;
}

void prebuilt_pool_done(struct prebuilt_pool *pool)
{
	prebuilt_drop_all(pool);
	for (size_t i = 0; i < PREBUILT_KINDS; i++)
		prebuilt_key_done(&pool->kinds[i].key);
	while (pool->nleaves) {
		struct prebuilt_leaf *leaf = &pool->leaves[--pool->nleaves];
		close_held(&leaf->held);
		close_checked_out(leaf);
	}
	while (pool->ngarbage)
		close_held(&pool->garbage[--pool->ngarbage]);
	free(pool->buffer);
	free(pool->leaves);
	fd_close(&pool->mounts_fd);
}

/* ---- stale sandboxes ---- */

static struct host_stamps read_host_stamps(void)
{
	return (struct host_stamps){ .root = file_stamp_of_path("/"),
				     .resolver = file_stamp_of_path("/etc/resolv.conf"),
				     .users = file_stamp_of_path("/etc/passwd"),
				     .groups = file_stamp_of_path("/etc/group") };
}

static bool mounts_changed(const struct prebuilt_pool *pool)
{
	struct pollfd p = { .fd = pool->mounts_fd, .events = POLLPRI };
	return poll(&p, 1, 0) != 0;
}

/* When a file is replaced on the host, what was mounted on it in the sandbox is gone, too. */
static bool has_current_files(const struct prebuilt_kind *k, const struct prebuilt *one, const struct host_stamps *now)
{
	bool accounts = k->key.plan && prebuilt_key_is_mapped(&k->key);
	return file_stamp_equal(&one->stamps.root, &now->root) &&
	       file_stamp_equal(&one->stamps.resolver, &now->resolver) &&
	       (!accounts || (file_stamp_equal(&one->stamps.users, &now->users) &&
			      file_stamp_equal(&one->stamps.groups, &now->groups)));
}

static void drop_stale(struct prebuilt_pool *pool)
{
	const struct host_stamps now = read_host_stamps();
	bool all = mounts_changed(pool);
	pool->era += all;
	for (size_t i = 0; i < PREBUILT_KINDS; i++) {
		struct prebuilt_kind *k = &pool->kinds[i];
		size_t kept = 0;
		for (size_t j = 0; j < k->count; j++) {
			if (!all && has_current_files(k, &k->spare[j], &now))
				k->spare[kept++] = k->spare[j];
			else
				prebuilt_free(pool, &k->spare[j]);
		}
		k->count = kept;
	}
}

static bool is_in_use(const struct prebuilt_pool *pool, const struct prebuilt_kind *k, uint64_t now)
{
	return now - k->used_ns <= pool->spare_ms * 1000000ull;
}

/* A kind that is not in use keeps one, so that an idle daemon has few processes. */
static size_t wanted_of(const struct prebuilt_pool *pool, const struct prebuilt_kind *k, uint64_t now)
{
	return is_in_use(pool, k, now) || !pool->wanted ? pool->wanted : 1;
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	return fd >= 0 && poll(&p, 1, 0) == 1;
}

/*
 * A runtime that dies between the release of a command and SPAWN_CLEAN leaves an init that nobody will use. It has
 * reported that nothing is left, or is dead, and after some time the message is no longer to be expected. Returns the
 * ms until the next check, −1 = none is needed.
 */
static int end_abandoned(struct prebuilt_pool *pool, uint64_t now)
{
	bool any = false, due = now - pool->abandoned_checked_ns >= pool->spare_ms * 1000000ull;
	for (size_t i = pool->nleaves; i-- > 0;) {
		struct prebuilt_leaf *leaf = &pool->leaves[i];
		any |= leaf->checked_out != NULL;
		if (!due || !leaf->checked_out || !is_readable(leaf->checked_out->link))
			continue;
		if (!leaf->ended) {
			leaf->ended = true;
			continue;
		}
		const struct plan_key key = leaf->key, name = prebuilt_forget_leaf(pool, &key);
		cgroup_tree_remove(pool->cgroup, &name);
		idmap_release(pool->idmap, &key);
	}
	if (due)
		pool->abandoned_checked_ns = now;
	return any ? (int)pool->spare_ms : -1;
}

int prebuilt_expire(struct prebuilt_pool *pool)
{
	uint64_t now = clock_boot_ns();
	int wait_ms = end_abandoned(pool, now);
	for (size_t i = 0; i < PREBUILT_KINDS; i++) {
		struct prebuilt_kind *k = &pool->kinds[i];
		if (k->count && now - k->used_ns > KEEP_NS)
			drop_kind(pool, k);
		/* As many clients as there are at a time take sandboxes and give them back. */
		while (k->count > wanted_of(pool, k, now) && (!k->serial || !is_in_use(pool, k, now)))
			prebuilt_free(pool, &k->spare[--k->count]);
		if (k->count > 1)
			wait_ms = (int)pool->spare_ms;
		else if (k->count && wait_ms < 0)
			wait_ms = EXPIRE_MS;
	}
	return wait_ms;
}

/* ---- taking and making ---- */

static struct prebuilt_kind *kind_of(struct prebuilt_pool *pool, const struct step_shape *shape, uid_t owner)
{
	for (size_t i = 0; i < PREBUILT_SHAPES; i++) {
		if (pool->kinds[i].used_ns && pool->kinds[i].owner == owner &&
		    memcmp(&pool->kinds[i].shape, shape, sizeof *shape) == 0)
			return &pool->kinds[i];
	}
	return NULL;
}

static struct prebuilt_kind *dedicated_kind_of(struct prebuilt_pool *pool, const struct plan_head *plan,
					       const struct spawn_identity *id)
{
	for (size_t i = PREBUILT_SHAPES; i < PREBUILT_KINDS; i++) {
		if (prebuilt_key_matches(&pool->kinds[i].key, plan, id))
			return &pool->kinds[i];
	}
	return NULL;
}

/* Replaces the least recently used one. */
static struct prebuilt_kind *new_kind(struct prebuilt_pool *pool, size_t first, size_t end)
{
	struct prebuilt_kind *k = &pool->kinds[first];
	for (size_t i = first + 1; i < end; i++) {
		if (pool->kinds[i].used_ns < k->used_ns)
			k = &pool->kinds[i];
	}
	drop_kind(pool, k);
	prebuilt_key_done(&k->key);
	*k = (struct prebuilt_kind){ 0 };
	return k;
}

static void take_out(struct prebuilt_kind *k, size_t i, struct prebuilt *ret)
{
	*ret = k->spare[i];
	k->count--;
	memmove(k->spare + i, k->spare + i + 1, (k->count - i) * sizeof *k->spare);
}

static void add_garbage(struct prebuilt_pool *pool, const struct prebuilt_held *held)
{
	if (held->mounts < 0 && held->net < 0 && held->pidfd < 0)
		return;
	if (pool->ngarbage == PREBUILT_GARBAGE_MAX)
		prebuilt_collect_garbage(pool);
	pool->garbage[pool->ngarbage++] = *held;
}

/* One whose init has exited after a command: its namespaces remain. */
static void discard(struct prebuilt_pool *pool, const struct prebuilt_kind *k, struct prebuilt *one)
{
	if (one->returning)
		add_garbage(pool, &(struct prebuilt_held){ .mounts = fd_take(&one->mounts),
							   .net = fd_take(&one->net),
							   .pidfd = fd_take(&one->pidfd),
							   .owner = k->owner });
	prebuilt_free(pool, one);
}

bool prebuilt_take_generic(struct prebuilt_pool *pool, const struct step_shape *shape, uid_t owner,
			   struct prebuilt *ret)
{
	if (!pool->wanted)
		return false;
	struct prebuilt_kind *k = kind_of(pool, shape, owner);
	if (!k) {
		k = new_kind(pool, 0, PREBUILT_SHAPES);
		k->shape = *shape;
		k->owner = owner;
	}
	k->used_ns = clock_boot_ns();
	if (k->count)
		drop_stale(pool);
	if (!k->count)
		return false;
	take_out(k, 0, ret);
	return true;
}

/* Returns 1 if its fingerprint has arrived, 0 if not yet, −1 if it is dead. */
static int receive_ready(struct prebuilt_pool *pool, struct prebuilt *one)
{
	if (one->returning) {
		int empty = prebuilt_msg_receive_empty(one->link);
		one->returning = empty <= 0;
		return empty;
	}
	int r = one->fingerprint ? 1 : prebuilt_msg_receive_ready(one->link, pool->buffer);
	if (r > 0 && !one->fingerprint) {
		one->fingerprint = mem_zalloc(1, sizeof *one->fingerprint);
		one->fingerprint->recorded = pool->buffer->fingerprint;
		one->layers = pool->buffer->layers;
	}
	return r;
}

size_t prebuilt_polls(const struct prebuilt_pool *pool, struct pollfd *ret)
{
	size_t n = 0;
	for (size_t i = PREBUILT_SHAPES; i < PREBUILT_KINDS; i++) {
		for (size_t j = 0; j < pool->kinds[i].count; j++) {
			const struct prebuilt *one = &pool->kinds[i].spare[j];
			ret[n++] = (struct pollfd){ .fd = one->link, .events = one->fingerprint ? 0 : POLLIN };
		}
	}
	return n;
}

static void on_ready(struct prebuilt_pool *pool, struct prebuilt_kind *k, size_t i)
{
	struct prebuilt gone;
	const bool complete = k->spare[i].fingerprint, returning = k->spare[i].returning;
	int r = complete && !returning ? -1 : receive_ready(pool, &k->spare[i]);
	if (r && !complete)
		k->mapped = r > 0;
	if (r >= 0)
		return;
	take_out(k, i, &gone);
	k->failures += !complete;
	k->lost += complete && !returning;
	discard(pool, k, &gone);
}

void prebuilt_on_ready(struct prebuilt_pool *pool, int fd)
{
	for (size_t i = PREBUILT_SHAPES; i < PREBUILT_KINDS; i++) {
		for (size_t j = 0; j < pool->kinds[i].count; j++) {
			if (pool->kinds[i].spare[j].link == fd) {
				on_ready(pool, &pool->kinds[i], j);
				return;
			}
		}
	}
}

static bool is_current(const struct prebuilt_pool *pool, const struct prebuilt_kind *k, const struct prebuilt *one)
{
	return prebuilt_key_is_current(&k->key, &one->fingerprint->recorded, &one->fingerprint->folders,
				       pool->privileged);
}

/*
 * The one that was used last first. Skips those that are not ready yet; kills those that no longer match the host.
 * `checked`: the pid of one that was checked early for this very request.
 */
static bool take_ready(struct prebuilt_pool *pool, struct prebuilt_kind *k, pid_t checked, struct prebuilt *ret)
{
	bool stale = false;
	for (size_t i = k->count; i-- > 0;) {
		struct prebuilt bad;
		bool returning = k->spare[i].returning;
		int r = receive_ready(pool, &k->spare[i]);
		if (r == 0)
			continue;
		if (r > 0 && (k->spare[i].pid == checked || is_current(pool, k, &k->spare[i]))) {
			take_out(k, i, ret);
			k->failures = 0;
			k->mapped = true;
			return true;
		}
		take_out(k, i, &bad);
		discard(pool, k, &bad);
		if (r > 0 || !returning) {
			k->mapped = false;
			stale = true;
		}
	}
	k->failures += stale;
	return false;
}

bool prebuilt_take_dedicated(struct prebuilt_pool *pool, const struct plan_head *plan, const struct spawn_identity *id,
			     const struct spawn_msg *start, struct prebuilt *ret)
{
	if (!pool->wanted)
		return false;
	pid_t checked = start->token && start->token == pool->early_check.token &&
					clock_boot_ns() - pool->early_check.ns < EARLY_CHECK_NS
				? pool->early_check.pid
				: 0;
	if (pool->early_check.token && !checked)
		pool->early_check.skip = EARLY_SKIP;
	pool->early_check.token = 0;
	struct prebuilt_kind *k = dedicated_kind_of(pool, plan, id);
	if (!k) {
		k = new_kind(pool, PREBUILT_SHAPES, PREBUILT_KINDS);
		if (prebuilt_key_init(&k->key, plan, id) < 0)
			return false;
		k->owner = k->key.uid;
		k->serial = ++pool->last_serial;
	}
	k->hint = start->hint;
	if (++k->uses % RETRY_USES == 0)
		k->failures = 0;
	k->used_ns = clock_boot_ns();
	k->lost = 0;
	if (k->count && !checked)
		drop_stale(pool);
	k->missed = !k->count || !take_ready(pool, k, checked, ret);
	return !k->missed;
}

void prebuilt_check_early(struct prebuilt_pool *pool, uint64_t hint, uint64_t token)
{
	struct prebuilt_kind *k = NULL;
	pool->early_check.token = 0;
	/* On a busy machine the start comes too late, and all would be checked twice. */
	if (pool->early_check.skip) {
		pool->early_check.skip--;
		return;
	}
	for (size_t i = PREBUILT_SHAPES; i < PREBUILT_KINDS && hint; i++) {
		if (pool->kinds[i].count && pool->kinds[i].hint == hint)
			k = &pool->kinds[i];
	}
	if (!k)
		return;
	uint64_t now = clock_boot_ns();
	drop_stale(pool);
	size_t i = k->count;
	while (i > 0 && receive_ready(pool, &k->spare[i - 1]) <= 0)
		i--;
	if (i-- == 0 || !is_current(pool, k, &k->spare[i]))
		return; /* the next start handles it */
	pool->early_check.token = token;
	pool->early_check.ns = now;
	pool->early_check.pid = k->spare[i].pid;
}

void prebuilt_failed(struct prebuilt_pool *pool, const struct step_shape *shape, uid_t owner)
{
	struct prebuilt_kind *k = kind_of(pool, shape, owner);
	if (k)
		k->failures++;
}

static bool can_be_built(const struct prebuilt_kind *k)
{
	return k->failures < FAILURES_MAX && k->lost < LOST_MAX && (!k->key.plan || k->uses >= DEDICATED_FROM);
}

/* How many run a command and may come back. */
static size_t checked_out_of(const struct prebuilt_pool *pool, uint64_t kind)
{
	size_t n = 0;
	for (size_t i = 0; i < pool->nleaves; i++)
		n += pool->leaves[i].checked_out && pool->leaves[i].checked_out->kind == kind;
	return n;
}

/* How many are still being built. */
static size_t unfinished(const struct prebuilt_kind *k)
{
	size_t n = 0;
	for (size_t i = 0; i < k->count; i++)
		n += !k->spare[i].fingerprint;
	return n;
}

struct prebuilt_kind *prebuilt_missed_kind(struct prebuilt_pool *pool)
{
	for (size_t i = PREBUILT_SHAPES; i < PREBUILT_KINDS; i++) {
		struct prebuilt_kind *k = &pool->kinds[i];
		if (k->missed && unfinished(k) < pool->wanted && can_be_built(k) &&
		    k->count + checked_out_of(pool, k->serial) < PREBUILT_SPARE_MAX)
			return k;
	}
	return NULL;
}

struct prebuilt_kind *prebuilt_wanted_kind(struct prebuilt_pool *pool)
{
	uint64_t now = clock_boot_ns();
	struct prebuilt_kind *best = NULL;
	/* Dedicated ones first: a start that finds one leaves less to do, and needs no generic one. */
	for (size_t i = PREBUILT_KINDS; i-- > 0;) {
		struct prebuilt_kind *k = &pool->kinds[i];
		if (!k->used_ns || k->count >= wanted_of(pool, k, now) || !can_be_built(k) ||
		    now - k->used_ns > KEEP_NS)
			continue;
		if (!best || k->count < best->count)
			best = k;
	}
	return best;
}

void prebuilt_begin(struct prebuilt_pool *pool, struct prebuilt *ret)
{
	*ret = (struct prebuilt){ .pidfd = -1, .link = -1, .mounts = -1, .net = -1 };
	snprintf(ret->leaf.id, sizeof ret->leaf.id, "%s", pool->name);
	ret->leaf.attempt = ++pool->serial;
	ret->stamps = read_host_stamps();
	ret->era = pool->era;
}

void prebuilt_add(struct prebuilt_kind *k, const struct prebuilt *one)
{
	k->missed = false;
	k->spare[k->count] = *one;
	k->spare[k->count++].kind = k->serial;
}

/* ---- names of cgroups, and namespaces of ended commands ---- */

void prebuilt_name_leaf(struct prebuilt_pool *pool, const struct plan_key *key, uid_t owner, struct prebuilt *one)
{
	prebuilt_hold(pool, key, &one->leaf, owner, one->pidfd, &one->mounts, &one->net);
	free(one->fingerprint);
	one->fingerprint = NULL;
}

/* Whether a process of the command can exist. */
static bool is_running(const struct prebuilt_leaf *leaf)
{
	return leaf->checked_out ? !is_readable(leaf->checked_out->link) && !is_readable(leaf->checked_out->pidfd)
				 : !is_readable(leaf->held.pidfd);
}

/*
 * Another sandboxed command of the same user can have got a descriptor of a directory in this sandbox. Landlock denies
 * it to open files there, but not to change their modes and times, or to connect to sockets. With an id of its own the
 * sandbox's directories are closed to all others.
 */
static bool has_concurrent(const struct prebuilt_pool *pool, const struct prebuilt_leaf *leaf)
{
	if (leaf->checked_out->uid != leaf->held.owner)
		return false;
	if (pool->unknown_commands)
		return true;
	for (size_t i = 0; i < pool->nleaves; i++) {
		const struct prebuilt_leaf *other = &pool->leaves[i];
		if (other != leaf && other->held.owner == leaf->held.owner && is_running(other))
			return true;
	}
	return false;
}

/* Call before another command of this user can run: what ended while no other command ran stays out of its reach. */
static void note_exclusive(struct prebuilt_pool *pool, uid_t owner)
{
	for (size_t i = 0; i < pool->nleaves; i++) {
		struct prebuilt_leaf *leaf = &pool->leaves[i];
		if (leaf->checked_out && !leaf->exclusive && leaf->checked_out->uid == owner &&
		    is_readable(leaf->checked_out->link))
			leaf->exclusive = !has_concurrent(pool, leaf);
	}
}

void prebuilt_hold(struct prebuilt_pool *pool, const struct plan_key *key, const struct plan_key *leaf, uid_t owner,
		   int init, int *mounts, int *net)
{
	note_exclusive(pool, owner);
	if (pool->nleaves == pool->leaves_size) {
		pool->leaves_size = pool->leaves_size ? 2 * pool->leaves_size : 64;
		pool->leaves = mem_realloc(pool->leaves, pool->leaves_size * sizeof *pool->leaves);
	}
	int pidfd = init < 0 ? -1 : fcntl(init, F_DUPFD_CLOEXEC, 0);
	if (pidfd < 0)
		fd_close(net);
	pool->leaves[pool->nleaves++] = (struct prebuilt_leaf){
		.key = *key,
		.leaf = *leaf,
		.held = { .mounts = fd_take(mounts), .net = fd_take(net), .pidfd = pidfd, .owner = owner }
	};
}

bool prebuilt_can_check_out(const struct prebuilt_pool *pool, const struct prebuilt *one)
{
	return checked_out_of(pool, one->kind) < PREBUILT_SPARE_MAX;
}

void prebuilt_check_out(struct prebuilt_pool *pool, const struct plan_key *key, uid_t owner, const struct prebuilt *one)
{
	int none = -1, no_net = -1;
	prebuilt_hold(pool, key, &one->leaf, owner, -1, &none, &no_net);
	pool->leaves[pool->nleaves - 1].checked_out = mem_dup(one, sizeof *one);
}

static struct prebuilt_kind *kind_of_serial(struct prebuilt_pool *pool, uint64_t serial)
{
	for (size_t i = PREBUILT_SHAPES; i < PREBUILT_KINDS; i++) {
		if (serial && pool->kinds[i].serial == serial)
			return &pool->kinds[i];
	}
	return NULL;
}

static struct prebuilt_leaf *leaf_of(struct prebuilt_pool *pool, const struct plan_key *key)
{
	for (size_t i = 0; i < pool->nleaves; i++) {
		if (memcmp(&pool->leaves[i].key, key, sizeof *key) == 0)
			return &pool->leaves[i];
	}
	return NULL;
}

bool prebuilt_take_back(struct prebuilt_pool *pool, const struct plan_key *key)
{
	struct prebuilt_leaf *leaf = leaf_of(pool, key);
	struct prebuilt *one = leaf ? leaf->checked_out : NULL;
	struct prebuilt_kind *k = one ? kind_of_serial(pool, one->kind) : NULL;
	if (!k || one->era != pool->era || one->pidfd < 0 || k->count == PREBUILT_SPARE_MAX ||
	    (!leaf->exclusive && has_concurrent(pool, leaf)))
		return false;
	idmap_pass_on(pool->idmap, key, &one->leaf);
	one->returning = true;
	prebuilt_add(k, one);
	free(one);
	*leaf = pool->leaves[--pool->nleaves];
	return true;
}

struct plan_key prebuilt_forget_leaf(struct prebuilt_pool *pool, const struct plan_key *key)
{
	struct prebuilt_leaf *leaf = leaf_of(pool, key);
	if (!leaf)
		return *key;
	struct plan_key name = leaf->leaf;
	if (leaf->checked_out) { /* the guard has killed the init, unless it was to be kept */
		leaf->held = (struct prebuilt_held){ .mounts = fd_take(&leaf->checked_out->mounts),
						     .net = fd_take(&leaf->checked_out->net),
						     .pidfd = fd_take(&leaf->checked_out->pidfd),
						     .owner = leaf->held.owner };
		if (leaf->held.pidfd >= 0)
			fd_pidfd_signal(leaf->held.pidfd, SIGKILL);
		close_checked_out(leaf);
	}
	add_garbage(pool, &leaf->held);
	*leaf = pool->leaves[--pool->nleaves];
	return name;
}

bool prebuilt_has_garbage(const struct prebuilt_pool *pool) { return pool->ngarbage > 0; }

void prebuilt_collect_garbage(struct prebuilt_pool *pool)
{
	if (!pool->ngarbage)
		return;
	struct prebuilt_held *held = &pool->garbage[--pool->ngarbage];
	/*
	 * That the command has ended is only what the runtime says. A pid namespace's init becomes a zombie after every
	 * other process of the namespace is gone, and its pidfd becomes readable then.
	 */
	struct pollfd p = { .fd = held->pidfd, .events = POLLIN };
	if (held->pidfd >= 0 && poll(&p, 1, 0) == 1 && p.revents & POLLIN)
		netpool_give_back(pool->netpool, fd_take(&held->net), held->owner);
	close_held(held);
}
