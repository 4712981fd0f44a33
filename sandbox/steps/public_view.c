/*
 * Shows the host as a stranger sees it, for a command that has root's uid.
 *
 * A command of root's usually runs with an id of its own, and its write roots are mounted with that id and root's
 * swapped (idmap.h): it can write them, files that it creates are root's outside, and it has no rights to any other
 * host file. Two environments lack such mounts: file systems that do not support them (overlayfs, used for container
 * images; tmpfs before 6.3), and a daemon that is root without CAP_SYS_ADMIN. There the command has root's uid outside
 * (`outer_root`), in a user namespace with the same swap, where it appears as the other id. It has no capability
 * anywhere, gains none (no_new_privs, NOROOT, an empty bounding set), and sees no other user's processes. The rights of
 * uid 0 alone are removed here and in two other places:
 *
 * - *Files that only root may read* (/etc/shadow, private keys). The system, and everything that is not the command's
 *   own, is not bound but shown through a read-only overlay that is mounted as a stranger. The kernel checks each
 *   access twice: whether the command may access the file, by its mode, and whether the mounter of the overlay may
 *   access the file below. The second check decides here: only files that everybody may read are readable. The mounter
 *   must not have capabilities over files, either, so it has only CAP_SYS_ADMIN while it mounts.
 * - *Kernel files that trust uid 0* (sysctls, kpagecount, dynamic_debug, a CPU's online switch). They are read-only, as
 *   always; in addition, entries of /proc that are not readable by everybody are covered. An entry that appears later
 *   is not covered: /proc itself has no mode that could be changed.
 * - *Services that trust uid 0.* /run is not shown, and a socket that is seen through an overlay cannot be connected
 *   to. The host's abstract sockets must be out of reach, by a network namespace or Landlock, or the command does not
 *   run (init.c).
 *
 * An overlay shows one file system: directories with mounts below them are recreated, and each of their entries is
 * shown separately. Kernel file systems among them are left out. In a user namespace the kernel enforces the same: it
 * does not allow access to what is below a mount.
 *
 * What remains of uid 0: root's share of resources that the kernel counts per user. Blocks reserved for root can be
 * used, and processes are limited only by a cgroup, because RLIMIT_NPROC does not apply to root's uid
 * (docs/sandbox.md).
 */

#include "sandbox/steps/public_view.h"

#include "runtime/base/fd.h"
#include "sandbox/become_peer.h"
#include "sandbox/capability.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"
#include "sandbox/userns.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define ROOM_BYTES (64u << 20) /* size of a recreated directory: it holds names only, and this is enough for 16,384 */
#define SPARE_OWN 16u          /* reserved for file systems that the plan's own mounts need */
#define DEPTH_MAX 16u
#define OTHERS_ENTER (S_IROTH | S_IXOTH)

uid_t public_view_owner(const struct step_context *c) { return c->outer_root && c->privileged ? 0 : c->uid; }

gid_t public_view_owner_group(const struct step_context *c) { return c->outer_root && c->privileged ? 0 : c->gid; }

/* ---- mounts ---- */

static int path_of_fd(int fd, char ret[PATH_MAX])
{
	char link[32];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, ret, PATH_MAX - 1);
	if (n <= 0)
		return -1;
	ret[n] = 0;
	return 0;
}

/* Reads one character of a mount point in mountinfo's format: blanks, newlines and backslashes are \ooo. */
static int next_char(const char **p)
{
	const char *s = *p;
	if (s[0] == '\\' && s[1] && s[2] && s[3]) {
		*p += 4;
		return (s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0');
	}
	(*p)++;
	return (unsigned char)s[0];
}

/* Whether the mount point, the line's fifth field, is below the directory. */
static bool line_is_below(const char *line, const char *folder)
{
	for (int field = 0; field < 4; field++) {
		line = strchr(line, ' ');
		if (!line)
			return false;
		line++;
	}
	for (; *folder; folder++) {
		if (*line == ' ' || !*line || next_char(&line) != (unsigned char)*folder)
			return false;
	}
	return *line == '/' && line[1] != ' ';
}

/* Returns 1 if something is mounted below the directory, else 0. A line that is too long counts as a match. */
static int has_mounts_below(const char *folder)
{
	char buf[PATH_MAX + 512];
	size_t len = 0;
	fd_auto int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	for (;;) {
		ssize_t n = fd < 0 ? -1 : read(fd, buf + len, sizeof buf - 1 - len);
		if (n <= 0)
			return n < 0 ? -1 : 0;
		len += (size_t)n;
		buf[len] = 0;
		char *line = buf;
		for (char *end; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			if (line_is_below(line, folder))
				return 1;
		}
		len -= (size_t)(line - buf);
		memmove(buf, line, len);
		if (len == sizeof buf - 1)
			return 1;
	}
}

/*
 * Whether the way from the directory to something of the command's own, or that itself, is inaccessible to others. In
 * an overlay mounted as a stranger such a directory cannot even be found (the kernel reads its attributes as the
 * mounter), so there would be nothing to mount on.
 */
static bool has_closed_way_below(const struct step_context *c, const char *folder)
{
	char way[PATH_MAX];
	struct stat st;
	size_t len = strlen(folder);
	for (uint32_t i = 0; i < c->plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(c->plan, i);
		const char *path = plan_string(c->plan, m->path_off);
		if ((m->kind != PLAN_MOUNT_WRITE && !(m->flags & PLAN_MOUNT_OWNED)) ||
		    strncmp(path, folder, len) != 0 || path[len] != '/' || strlen(path) >= sizeof way)
			continue;
		for (const char *end = path + len; *end;) {
			end += 1 + strcspn(end + 1, "/");
			memcpy(way, path, (size_t)(end - path));
			way[end - path] = 0;
			if (stat(way, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & OTHERS_ENTER) != OTHERS_ENTER)
				return true;
		}
	}
	return false;
}

/* ---- the overlay ---- */

/* Assumes the identity of a stranger whose only capability is to mount. */
static int become_stranger(const struct step_context *c)
{
	uid_t uid = c->privileged ? c->uid : 0; /* inside the user namespace the swap's other id is called 0 */
	return fsid_set(uid, (gid_t)uid, NULL, 0) < 0 ? -1 : capability_lower_to(CAP_SYS_ADMIN);
}

static int become_builder(int before)
{
	int saved = errno;
	/* The ids first: the kernel also changes capabilities with each change from or to 0. */
	if (fsid_restore() < 0 || capability_raise_all() < 0)
		return -1;
	errno = saved;
	return before;
}

/* A read-only overlay needs at least two layers: the second is an empty directory of the sandbox. */
static int mount_overlay(const struct step_context *c, int source)
{
	char layers[80];
	snprintf(layers, sizeof layers, "/proc/self/fd/%d:/proc/self/fd/%d", source, c->void_folder);
	const char *const options[] = { "lowerdir", layers, "redirect_dir", "nofollow", "index", "off",
					"metacopy", "off",  "xino",         "off",      NULL };
	fd_auto int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	if (fs < 0 || fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
		return -1;
	for (const char *const *o = options; *o; o += 2) {
		if (fsconfig(fs, FSCONFIG_SET_STRING, o[0], o[1], 0) < 0)
			return -1;
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)TREE_READ);
}

static int show_folder(struct step_context *c, int source, int place)
{
	int tree = become_stranger(c) < 0 ? -1 : mount_overlay(c, source);
	fd_auto int taken = become_builder(tree);
	if (taken < 0) {
		if (tree >= 0 && taken != tree)
			close(tree);
		return -1;
	}
	return tree_attach(taken, place);
}

/* ---- directories with mounts below ---- */

struct remake {
	struct step_context *c;
	int place;
	unsigned depth;
};

static int show_tree(struct step_context *c, int source, int place, unsigned depth);

static bool is_kernels(int fd)
{
	static const long kinds[] = { PROC_SUPER_MAGIC,   SYSFS_MAGIC,   CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
				      DEBUGFS_MAGIC,      TRACEFS_MAGIC, SECURITYFS_MAGIC,   BPF_FS_MAGIC,
				      DEVPTS_SUPER_MAGIC, SELINUX_MAGIC, PSTOREFS_MAGIC,     EFIVARFS_MAGIC };
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0)
		return true;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if ((long)fs.f_type == kinds[i])
			return true;
	}
	return false;
}

/* An entry that cannot be shown becomes an empty directory or an unreadable file. */
static int show_entry(void *ctx, int folder, const char *name, unsigned type)
{
	const struct remake *r = ctx;
	struct stat st;
	char target[PATH_MAX];
	fd_auto int source = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (source < 0 || fstat(source, &st) < 0)
		return 0; /* removed meanwhile */
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(source, "", target, sizeof target - 1);
		target[n > 0 ? n : 0] = 0;
		return n > 0 ? symlinkat(target, r->place, name) : 0;
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return 0;
	if (S_ISDIR(st.st_mode)) {
		if (mkdirat(r->place, name, st.st_mode & 0555) < 0)
			return -1;
		if (!(st.st_mode & S_IXOTH) || is_kernels(source))
			return 0;
	} else {
		fd_auto int file = openat(r->place, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
		if (file < 0)
			return -1;
		if (!(st.st_mode & S_IROTH))
			return 0;
	}
	fd_auto int place = tree_below(r->place, name);
	return place < 0 ? -1 : show_tree(r->c, source, place, r->depth + 1);
}

/* The command owns what is created here, so the owner gets the mode of others, too. */
static int remake_folder(struct step_context *c, int source, int place, mode_t mode, unsigned depth)
{
	struct mount_attr a = { .attr_set = TREE_READ };
	mode_t others = mode & (S_IROTH | S_IXOTH);
	if (depth > DEPTH_MAX || c->own_count + SPARE_OWN >= STEP_OWN_MAX)
		return 0; /* stays empty */
	fd_auto int tree = tree_tmpfs(c, ROOM_BYTES, others << 6 | others << 3 | others);
	if (tree < 0 || tree_attach(tree, place) < 0)
		return -1;
	struct remake r = { .c = c, .place = tree, .depth = depth };
	return tree_each_name(source, ".", show_entry, &r) < 0 ? -1
							       : mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof a);
}

static int show_file(struct step_context *c, int source, const struct stat *st, int place)
{
	bool readable = S_ISREG(st->st_mode) && st->st_mode & S_IROTH;
	fd_auto int tree = tree_clone(readable ? source : c->void_file, "");
	return tree < 0 || tree_set(tree, TREE_READ, -1) < 0 ? -1 : tree_attach(tree, place);
}

static int show_tree(struct step_context *c, int source, int place, unsigned depth)
{
	char path[PATH_MAX];
	struct stat st;
	if (fstat(source, &st) < 0 || path_of_fd(source, path) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode))
		return show_file(c, source, &st, place);
	int mounts = has_mounts_below(path);
	if (mounts < 0)
		return -1;
	if (mounts || has_closed_way_below(c, path))
		return remake_folder(c, source, place, st.st_mode, depth);
	if (show_folder(c, source, place) == 0 || depth > 0)
		return 0;
	step_path(c, userns_path(USERNS_OVERLAY));
	return -1;
}

int public_view_bind(struct step_context *c, int source, int place) { return show_tree(c, source, place, 0); }

/* ---- /proc ---- */

static int shut_entry(void *ctx, int folder, const char *name, unsigned type);

struct shutting {
	struct step_context *c;
	unsigned depth;
};

static int shut_folder(struct step_context *c, int folder, unsigned depth)
{
	struct shutting inner = { .c = c, .depth = depth + 1 };
	return depth > DEPTH_MAX ? -1 : tree_each_name(folder, ".", shut_entry, &inner);
}

/* The top level also has process directories and links to a process's own files, which have their own owners. */
static int shut_entry(void *ctx, int folder, const char *name, unsigned type)
{
	const struct shutting *s = ctx;
	struct step_context *c = s->c;
	struct stat st;
	if (s->depth == 1 && name[0] >= '0' && name[0] <= '9')
		return 0;
	fd_auto int at = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0 || fstat(at, &st) < 0 || S_ISLNK(st.st_mode))
		return 0;
	bool is_folder = S_ISDIR(st.st_mode);
	mode_t others = is_folder ? S_IROTH | S_IXOTH : S_IROTH;
	bool shown = (st.st_mode & others) == others;
	if (shown && !is_folder && !(st.st_mode & 0222))
		return 0;
	if (shown && is_folder && s->depth > 1)
		return shut_folder(c, at, s->depth);
	if (shown && s->depth > 1)
		return 0; /* the directory at the top is read-only */
	step_path(c, name);
	fd_auto int tree = tree_clone(shown ? at : is_folder ? c->void_folder : c->void_file, "");
	if (tree < 0 || tree_set(tree, TREE_READ | MOUNT_ATTR_NOEXEC, -1) < 0 || tree_attach(tree, at) < 0)
		return -1;
	return shown && is_folder ? shut_folder(c, tree, s->depth) : 0;
}

int public_view_shut_proc(struct step_context *c)
{
	fd_auto int proc = openat(c->root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return proc < 0 ? -1 : shut_folder(c, proc, 0);
}

static int put_on(int at, const char *name, int source)
{
	fd_auto int place = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd_auto int tree = place < 0 ? -1 : tree_clone(source, "");
	return tree < 0 || tree_set(tree, TREE_READ | MOUNT_ATTR_NOEXEC, -1) < 0 ? -1 : tree_attach(tree, place);
}

/*
 * The init cannot be traced, and the kernel assigns the /proc files of such a process to root, which is the uid that
 * the command has. Most of them require more than ownership; but some are writable (oom_score_adj), and the init's
 * descriptors could be counted.
 */
int public_view_shut_init(struct step_context *c)
{
	step_path(c, "/proc/1");
	c->self_fds = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd_auto int self = open("/proc/1", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c->self_fds < 0 || self < 0 || put_on(AT_FDCWD, "/proc/1", self) < 0 ||
	    put_on(AT_FDCWD, "/proc/1/fd", c->void_folder) < 0 ||
	    put_on(AT_FDCWD, "/proc/1/fdinfo", c->void_folder) < 0 ||
	    put_on(AT_FDCWD, "/proc/1/task", c->void_folder) < 0)
		return -1;
	fd_close(&c->void_folder);
	return 0;
}
