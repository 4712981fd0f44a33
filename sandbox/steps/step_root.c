/*
 * The new root: one tmpfs for everything that belongs to the sandbox. Until `pivot` it is mounted on the host's /sys,
 * where it covers nothing that is resolved, and needs no scratch directory on the host. (Mounted on "/" it would be
 * invisible from above, but every link with enough ".." in it would lead into it.)
 *
 * The root mount itself becomes read-only at the end; /tmp, /var/tmp and /dev/shm are writable clones of directories in
 * it (step_tmp). Using one file system instead of five saves most of the time, and gives one limit for all of them.
 */

#include "runtime/base/fd.h"
#include "sandbox/plan.h"
#include "sandbox/steps/public_view.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Entries of the host's top level that a sandbox replaces with its own, or that no command needs. */
static const char *const not_bound[] = {
	".", "..", "proc", "sys", "dev", "tmp", "run", "home", "root", "boot", "lost+found", "mnt", "media",
};

static const struct {
	const char *name;
	mode_t mode;
} skeleton[] = {
	{ "dev", 0755 },
	{ "proc", 0555 },
	{ "sys", 0555 },
	{ "run", 0755 },
	/* Below the private /tmp, which will cover them. */
	{ "tmp", 0755 },
	{ "tmp/tmp", 01777 },
	{ "tmp/var", 01777 },
	{ "tmp/shm", 01777 },
	{ "tmp/void", 0555 },
};

static int make_root(struct step_context *c)
{
	c->root_fd = tree_tmpfs(c, c->plan->tmp_bytes ? c->plan->tmp_bytes : STEP_TMP_BYTES, 0755);
	if (c->root_fd < 0)
		return -1;
	/* A chroot may have no /sys. */
	if (tree_attach_at(c->root_fd, AT_FDCWD, "/sys") < 0 && tree_attach_at(c->root_fd, AT_FDCWD, "/") < 0)
		return -1;
	if (fchdir(c->root_fd) < 0)
		return -1;
	for (size_t i = 0; i < sizeof skeleton / sizeof skeleton[0]; i++) {
		if (mkdirat(c->root_fd, skeleton[i].name, skeleton[i].mode) < 0)
			return -1;
	}
	fd_auto int file = openat(c->root_fd, "tmp/file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
	if (file < 0)
		return -1;
	c->void_folder = openat(c->root_fd, "tmp/void", O_PATH | O_CLOEXEC);
	c->void_file = openat(c->root_fd, "tmp/file", O_PATH | O_CLOEXEC);
	return c->void_folder < 0 || c->void_file < 0 ? -1 : 0;
}

static bool is_hidden_name(const struct step_context *c, const char *name)
{
	for (uint32_t i = 0; i < c->plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(c->plan, i);
		if (m->kind == PLAN_MOUNT_HIDE && strcmp(plan_string(c->plan, m->path_off) + 1, name) == 0)
			return true;
	}
	return false;
}

static bool is_bound_name(const struct step_context *c, const char *name)
{
	for (size_t i = 0; i < sizeof not_bound / sizeof not_bound[0]; i++) {
		if (strcmp(not_bound[i], name) == 0)
			return false;
	}
	return !is_hidden_name(c, name);
}

static int copy_link(struct step_context *c, int host, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(host, name, target, sizeof target - 1);
	if (n < 0)
		return -1;
	target[n] = 0;
	return symlinkat(target, c->root_fd, name);
}

/* Nothing runs without these; any other directory that cannot be shown to a stranger stays empty. */
static bool is_needed(const char *name)
{
	return strcmp(name, "usr") == 0 || strcmp(name, "etc") == 0 || strncmp(name, "lib", 3) == 0 ||
	       strcmp(name, "bin") == 0;
}

static int view_entry(struct step_context *c, const char *source, const char *name)
{
	fd_auto int host = tree_source(source, false);
	fd_auto int place = host < 0 ? -1 : tree_below(c->root_fd, name);
	if (place < 0)
		return -1;
	return public_view_bind(c, host, place) < 0 && is_needed(name) ? -1 : 0;
}

/* The new root must be the working directory, with "/" still the host's. Attributes are set later, for all at once. */
static int bind_entry(struct step_context *c, const char *name, bool folder)
{
	char source[NAME_MAX + 2] = "/";
	memcpy(source + 1, name, strlen(name) + 1);
	if (folder && mkdirat(c->root_fd, name, 0755) < 0)
		return -1;
	fd_auto int file = folder ? -1 : openat(c->root_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (!folder && file < 0)
		return -1;
	return c->outer_root ? view_entry(c, source, name) : mount(source, name, NULL, MS_BIND | MS_REC, NULL);
}

static int system_entry(void *ctx, int host, const char *name, unsigned type)
{
	struct step_context *c = ctx;
	struct stat st;
	if (!is_bound_name(c, name) || strlen(name) > NAME_MAX)
		return 0;
	if (type == DT_UNKNOWN && fstatat(host, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		type = IFTODT(st.st_mode);
	int r = 0;
	if (type == DT_LNK)
		r = copy_link(c, host, name);
	else if (type == DT_DIR || type == DT_REG)
		r = bind_entry(c, name, type == DT_DIR);
	if (r < 0 && errno == ENOENT && fstatat(host, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
		/* Removed from the host meanwhile: what was made for it goes, too. */
		r = unlinkat(c->root_fd, name, type == DT_DIR ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT ? -1 : 0;
		if (r == 0)
			c->path[0] = 0;
	}
	if (r < 0 && !c->path[0])
		step_path(c, name);
	return r;
}

/* Shows the CPUs: the only part of /sys that ordinary programs read. */
static int bind_processors(struct step_context *c, int tree)
{
	static const char *const folders[] = { "sys/devices", "sys/devices/system", "sys/devices/system/cpu" };
	if (tree < 0)
		return 0;
	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
		if (mkdirat(c->root_fd, folders[i], 0555) < 0)
			return -1;
	}
	step_path(c, folders[2]);
	if (!c->outer_root)
		return tree_attach_at(tree, c->root_fd, folders[2]);
	fd_auto int place = tree_below(c->root_fd, folders[2]);
	if (place < 0)
		return -1;
	(void)public_view_bind(c, tree, place); /* best effort: a missing CPU entry does no harm */
	return 0;
}

/*
 * Without the host's network, names are looked up at the refusing resolver (sandbox/refusing_resolver.h). If the host's
 * file is a link to a path that the sandbox does not show, there is nothing to replace, and the C library uses the
 * refusing resolver's address by default.
 */
static int replace_resolver(struct step_context *c)
{
	static const char text[] = "nameserver 127.0.0.1\noptions attempts:1\n";
	fd_auto int place = tree_find_through_links(c, "/etc/resolv.conf");
	if (place < 0 || tree_is_folder(place) != 0)
		return 0;
	fd_auto int out = openat(c->root_fd, STEP_RESOLVER_COPY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				 0644);
	if (out < 0 || fd_write_all(out, text, sizeof text - 1) < 0)
		return -1;
	fd_auto int tree = tree_clone(c->root_fd, STEP_RESOLVER_COPY);
	return tree < 0 || tree_attach(tree, place) < 0 ? -1 : unlinkat(c->root_fd, STEP_RESOLVER_COPY, 0);
}

/* With the host's network its resolver file is needed, which is often a link into /run. */
static int bind_resolver(struct step_context *c)
{
	char link[32], path[PATH_MAX];
	if (c->plan->network != PLAN_NET_HOST)
		return replace_resolver(c);
	fd_auto int host = tree_source("/etc/resolv.conf", true);
	if (host < 0)
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", host);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = 0;
	if (n <= 0 || !plan_path_inside(path, "/run") || tree_is_folder(host) != 0)
		return 0;
	fd_auto int tree = tree_clone(host, "");
	fd_auto int place = tree < 0 ? -1 : tree_mount_point(c, path, false);
	step_path(c, "/etc/resolv.conf");
	return place < 0 ? -1 : tree_attach(tree, place);
}

/* Makes everything mounted so far read-only and inert in one call; the root itself stays writable until `pivot`. */
static int shut_system(struct step_context *c)
{
	struct mount_attr all = { .attr_set = TREE_READ }, root = { .attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV };
	if (mount_setattr(c->root_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &all, sizeof all) < 0)
		return -1;
	return mount_setattr(c->root_fd, "", AT_EMPTY_PATH, &root, sizeof root);
}

int step_root(struct step_context *c)
{
	if (!step_confined(c))
		return 0;
	umask(0);
	fd_auto int processors = c->outer_root ? tree_source("/sys/devices/system/cpu", false)
					       : tree_clone(AT_FDCWD, "/sys/devices/system/cpu");
	if (make_root(c) < 0)
		return -1;
	for (uint32_t i = 0; i < c->plan->mount_count; i++) {
		if (plan_mount(c->plan, i)->kind == PLAN_MOUNT_SYSTEM)
			return tree_each_name(AT_FDCWD, "/", system_entry, c) < 0 ||
					       bind_processors(c, processors) < 0 || bind_resolver(c) < 0
				       ? -1
				       : shut_system(c);
	}
	return 0;
}
