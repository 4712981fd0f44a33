/*
 * A write root with --cow: an overlay of the host's directory (lower) and an empty one of ours (upper), which stores
 * what the command writes until it is shown, applied or discarded (sandbox/cow_layout.h has the location).
 *
 * The kernel accepts layers only from mounts of this namespace, so both trees are attached temporarily below the
 * private /tmp. If ids are swapped, they are swapped in both: otherwise nothing could be written. redirect_dir and
 * metacopy are off: the upper layer alone must show what changed. The overlay's marks are in user.* attributes, which
 * its owner can read.
 */

#include "sandbox/steps/overlay.h"

#include "runtime/base/fd.h"
#include "sandbox/cow_layout.h"
#include "sandbox/plan.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"
#include "sandbox/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOWER "tmp/lower"
#define LAYERS "tmp/layers"

/* Returns the index of this mount among the run's write roots. */
static unsigned number_of(const struct step_context *c, uint32_t mount)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < mount; i++)
		n += plan_mount(c->plan, i)->kind == PLAN_MOUNT_WRITE;
	return n;
}

/* Opens the run's directory in this mount namespace: the spawner's descriptor belongs to the spawner's. */
static int open_run(const struct step_context *c)
{
	struct stat there, here;
	fd_auto int fd = open(c->cow_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &here) < 0 || fstat(c->cow_fd, &there) < 0)
		return -1;
	if (here.st_dev != there.st_dev || here.st_ino != there.st_ino) {
		errno = ESTALE;
		return -1;
	}
	return fd_take(&fd);
}

/* 1 if the recorded directory is this one; its layers are a copy, made to be used for it again. */
static int check_root(int layers, int source, const char *path)
{
	struct cow_root recorded;
	fd_auto int fd = openat(layers, "root", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fd_read_all(fd, &recorded, sizeof recorded) == (ssize_t)sizeof recorded && recorded.magic == COW_MAGIC &&
	    recorded.version == COW_VERSION && strncmp(recorded.path, path, sizeof recorded.path) == 0 &&
	    cow_root_is(&recorded, source))
		return 1;
	errno = ESTALE;
	return -1;
}

/* Records the directory's identity, which is checked when the changes are applied. 1: a copied record has it already.
 */
static int record_root(int layers, int source, const char *path)
{
	struct cow_root r = { .magic = COW_MAGIC, .version = COW_VERSION };
	size_t n = strlen(path);
	if (n >= sizeof r.path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(r.path, path, n);
	if (cow_root_identify(source, &r) < 0)
		return -1;
	fd_auto int fd = openat(layers, "root", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST)
		return check_root(layers, source, path);
	return fd < 0 || fd_write_all(fd, &r, sizeof r) < 0 || fdatasync(fd) < 0 ? -1 : 0;
}

/* An overlay's root directory shows the upper layer's owner and mode, so copy those from the lower one. */
static int like_below(const struct step_context *c, int layers, const struct stat *st)
{
	fd_auto int upper = openat(layers, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (upper < 0)
		return -1;
	if (fchown(upper, st->st_uid, st->st_gid) < 0 && c->privileged)
		return -1;
	return fchmod(upper, st->st_mode & 01777);
}

static int set_layer(int fs, const char *key, int fd)
{
	char path[32];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return fsconfig(fs, FSCONFIG_SET_STRING, key, path, 0);
}

static int make_overlay(int lower, int layers)
{
	static const char *const options[][2] = {
		{ "redirect_dir", "nofollow" },
		{ "index", "off" },
		{ "metacopy", "off" },
		{ "xino", "off" },
	};
	fd_auto int upper = openat(layers, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd_auto int work = openat(layers, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd_auto int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	if (upper < 0 || work < 0 || fs < 0)
		return -1;
	if (set_layer(fs, "lowerdir", lower) < 0 || set_layer(fs, "upperdir", upper) < 0 ||
	    set_layer(fs, "workdir", work) < 0 || fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
		return -1;
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
		if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
			return -1;
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)TREE_INERT);
}

static int attach_for_now(const struct step_context *c, int tree, const char *name)
{
	if (mkdirat(c->root_fd, name, 0700) < 0 && errno != EEXIST)
		return -1;
	return tree_attach_at(tree, c->root_fd, name);
}

static int detach_mount(const struct step_context *c, const char *name)
{
	return fchdir(c->root_fd) < 0 ? -1 : umount2(name, MNT_DETACH | UMOUNT_NOFOLLOW);
}

int overlay_tree(struct step_context *c, uint32_t mount, int source, int lower)
{
	char name[16];
	struct stat st;
	if (fstat(source, &st) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR; /* a single file cannot be copied on write */
		return -1;
	}
	snprintf(name, sizeof name, "%u", number_of(c, mount));
	fd_auto int run = open_run(c);
	fd_auto int layers = run < 0 ? -1 : tree_clone(run, name);
	int copied = layers < 0
			     ? -1
			     : record_root(layers, source, plan_string(c->plan, plan_mount(c->plan, mount)->path_off));
	if (copied < 0 || (!copied && like_below(c, layers, &st) < 0) || tree_set(layers, TREE_INERT, c->idmap_fd) < 0)
		return -1;
	if (attach_for_now(c, lower, LOWER) < 0 || attach_for_now(c, layers, LAYERS) < 0)
		return -1;
	fd_auto int tree = make_overlay(lower, layers);
	if (tree < 0 &&
	    errno == EINVAL) /* the kernel's error, from one call or another, if the upper layer is on overlayfs */
		step_path(c, userns_path(USERNS_UPPER));
	if (tree < 0 || detach_mount(c, LOWER) < 0 || detach_mount(c, LAYERS) < 0)
		return -1;
	return fd_take(&tree);
}
