/*
 * Mounts a plan's trees onto the new root, in the plan's order.
 *
 * First every path to bind is resolved, once, with the peer's identity: a sandbox never shows what its peer cannot
 * reach. From then on only descriptors are used. Hidden and protected paths are resolved in the new root instead,
 * because that is where they must not be accessible.
 *
 * The command can rename entries inside a write root. So anything else that is mounted there is pinned: each directory
 * between the mount and the write root is bound onto itself, and the kernel does not rename or remove a mount point.
 *
 * A link there that must stay unchanged is bound onto itself, too, which prevents its replacement. Its target must
 * exist and is made read-only if it is in a write root. A link whose target cannot be determined in one step (through
 * other links, to a missing path, to a directory that contains a write root) is rejected with ELOOP; in a nested
 * repository, which must not keep commands from starting, only the link itself is protected.
 *
 * When a sandbox is prebuilt (steps.h), every host file that it depends on is recorded (sandbox/host_fingerprint.h):
 * what was resolved, covered or pinned, what was missing, and who has access.
 */

#include "runtime/base/fd.h"
#include "runtime/base/path.h"
#include "sandbox/become_peer.h"
#include "sandbox/host_fingerprint.h"
#include "sandbox/plan.h"
#include "sandbox/root_paths.h"
#include "sandbox/steps/overlay.h"
#include "sandbox/steps/public_view.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define HIDDEN_BYTES (1u << 20)
#define SOURCE_LINK (-2) /* a link in a write root */

struct trees {
	struct step_context *c;
	int source[PLAN_MOUNTS_MAX]; /* what to bind; −1 = nothing (or already bound), SOURCE_LINK */
	int late[PLAN_MOUNTS_MAX]; /* hidden directories in which something is shown again: made read-only after that */
	size_t nlate;
	char clear[PATH_MAX]; /* the last directory that clear_way has handled */
};

static const char *path_of(const struct step_context *c, uint32_t i)
{
	return plan_string(c->plan, plan_mount(c->plan, i)->path_off);
}

/* Records a component of mount i's path: the part of the path that is `fd`, or −1 and errno. */
static void record_file(struct step_context *c, uint32_t i, size_t len, uint32_t flags, int fd)
{
	if (c->fingerprint)
		fingerprint_record(c->fingerprint, i, len, flags, fd);
}

/* Kernel file systems are always mounted anew, never bound from the host; and "/" is only allowed as SYSTEM. */
static int check_mounts(struct step_context *c)
{
	for (uint32_t i = 0; i < c->plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(c->plan, i);
		const char *path = path_of(c, i);
		bool whole = !path[1];
		bool kernel = plan_path_inside(path, "/proc") || plan_path_inside(path, "/dev");
		if (whole != (m->kind == PLAN_MOUNT_SYSTEM) || (kernel && m->kind != PLAN_MOUNT_HIDE)) {
			step_path(c, path);
			errno = EINVAL;
			return -1;
		}
	}
	return 0;
}

/* The groups are not switched: where this has an effect, they are already the command's. */
static int switch_to_peer(const struct step_context *c)
{
	if (!c->privileged || c->peer_uid == 0)
		return 0;
	return fsid_set(c->peer_uid, c->peer_gid, c->groups, c->ngroups);
}

/* Returns −1 also if `before` is a failure. */
static int switch_back(const struct step_context *c, int before)
{
	int keep = errno;
	if (c->privileged && c->peer_uid != 0 && fsid_restore() < 0)
		return -1;
	errno = keep;
	return before;
}

static bool may_be_missing(const struct step_context *c, uint32_t i)
{
	uint32_t flags = plan_mount(c->plan, i)->flags;
	return flags & (PLAN_MOUNT_OPTIONAL | PLAN_MOUNT_IN_PARENT) &&
	       (errno == ENOENT || errno == ENOTDIR || errno == EACCES || (errno == ELOOP && flags & PLAN_MOUNT_EXACT));
}

/*
 * A profile's entry is about a path's name. Whatever is mounted as the peer's own must be exactly what is named: a
 * command could have planted a link for the next one, to get /etc as its workspace. Toolchains are often links; but
 * when resolving with root's rights, only links in root's own home are followed.
 */
static bool may_lead_elsewhere(const struct step_context *c, uint32_t i)
{
	const struct plan_mount *m = plan_mount(c->plan, i);
	if (m->kind != PLAN_MOUNT_READ || !(m->flags & PLAN_MOUNT_OWNED))
		return m->kind == PLAN_MOUNT_READ;
	return m->flags & PLAN_MOUNT_OPTIONAL && !(m->flags & PLAN_MOUNT_EXACT) &&
	       (c->peer_uid != 0 || root_path_is_toolchain(c->root_home, path_of(c, i)));
}

/* Returns the write root that contains mount i, or −1. */
static int write_root_below(const struct step_context *c, uint32_t i)
{
	int below = plan_mount_below(c->plan, i);
	return below >= 0 && plan_mount(c->plan, (uint32_t)below)->kind == PLAN_MOUNT_WRITE ? below : -1;
}

/*
 * A session sandbox must find out that the host has put something else at the path of a root: it would continue to show
 * what was there (supervisor/spawner/mount_watch.h). What is optional and read-only is there for convenience, and is
 * replaced at any time: toolchains, ~/.gitconfig.
 */
static int keep_host_root(struct step_context *c, uint32_t i, int source)
{
	const struct plan_mount *m = plan_mount(c->plan, i);
	if (!(c->plan->flags & PLAN_HOLDER) || (m->kind == PLAN_MOUNT_READ && m->flags & PLAN_MOUNT_OPTIONAL))
		return 0;
	const int fd = fcntl(source, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	c->host_root_fd[c->host_roots] = fd;
	c->host_root[c->host_roots++] = (uint16_t)i;
	return 0;
}

static int open_sources(struct trees *t)
{
	struct step_context *c = t->c;
	int r = switch_to_peer(c);
	for (uint32_t i = 0; r == 0 && i < c->plan->mount_count; i++) {
		uint32_t kind = plan_mount(c->plan, i)->kind;
		t->source[i] = -1;
		if (kind != PLAN_MOUNT_READ && kind != PLAN_MOUNT_WRITE)
			continue;
		bool follow = may_lead_elsewhere(c, i);
		t->source[i] = tree_source(path_of(c, i), follow);
		record_file(c, i, strlen(path_of(c, i)), FINGERPRINT_AS_PEER | (follow ? FINGERPRINT_FOLLOW : 0),
			    t->source[i]);
		if (t->source[i] < 0 && errno == ELOOP && kind == PLAN_MOUNT_READ && write_root_below(c, i) >= 0) {
			t->source[i] = SOURCE_LINK;
		} else if (t->source[i] < 0 && !may_be_missing(c, i)) {
			step_path(c, path_of(c, i));
			r = -1;
		} else if (t->source[i] >= 0) {
			r = keep_host_root(c, i, t->source[i]);
		}
	}
	return switch_back(c, r);
}

/* Maps ids in the whole tree if all of its file systems support that, otherwise at least in the topmost one. */
static int set_owned(int tree, uint64_t attributes, int idmap_fd)
{
	if (tree_set(tree, attributes, idmap_fd) == 0)
		return 0;
	if (idmap_fd < 0 || errno != EINVAL)
		return -1;
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)idmap_fd };
	if (tree_set(tree, attributes, -1) < 0)
		return -1;
	int r = mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof a);
	if (r < 0 && errno == EINVAL)
		errno = EOPNOTSUPP; /* the actual cause: this file system does not support it */
	return r;
}

/*
 * Returns the detached tree that the command sees as a write root, or −1. The only place that decides how a write root
 * is written to.
 */
static int write_root_tree(struct step_context *c, uint32_t i, int source)
{
	fd_auto int tree = tree_clone(source, "");
	if (tree < 0 || set_owned(tree, TREE_INERT, c->idmap_fd) < 0)
		return -1;
	return c->plan->flags & PLAN_COW ? overlay_tree(c, i, source, tree) : fd_take(&tree);
}

static int read_root_tree(struct step_context *c, uint32_t i, int source)
{
	bool owned = plan_mount(c->plan, i)->flags & PLAN_MOUNT_OWNED;
	fd_auto int tree = tree_clone(source, "");
	if (tree < 0 || set_owned(tree, TREE_READ, owned ? c->idmap_fd : -1) < 0)
		return -1;
	return fd_take(&tree);
}

/* Covers a hidden directory in which something will be shown again. */
static int cover_for_more(struct trees *t, int place)
{
	fd_auto int tree = t->nlate == PLAN_MOUNTS_MAX ? -1 : tree_tmpfs(t->c, HIDDEN_BYTES, 0555);
	if (tree < 0 || tree_set(tree, TREE_INERT, -1) < 0 || tree_attach(tree, place) < 0)
		return -1;
	t->late[t->nlate++] = fd_take(&tree);
	return 0;
}

/* With outer_root (public_view.c) only paths that are mounted as the command's own are accessible as their owner. */
static bool is_entered_as_owner(const struct step_context *c, const char *path, const struct stat *st)
{
	bool own = !c->outer_root;
	for (uint32_t i = 0; !own && i < c->plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(c->plan, i);
		own = (m->kind == PLAN_MOUNT_WRITE || (m->kind == PLAN_MOUNT_READ && m->flags & PLAN_MOUNT_OWNED)) &&
		      plan_path_inside(path, path_of(c, i));
	}
	return own && (st->st_uid == public_view_owner(c) || st->st_gid == public_view_owner_group(c));
}

/*
 * Root can enter every directory; the id that stands for it cannot. A directory on the way that it could not enter
 * would show it nothing anyway, so it is covered by one that it can enter.
 */
static int clear_way(struct trees *t, uint32_t i)
{
	struct step_context *c = t->c;
	const char *path = path_of(c, i);
	struct stat st;
	char name[PATH_MAX];
	size_t parent = (size_t)(strrchr(path, '/') - path);
	if (c->uid == c->peer_uid || parent >= sizeof name ||
	    (strncmp(t->clear, path, parent) == 0 && !t->clear[parent]))
		return 0;
	for (const char *p = path; (p = strchr(p + 1, '/'));) {
		size_t n = (size_t)(p - path);
		memcpy(name, path, n);
		name[n] = 0;
		fd_auto int at = tree_find(c, name);
		if (at < 0 || fstat(at, &st) < 0)
			return 0;
		if (!tree_is_own(c, at))
			record_file(c, i, n, FINGERPRINT_OWNERS, at);
		if (!(st.st_mode & S_IXOTH) && !is_entered_as_owner(c, name, &st))
			return cover_for_more(t, at);
	}
	memcpy(t->clear, path, parent);
	t->clear[parent] = 0;
	return 0;
}

/* On an overlay a missing name is simply created, and marked as not the command's. It is removed with the overlay. */
static int make_in_overlay(int at, const char *name, bool folder)
{
	if (folder && mkdirat(at, name, 0555) < 0)
		return -1;
	fd_auto int fd = folder ? openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
				: openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (fd >= 0)
		fsetxattr(fd, OVERLAY_PLACEHOLDER, "y", 1, 0);
	return fd < 0 ? -1 : 0;
}

/* Replaces the descriptor of a directory by one of the same directory bound onto itself. */
static int pin_component(int *folder)
{
	if (tree_is_mount(*folder))
		return 0;
	fd_auto int tree = tree_clone(*folder, "");
	if (tree < 0 || tree_attach(tree, *folder) < 0)
		return -1;
	fd_close(folder);
	*folder = fd_take(&tree);
	return 0;
}

/* Whether a path that is missing in a write root needs no placeholder (placeholder_helper.h). */
static bool may_stay_missing(uint32_t flags, bool last)
{
	return flags & PLAN_MOUNT_OPTIONAL || (flags & PLAN_MOUNT_IN_PARENT && !last);
}

/* A directory that the init cannot enter matters only if the command can make it accessible for itself. */
static bool is_commands(const struct step_context *c, int folder)
{
	struct stat st;
	return fstat(folder, &st) < 0 || st.st_uid == public_view_owner(c);
}

/*
 * Walks from a write root to a path in it and pins every directory on the way. If a file is in the way, it is returned:
 * as long as it stays, nothing can be created below it.
 */
static int walk_path(struct step_context *c, uint32_t i, const char *base, const char *path, bool *ret_whole)
{
	uint32_t flags = plan_mount(c->plan, i)->flags;
	bool cow = c->plan->flags & PLAN_COW && !(flags & PLAN_MOUNT_OPTIONAL);
	bool hide = plan_mount(c->plan, i)->kind == PLAN_MOUNT_HIDE;
	char name[NAME_MAX + 1];
	fd_auto int at = tree_find(c, base);
	const char *p = path + strlen(base);
	while (at >= 0 && *p == '/') {
		int folder = tree_is_folder(at);
		if (folder < 0)
			return -1;
		if (!folder)
			break;
		if (path_step(&p, name) < 0)
			return -1;
		bool last = !*p;
		fd_auto int next = tree_below(at, name);
		bool make = cow && (last || !(flags & PLAN_MOUNT_IN_PARENT));
		if (next < 0 && errno == ENOENT && make && make_in_overlay(at, name, !last || !hide) == 0)
			next = tree_below(at, name);
		if (next < 0 || !tree_is_mount(next))
			record_file(c, i, (size_t)(p - path), 0, next);
		if (next < 0 && c->fingerprint && !may_stay_missing(flags, last))
			c->fingerprint->lost = true;
		if (next < 0 && errno == EACCES && is_commands(c, at))
			errno = EPERM;
		if (next < 0)
			return -1;
		folder = last ? 0 : tree_is_folder(next);
		if (folder < 0 || (folder && pin_component(&next) < 0))
			return -1;
		fd_close(&at);
		at = fd_take(&next);
	}
	*ret_whole = !*p;
	return fd_take(&at);
}

/* Returns the mount point of mount i; inside a write root the way there is pinned. */
static int mount_point_of(struct trees *t, uint32_t i, bool folder)
{
	struct step_context *c = t->c;
	int below = plan_mount_below(c->plan, i);
	bool whole = false;
	if (clear_way(t, i) < 0)
		return -1;
	if (below < 0 || plan_mount(c->plan, (uint32_t)below)->kind != PLAN_MOUNT_WRITE)
		return tree_mount_point(c, path_of(c, i), folder);
	fd_auto int place = walk_path(c, i, path_of(c, (uint32_t)below), path_of(c, i), &whole);
	if (place >= 0 && !whole) {
		errno = ENOTDIR;
		return -1;
	}
	return fd_take(&place);
}

static int protect_path(int place)
{
	fd_auto int tree = tree_clone(place, "");
	return tree < 0 || tree_set(tree, TREE_READ, -1) < 0 ? -1 : tree_attach(tree, place);
}

/* ---- links in a write root ---- */

/* Walks to a path in a write root and pins every directory on the way. Creates nothing and follows no link. */
static int strict_walk(const struct step_context *c, const char *base, const char *path)
{
	char name[NAME_MAX + 1];
	fd_auto int at = tree_find(c, base);
	for (const char *p = path + strlen(base); at >= 0 && *p == '/';) {
		if (path_step(&p, name) < 0)
			return -1;
		fd_auto int next = tree_below(at, name);
		if (next < 0 || (*p && pin_component(&next) < 0))
			return -1;
		fd_close(&at);
		at = fd_take(&next);
	}
	return fd_take(&at);
}

/*
 * Resolves a link in one step. `..` is only accepted at the start of the target: the directory is pinned, but a later
 * component could be replaced by a link.
 */
static bool link_target(const char *folder, const char *text, char ret[PATH_MAX])
{
	char whole[2 * PATH_MAX];
	bool named = text[0] == '/';
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "/");
		bool up = n == 2 && p[0] == '.' && p[1] == '.';
		if (up && named)
			return false;
		named |= n > 0 && !up && !(n == 1 && p[0] == '.');
		p += n + (p[n] == '/');
	}
	snprintf(whole, sizeof whole, "%s/%s", text[0] == '/' ? "" : folder, text);
	return path_clean(whole, ret, NULL) == 0;
}

/* Returns the write root that contains the path, or −1; −2 if the path contains or is a write root. */
static int root_around(const struct step_context *c, const char *path)
{
	int found = -1;
	for (uint32_t i = 0; i < c->plan->mount_count; i++) {
		uint32_t kind = plan_mount(c->plan, i)->kind;
		if (kind == PLAN_MOUNT_WRITE && plan_path_inside(path_of(c, i), path))
			return -2;
		if (kind != PLAN_MOUNT_SYSTEM && kind != PLAN_MOUNT_PROTECT && plan_path_inside(path, path_of(c, i)))
			found = kind == PLAN_MOUNT_WRITE ? (int)i : -1;
	}
	return found;
}

static int keep_link(struct step_context *c, uint32_t i, const char *base, const char *path)
{
	char folder[PATH_MAX], text[PATH_MAX], target[PATH_MAX];
	const char *name = strrchr(path, '/') + 1;
	size_t n = (size_t)(name - 1 - path);
	memcpy(folder, path, n);
	folder[n] = 0;
	fd_auto int at = strict_walk(c, base, folder);
	if (at < 0 || (n > strlen(base) && pin_component(&at) < 0))
		return -1;
	fd_auto int link = tree_link(at, name);
	ssize_t len = link < 0 ? -1 : readlinkat(link, "", text, sizeof text - 1);
	if (len < 0)
		return -1;
	text[len] = 0;
	int root = len && link_target(folder, text, target) ? root_around(c, target) : -2;
	fd_auto int place = root >= 0 ? strict_walk(c, path_of(c, (uint32_t)root), target) : -1;
	bool unprotected = root == -2 || (root >= 0 && (place < 0 || protect_path(place) < 0));
	if (unprotected && !(plan_mount(c->plan, i)->flags & PLAN_MOUNT_NESTED)) {
		errno = ELOOP;
		return -1;
	}
	if (c->fingerprint)
		c->fingerprint->lost = true; /* a fingerprint does not cover a link's target */
	return protect_path(link);
}

static int apply_bound(struct trees *t, uint32_t i)
{
	struct step_context *c = t->c;
	if (t->source[i] == SOURCE_LINK)
		return keep_link(c, i, path_of(c, (uint32_t)write_root_below(c, i)), path_of(c, i));
	if (t->source[i] < 0)
		return 0;
	const int folder = tree_is_folder(t->source[i]);
	if (folder < 0)
		return -1;
	bool writable = plan_mount(c->plan, i)->kind == PLAN_MOUNT_WRITE;
	if (c->outer_root && !writable && !(plan_mount(c->plan, i)->flags & PLAN_MOUNT_OWNED)) {
		fd_auto int at = mount_point_of(t, i, folder);
		int r = at < 0 ? -1 : public_view_bind(c, t->source[i], at);
		fd_close(&t->source[i]);
		return r;
	}
	fd_auto int tree = writable ? write_root_tree(c, i, t->source[i]) : read_root_tree(c, i, t->source[i]);
	fd_auto int place = tree < 0 ? -1 : mount_point_of(t, i, folder);
	fd_close(&t->source[i]);
	return place < 0 ? -1 : tree_attach(tree, place);
}

static int apply_empty(struct trees *t, uint32_t i)
{
	struct step_context *c = t->c;
	const mode_t mode = c->outer_root ? 0755 : 0700; /* as for /tmp */
	fd_auto int tree = tree_tmpfs(c, c->plan->tmp_bytes ? c->plan->tmp_bytes : STEP_TMP_BYTES, mode);
	if (tree < 0 || fchownat(tree, "", public_view_owner(c), public_view_owner_group(c), AT_EMPTY_PATH) < 0 ||
	    tree_set(tree, TREE_INERT, -1) < 0)
		return -1;
	fd_auto int place = mount_point_of(t, i, true);
	if (place >= 0 && !tree_is_own(c, place))
		record_file(c, i, strlen(path_of(c, i)), 0, place);
	return place < 0 ? -1 : tree_attach(tree, place);
}

static bool shown_again_inside(const struct step_context *c, uint32_t i)
{
	for (uint32_t j = i + 1; j < c->plan->mount_count; j++) {
		if (plan_mount(c->plan, j)->kind != PLAN_MOUNT_HIDE && plan_path_inside(path_of(c, j), path_of(c, i)))
			return true;
	}
	return false;
}

static int cover_path(struct trees *t, uint32_t i, int place)
{
	struct step_context *c = t->c;
	const int folder = tree_is_folder(place);
	if (folder < 0)
		return -1;
	if (!folder || !shown_again_inside(c, i)) {
		fd_auto int nothing = tree_clone(folder ? c->void_folder : c->void_file, "");
		return nothing < 0 || tree_set(nothing, TREE_READ | MOUNT_ATTR_NOEXEC, -1) < 0
			       ? -1
			       : tree_attach(nothing, place);
	}
	return cover_for_more(t, place);
}

/* Whether the path still exists on the host: it may have been missing only for a moment. */
static bool still_there(int host, const char *path)
{
	struct stat before, after;
	fd_auto int again = fingerprint_open(path, true, false);
	return again >= 0 && fstat(host, &before) == 0 && fstat(again, &after) == 0 && before.st_dev == after.st_dev &&
	       before.st_ino == after.st_ino;
}

/*
 * Hides a path outside of the write roots. If it exists inside, the same file must still exist when the sandbox is
 * used; if not, the host's path must be as it was before the lookup.
 */
static int hide_outside(struct trees *t, uint32_t i, const char *path)
{
	struct step_context *c = t->c;
	fd_auto int host = c->fingerprint ? fingerprint_open(path, true, false) : -1;
	int missed = errno;
	fd_auto int found = tree_find_through_links(c, path);
	/* A path that is missing or unreachable needs no cover where nothing can be created. */
	bool nothing = found < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES);
	if (found < 0 && !nothing)
		return -1;
	if (nothing && host >= 0 && !still_there(host, path))
		c->fingerprint->lost = true;
	errno = missed;
	if (nothing || !tree_is_own(c, found))
		record_file(c, i, strlen(path), FINGERPRINT_FOLLOW, nothing ? host : found);
	return nothing ? 0 : cover_path(t, i, found);
}

static int apply_shut(struct trees *t, uint32_t i)
{
	struct step_context *c = t->c;
	bool hide = plan_mount(c->plan, i)->kind == PLAN_MOUNT_HIDE;
	int below = plan_mount_below(c->plan, i);
	char path[PATH_MAX];
	size_t n = strlen(path_of(c, i));
	bool unseen = c->placeholders.len[i] == STEP_PLACEHOLDER_UNSEEN;
	if (c->placeholders.len[i] == STEP_PLACEHOLDER_NEEDLESS)
		return 0;
	if (c->placeholders.len[i] && c->placeholders.len[i] < n)
		n = c->placeholders.len[i];
	if (n >= sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(path, path_of(c, i), n);
	path[n] = 0;

	if (below < 0 || plan_mount(c->plan, (uint32_t)below)->kind != PLAN_MOUNT_WRITE)
		return hide ? hide_outside(t, i, path) : 0;
	bool whole = false;
	fd_auto int root = tree_find(c, path_of(c, (uint32_t)below));
	/*
	 * Nothing can be below a file. But a file in place of a protected directory (.git of a linked worktree) names
	 * that directory. Protected names begin with a dot; if the name below the root does not, the root itself is the
	 * start of the protected name.
	 */
	const int folder = root < 0 ? 1 : tree_is_folder(root);
	if (folder < 0)
		return -1;
	if (!folder)
		return hide || path[strlen(path_of(c, (uint32_t)below)) + 1] == '.' ? 0 : protect_path(root);
	fd_auto int place = walk_path(c, i, path_of(c, (uint32_t)below), path, &whole);
	if (place < 0 && errno == ELOOP && !hide)
		return keep_link(c, i, path_of(c, (uint32_t)below), path);
	if (place < 0 && unseen && errno == ENOENT)
		errno = EPERM;
	if (place < 0)
		return may_be_missing(c, i) ? 0 : -1;
	return hide && whole ? cover_path(t, i, place) : protect_path(place);
}

static int apply_mount(struct trees *t, uint32_t i)
{
	static int (*const kinds[])(struct trees * t, uint32_t i) = {
		[PLAN_MOUNT_READ] = apply_bound, [PLAN_MOUNT_WRITE] = apply_bound,  [PLAN_MOUNT_EMPTY] = apply_empty,
		[PLAN_MOUNT_HIDE] = apply_shut,  [PLAN_MOUNT_PROTECT] = apply_shut,
	};
	uint32_t kind = plan_mount(t->c->plan, i)->kind;
	if (kind == PLAN_MOUNT_SYSTEM)
		return 0;
	t->c->path[0] = 0;
	if (kinds[kind](t, i) < 0) {
		if (!t->c->path[0])
			step_path(t->c, path_of(t->c, i));
		return -1;
	}
	return 0;
}

/* Receives the reply of the placeholder helper, which worked in parallel. */
static int receive_placeholders(struct step_context *c)
{
	ssize_t n;
	if (c->placeholder_fd < 0)
		return 0;
	while ((n = recv(c->placeholder_fd, &c->placeholders, sizeof c->placeholders, 0)) < 0 && errno == EINTR)
		continue;
	if (n != (ssize_t)sizeof c->placeholders)
		errno = EIO;
	else if (c->placeholders.error)
		errno = c->placeholders.error;
	else
		return 0;
	step_path(c, "placeholder");
	return -1;
}

int step_trees(struct step_context *c)
{
	struct trees t = { .c = c };
	if (!step_confined(c))
		return 0;
	if (step_own_tmp(c) < 0 || check_mounts(c) < 0 || receive_placeholders(c) < 0 || open_sources(&t) < 0)
		return -1;
	for (uint32_t i = 0; i < c->plan->mount_count; i++) {
		if (apply_mount(&t, i) < 0)
			return -1;
	}
	struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY };
	for (size_t i = 0; i < t.nlate; i++) {
		if (mount_setattr(t.late[i], "", AT_EMPTY_PATH, &a, sizeof a) < 0)
			return -1;
		fd_close(&t.late[i]);
	}
	if (c->fingerprint && c->fingerprint->lost) {
		errno = ESTALE;
		return -1;
	}
	return 0;
}
