/*
 * The mounts of a plan, in its order, onto the new root.
 *
 * First every path that is to be bound is looked up, once, as the peer: what the peer cannot reach, its sandbox does not
 * show. From then on there are only descriptors. What is hidden or protected is looked up in the new root instead,
 * because that is where it must not be found.
 *
 * Inside a write root the command may rename. So whatever else is mounted there is held in place: each folder between it and
 * the write root is bound onto itself, and the kernel does not rename or remove a folder that something is mounted on.
 */

#include "runtime/base/fd.h"
#include "sandbox/plan.h"
#include "sandbox/steps/overlay.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define HIDDEN_BYTES (1u << 20)

struct trees {
	struct step_context *c;
	int source[PLAN_MOUNTS_MAX]; /* what is to be bound; −1 = nothing (any more) */
	int late[PLAN_MOUNTS_MAX];   /* hidden folders in which something is shown again: read-only once that is there */
	size_t nlate;
	char clear[PATH_MAX];        /* the folder to which the way was found clear last */
};

static const char *path_of(const struct step_context *c, uint32_t i)
{
	return plan_string(c->plan, plan_mount(c->plan, i)->path_off);
}

/* Kernel file systems are made anew, never shown as they are outside; and "/" is only ever the system's. */
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

/* The groups stay: where this does anything, they are the command's too. */
static int become_peer(const struct step_context *c)
{
	if (!c->privileged || c->peer_uid == 0)
		return 0;
	if (syscall(SYS_setgroups, c->ngroups, c->groups) < 0)
		return -1;
	setfsgid(c->peer_gid);
	setfsuid(c->peer_uid);
	if ((uid_t)setfsuid((uid_t)-1) != c->peer_uid || (gid_t)setfsgid((gid_t)-1) != c->peer_gid) {
		errno = EPERM;
		return -1;
	}
	return 0;
}

static void become_self(const struct step_context *c)
{
	int keep = errno;
	if (c->privileged && c->peer_uid != 0) {
		setfsuid(geteuid());
		setfsgid(getegid());
	}
	errno = keep;
}

static bool may_be_missing(const struct step_context *c, uint32_t i)
{
	return plan_mount(c->plan, i)->flags & (PLAN_MOUNT_OPTIONAL | PLAN_MOUNT_IN_PARENT) &&
	       (errno == ENOENT || errno == ENOTDIR || errno == EACCES);
}

/*
 * What the profile said about a path was said about its name. Whatever is shown as the peer's own must be what is named:
 * a command could have put a link there for the next one, to have /etc as its workspace.
 */
static bool may_lead_elsewhere(const struct plan_mount *m)
{
	return m->kind == PLAN_MOUNT_READ && (!(m->flags & PLAN_MOUNT_OWNED) || m->flags & PLAN_MOUNT_OPTIONAL);
}

static int look_up(struct trees *t)
{
	struct step_context *c = t->c;
	int r = become_peer(c);
	for (uint32_t i = 0; r == 0 && i < c->plan->mount_count; i++) {
		uint32_t kind = plan_mount(c->plan, i)->kind;
		t->source[i] = -1;
		if (kind != PLAN_MOUNT_READ && kind != PLAN_MOUNT_WRITE)
			continue;
		t->source[i] = tree_source(path_of(c, i), may_lead_elsewhere(plan_mount(c->plan, i)));
		if (t->source[i] < 0 && !may_be_missing(c, i)) {
			step_path(c, path_of(c, i));
			r = -1;
		}
	}
	become_self(c);
	return r;
}

/* Ids are mapped in the whole tree where every file system in it can, else at least in the one at its top. */
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
		errno = EOPNOTSUPP; /* what the kernel means: not on this file system */
	return r;
}

/* What the command sees of a write root: a detached tree, or −1. The one place that decides how a write root is written to. */
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

/* A hidden folder in which something will be shown again. */
static int cover_for_more(struct trees *t, int place)
{
	fd_auto int tree = t->nlate == PLAN_MOUNTS_MAX ? -1 : tree_tmpfs(t->c, HIDDEN_BYTES, 0555);
	if (tree < 0 || tree_set(tree, TREE_INERT, -1) < 0 || tree_attach(tree, place) < 0)
		return -1;
	t->late[t->nlate++] = fd_take(&tree);
	return 0;
}

/*
 * Root passes everywhere; the id that stands for it does not. A folder on the way that it could not enter shows it nothing
 * anyway, and is covered by one that it can.
 */
static int clear_way(struct trees *t, const char *path)
{
	struct step_context *c = t->c;
	struct stat st;
	char name[PATH_MAX];
	size_t parent = (size_t)(strrchr(path, '/') - path);
	if (c->uid == c->peer_uid || parent >= sizeof name || (strncmp(t->clear, path, parent) == 0 && !t->clear[parent]))
		return 0;
	for (const char *p = path; (p = strchr(p + 1, '/'));) {
		size_t n = (size_t)(p - path);
		memcpy(name, path, n);
		name[n] = 0;
		fd_auto int at = tree_find(c, name);
		if (at < 0 || fstat(at, &st) < 0)
			return 0;
		if (!(st.st_mode & S_IXOTH) && st.st_uid != c->uid && st.st_gid != c->gid)
			return cover_for_more(t, at);
	}
	memcpy(t->clear, path, parent);
	t->clear[parent] = 0;
	return 0;
}

/* On an overlay a missing name is simply made, and marked as none of the command's: it goes with the overlay. */
static int make_in_overlay(struct step_context *c, int at, const char *name, bool folder)
{
	if (folder && mkdirat(at, name, 0555) < 0)
		return -1;
	fd_auto int fd = folder ? openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) :
				  openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (fd >= 0)
		fsetxattr(fd, OVERLAY_PLACEHOLDER, "y", 1, 0);
	return fd < 0 ? -1 : 0;
}

/* Replaces a folder's descriptor by one of the same folder with itself bound on it. */
static int hold_in_place(int *folder)
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

/*
 * Walks from a write root to a path in it, holding every folder on the way in place. If a file is in the way, that is
 * what comes back: as long as it stays, nothing can be made below it.
 */
static int walk(struct step_context *c, uint32_t i, const char *base, const char *path, bool *ret_whole)
{
	uint32_t flags = plan_mount(c->plan, i)->flags;
	bool cow = c->plan->flags & PLAN_COW && !(flags & PLAN_MOUNT_OPTIONAL);
	bool hide = plan_mount(c->plan, i)->kind == PLAN_MOUNT_HIDE;
	char name[NAME_MAX + 1];
	fd_auto int at = tree_find(c, base);
	const char *p = path + strlen(base);
	while (at >= 0 && *p == '/') {
		if (!tree_is_folder(at))
			break;
		size_t n = strcspn(++p, "/");
		bool last = !p[n];
		if (n > NAME_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(name, p, n);
		name[n] = 0;
		fd_auto int next = tree_below(at, name);
		bool make = cow && (last || !(flags & PLAN_MOUNT_IN_PARENT));
		if (next < 0 && errno == ENOENT && make && make_in_overlay(c, at, name, !last || !hide) == 0)
			next = tree_below(at, name);
		if (next < 0 || (!last && tree_is_folder(next) && hold_in_place(&next) < 0))
			return -1;
		fd_close(&at);
		at = fd_take(&next);
		p += n;
	}
	*ret_whole = !*p;
	return fd_take(&at);
}

/* Where mount i goes; inside a write root the way there is held in place. */
static int place_of(struct trees *t, uint32_t i, bool folder)
{
	struct step_context *c = t->c;
	int below = plan_mount_below(c->plan, i);
	bool whole = false;
	if (clear_way(t, path_of(c, i)) < 0)
		return -1;
	if (below < 0 || plan_mount(c->plan, (uint32_t)below)->kind != PLAN_MOUNT_WRITE)
		return tree_place(c, path_of(c, i), folder);
	fd_auto int place = walk(c, i, path_of(c, (uint32_t)below), path_of(c, i), &whole);
	if (place >= 0 && !whole) {
		errno = ENOTDIR;
		return -1;
	}
	return fd_take(&place);
}

static int apply_bound(struct trees *t, uint32_t i)
{
	struct step_context *c = t->c;
	if (t->source[i] < 0)
		return 0;
	bool folder = tree_is_folder(t->source[i]);
	bool writable = plan_mount(c->plan, i)->kind == PLAN_MOUNT_WRITE;
	fd_auto int tree = writable ? write_root_tree(c, i, t->source[i]) : read_root_tree(c, i, t->source[i]);
	fd_auto int place = tree < 0 ? -1 : place_of(t, i, folder);
	fd_close(&t->source[i]);
	return place < 0 ? -1 : tree_attach(tree, place);
}

static int apply_empty(struct trees *t, uint32_t i)
{
	struct step_context *c = t->c;
	fd_auto int tree = tree_tmpfs(c, c->plan->tmp_bytes ? c->plan->tmp_bytes : STEP_TMP_BYTES, 0755);
	if (tree < 0 || fchownat(tree, "", c->uid, c->gid, AT_EMPTY_PATH) < 0 || tree_set(tree, TREE_INERT, -1) < 0)
		return -1;
	fd_auto int place = place_of(t, i, true);
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

static int cover(struct trees *t, uint32_t i, int place)
{
	struct step_context *c = t->c;
	bool folder = tree_is_folder(place);
	if (!folder || !shown_again_inside(c, i)) {
		fd_auto int nothing = tree_clone(folder ? c->void_folder : c->void_file, "");
		return nothing < 0 || tree_set(nothing, TREE_READ | MOUNT_ATTR_NOEXEC, -1) < 0 ? -1 : tree_attach(nothing, place);
	}
	return cover_for_more(t, place);
}

static int protect(int place)
{
	fd_auto int tree = tree_clone(place, "");
	return tree < 0 || tree_set(tree, TREE_READ, -1) < 0 ? -1 : tree_attach(tree, place);
}

static int apply_shut(struct trees *t, uint32_t i)
{
	struct step_context *c = t->c;
	bool hide = plan_mount(c->plan, i)->kind == PLAN_MOUNT_HIDE;
	int below = plan_mount_below(c->plan, i);
	char path[PATH_MAX];
	size_t n = strlen(path_of(c, i));
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

	if (below < 0 || plan_mount(c->plan, (uint32_t)below)->kind != PLAN_MOUNT_WRITE) {
		fd_auto int found = hide ? tree_find_through_links(c, path) : -1;
		/* Where nothing can be made, what is not there or out of reach needs no cover. */
		if (!hide || (found < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)))
			return 0;
		return found < 0 ? -1 : cover(t, i, found);
	}
	bool whole = false;
	fd_auto int place = walk(c, i, path_of(c, (uint32_t)below), path, &whole);
	if (place < 0)
		return may_be_missing(c, i) ? 0 : -1;
	return hide && whole ? cover(t, i, place) : protect(place);
}

static int apply(struct trees *t, uint32_t i)
{
	static int (*const kinds[])(struct trees *t, uint32_t i) = {
		[PLAN_MOUNT_READ] = apply_bound, [PLAN_MOUNT_WRITE] = apply_bound, [PLAN_MOUNT_EMPTY] = apply_empty,
		[PLAN_MOUNT_HIDE] = apply_shut,  [PLAN_MOUNT_PROTECT] = apply_shut,
	};
	uint32_t kind = plan_mount(t->c->plan, i)->kind;
	if (kind == PLAN_MOUNT_SYSTEM)
		return 0;
	if (kinds[kind](t, i) < 0) {
		step_path(t->c, path_of(t->c, i));
		return -1;
	}
	return 0;
}

/* The keeper worked meanwhile. */
static int take_placeholders(struct step_context *c)
{
	ssize_t n;
	if (c->keeper_fd < 0)
		return 0;
	while ((n = recv(c->keeper_fd, &c->placeholders, sizeof c->placeholders, 0)) < 0 && errno == EINTR)
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
	if (check_mounts(c) < 0 || take_placeholders(c) < 0 || look_up(&t) < 0)
		return -1;
	for (uint32_t i = 0; i < c->plan->mount_count; i++) {
		if (apply(&t, i) < 0)
			return -1;
	}
	struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY };
	for (size_t i = 0; i < t.nlate; i++) {
		if (mount_setattr(t.late[i], "", AT_EMPTY_PATH, &a, sizeof a) < 0)
			return -1;
		fd_close(&t.late[i]);
	}
	return 0;
}
