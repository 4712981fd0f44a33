#include "sandbox/steps/tree.h"

#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As many inodes as pages, within limits: an inode costs about a kilobyte of memory that `size` does not count. */
#define INODES_MIN 1024u
#define INODES_MAX (1u << 20)

static int open_how(int at, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_PATH | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS };
	int fd;
	do
		fd = (int)syscall(SYS_openat2, at, path, &how, sizeof how);
	while (fd < 0 && (errno == EINTR || errno == EAGAIN)); /* EAGAIN: a rename raced with the check of .. */
	return fd;
}

int tree_source(const char *path, bool follow) { return open_how(AT_FDCWD, path, 0, follow ? 0 : RESOLVE_NO_SYMLINKS); }

int tree_clone(int at, const char *name)
{
	return open_tree(
		at, name,
		(unsigned)(OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
}

int tree_set(int tree, uint64_t attributes, int idmap_fd)
{
	struct mount_attr a = { .attr_set = attributes };
	if (idmap_fd >= 0) {
		a.attr_set |= MOUNT_ATTR_IDMAP;
		a.userns_fd = (uint64_t)idmap_fd;
	}
	return mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof a);
}

int tree_attach(int tree, int place)
{
	return move_mount(tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

int tree_attach_at(int tree, int at, const char *name)
{
	return move_mount(tree, "", at, name, MOVE_MOUNT_F_EMPTY_PATH);
}

int tree_new(const char *type, const char *const *options, uint64_t attributes)
{
	fd_auto int fs = fsopen(type, FSOPEN_CLOEXEC);
	if (fs < 0)
		return -1;
	for (; options && options[0]; options += 2) {
		if (fsconfig(fs, FSCONFIG_SET_STRING, options[0], options[1], 0) < 0)
			return -1;
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attributes);
}

int tree_tmpfs(struct step_context *c, uint64_t bytes, mode_t mode)
{
	char size[24], inodes[24], bits[8];
	uint64_t n = bytes / 4096;
	n = n < INODES_MIN ? INODES_MIN : n > INODES_MAX ? INODES_MAX : n;
	snprintf(size, sizeof size, "%llu", (unsigned long long)bytes);
	snprintf(inodes, sizeof inodes, "%llu", (unsigned long long)n);
	snprintf(bits, sizeof bits, "%o", (unsigned)mode);
	const char *const options[] = { "size", size, "nr_inodes", inodes, "mode", bits, NULL };
	struct stat st;
	if (c->own_count == STEP_OWN_MAX) {
		errno = ENOSPC;
		return -1;
	}
	fd_auto int tree = tree_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOATIME);
	if (tree < 0 || fstat(tree, &st) < 0)
		return -1;
	c->own_devices[c->own_count++] = st.st_dev;
	return fd_take(&tree);
}

int tree_below(int at, const char *relative)
{
	return open_how(at, relative, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int tree_link(int at, const char *name)
{
	return open_how(at, name, O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int tree_find(const struct step_context *c, const char *path)
{
	if (!path[1])
		return fcntl(c->root_fd, F_DUPFD_CLOEXEC, 0);
	return tree_below(c->root_fd, path + 1);
}

int tree_find_through_links(const struct step_context *c, const char *path)
{
	int fd = tree_find(c, path);
	return fd >= 0 || errno != ELOOP ? fd : open_how(c->root_fd, path, 0, RESOLVE_IN_ROOT);
}

bool tree_is_own(const struct step_context *c, int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return false;
	for (unsigned i = 0; i < c->own_count; i++) {
		if (c->own_devices[i] == st.st_dev)
			return true;
	}
	return false;
}

static int make_one(const struct step_context *c, int at, const char *name, bool folder)
{
	if (!tree_is_own(c, at)) {
		errno = ENOENT;
		return -1;
	}
	if (folder)
		return mkdirat(at, name, 0755);
	fd_auto int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	return fd < 0 ? -1 : 0;
}

/* The common case: only the last component is missing. */
static int mount_point_in_parent(const struct step_context *c, const char *path, bool folder)
{
	char parent[PATH_MAX];
	const char *name = strrchr(path, '/') + 1;
	size_t n = (size_t)(name - path);
	if (n >= sizeof parent) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(parent, path, n);
	parent[n > 1 ? n - 1 : n] = 0;
	fd_auto int at = tree_find(c, parent);
	if (at < 0)
		return -1;
	int found = tree_below(at, name);
	if (found >= 0 || errno != ENOENT || make_one(c, at, name, folder) < 0)
		return found;
	return tree_below(at, name);
}

int tree_mount_point(const struct step_context *c, const char *path, bool folder)
{
	int found = path[1] ? mount_point_in_parent(c, path, folder) : tree_find(c, path);
	if (found >= 0 || errno != ENOENT)
		return found;
	fd_auto int at = fcntl(c->root_fd, F_DUPFD_CLOEXEC, 0);
	char name[NAME_MAX + 1];
	for (const char *p = path + 1; at >= 0 && *p;) {
		size_t n = strcspn(p, "/");
		bool last = !p[n];
		if (n > NAME_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(name, p, n);
		name[n] = 0;
		int next = tree_below(at, name);
		if (next < 0 && errno == ENOENT && make_one(c, at, name, folder || !last) == 0)
			next = tree_below(at, name);
		fd_close(&at);
		at = next;
		p += n + !last;
	}
	return fd_take(&at);
}

int tree_is_folder(int fd)
{
	struct stat st;
	return fstat(fd, &st) < 0 ? -1 : S_ISDIR(st.st_mode);
}

bool tree_is_mount(int fd)
{
	struct statx st;
	return statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st) == 0 &&
	       st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

struct linux_dirent64 {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* Uses the raw system call, because readdir(3) allocates memory. */
int tree_each_name(int at, const char *path, tree_name_fn *fn, void *ctx)
{
	_Alignas(struct linux_dirent64) char buf[8192];
	fd_auto int folder = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n = folder < 0 ? -1 : 0;
	while (n >= 0 && (n = syscall(SYS_getdents64, folder, buf, sizeof buf)) > 0) {
		for (long pos = 0; pos < n;) {
			const struct linux_dirent64 *d = (const struct linux_dirent64 *)(const void *)(buf + pos);
			pos += d->len;
			if (strcmp(d->name, ".") != 0 && strcmp(d->name, "..") != 0 &&
			    fn(ctx, folder, d->name, d->type) < 0)
				return -1;
		}
	}
	return n < 0 ? -1 : 0;
}
