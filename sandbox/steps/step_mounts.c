/* The steps that give a private root its own /dev, /proc and /tmp, and make it the root. */

#include "sandbox/steps/step.h"

#include "runtime/base/fd.h"
#include "sandbox/plan.h"
#include "sandbox/steps/public_view.h"
#include "sandbox/steps/tree.h"
#include "sandbox/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/*
 * Mounts made inside never propagate to the host. With a private root no mount may appear later, either: it would be
 * neither read-only nor inert. Without one, the host's unmounts do propagate, so that a long-running command does not
 * keep a file system busy.
 */
int step_mounts(struct step_context *c)
{
	if (mount(NULL, "/", NULL, MS_REC | (step_confined(c) ? MS_PRIVATE : MS_SLAVE), NULL) < 0) {
		int error = errno;
		step_path(c, c->privileged ? "/" : userns_path(userns_classify(USERNS_STAGE_MOUNT, error)));
		errno = error;
		return -1;
	}
	return 0;
}

static const struct {
	const char *path; /* without the leading '/' */
	unsigned major, minor;
} devices[] = {
	{ "dev/null", 1, 3 },   { "dev/zero", 1, 5 },    { "dev/full", 1, 7 },
	{ "dev/random", 1, 8 }, { "dev/urandom", 1, 9 }, { "dev/tty", 5, 0 },
};

static const struct {
	const char *path, *target;
} links[] = {
	{ "dev/fd", "/proc/self/fd" },       { "dev/stdin", "/proc/self/fd/0" }, { "dev/stdout", "/proc/self/fd/1" },
	{ "dev/stderr", "/proc/self/fd/2" }, { "dev/ptmx", "pts/ptmx" },
};

/*
 * Creating a node costs a fifth of a bind; without the right to create one (in a user namespace) the host's is bound.
 */
static int make_device(struct step_context *c, const char *path, dev_t number)
{
	if (c->privileged) {
		if (mknodat(c->root_fd, path, S_IFCHR | 0666, number) == 0)
			return 0;
		if (errno != EPERM)
			return -1;
	}
	fd_auto int host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd_auto int tree = host < 0 ? -1 : tree_clone(host, path);
	if (tree < 0)
		return errno == ENOENT ? 0 : -1;
	fd_auto int file = openat(c->root_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	/*
	 * Read-only does not prevent writes to the device; it prevents its owner, who may be the command's user, from
	 * changing the node.
	 */
	if (file < 0 || tree_set(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1) < 0)
		return -1;
	return tree_attach_at(tree, c->root_fd, path);
}

/* A terminal belongs to the process that opens it, in a sandbox the command's id, so devpts needs no owner options. */
static int make_terminals(struct step_context *c)
{
	if (mkdirat(c->root_fd, "dev/pts", 0755) < 0)
		return -1;
	return mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		     "newinstance,ptmxmode=0666,mode=0620,max=256");
}

int step_dev(struct step_context *c)
{
	if (!step_confined(c))
		return 0;
	for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
		if (make_device(c, devices[i].path, makedev(devices[i].major, devices[i].minor)) < 0) {
			step_path(c, devices[i].path);
			return -1;
		}
	}
	for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
		if (symlinkat(links[i].target, c->root_fd, links[i].path) < 0) {
			step_path(c, links[i].path);
			return -1;
		}
	}
	if (c->plan->flags & PLAN_TTY && symlinkat("pts/0", c->root_fd, "dev/console") < 0) {
		step_path(c, "dev/console");
		return -1;
	}
	if (make_terminals(c) < 0) {
		step_path(c, "dev/pts");
		return -1;
	}
	return 0;
}

/*
 * An unprivileged process can do little with these; they are read-only anyway, in case a kernel gets a permission
 * wrong.
 */
static const char *const read_only[] = { "proc/sys", "proc/bus", "proc/fs", "proc/irq", "proc/sysrq-trigger" };
static const char *const covered_files[] = { "proc/kcore",      "proc/keys",        "proc/key-users",
					     "proc/timer_list", "proc/sched_debug", "proc/latency_stats" };
static const char *const covered_folders[] = { "proc/acpi", "proc/scsi" };

/* The new root must be the working directory. An entry that the kernel does not have is skipped. */
static int bind_over(struct step_context *c, const char *source, const char *place)
{
	struct mount_attr a = { .attr_set = TREE_READ | MOUNT_ATTR_NOEXEC };
	step_path(c, place);
	if (mount(source, place, NULL, MS_BIND | MS_REC, NULL) < 0)
		return errno == ENOENT ? 0 : -1;
	return mount_setattr(AT_FDCWD, place, AT_RECURSIVE, &a, sizeof a);
}

static int mask_proc(struct step_context *c)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof read_only / sizeof read_only[0]; i++)
		r = bind_over(c, read_only[i], read_only[i]);
	for (size_t i = 0; r == 0 && i < sizeof covered_files / sizeof covered_files[0]; i++)
		r = bind_over(c, "tmp/file", covered_files[i]);
	for (size_t i = 0; r == 0 && i < sizeof covered_folders / sizeof covered_folders[0]; i++)
		r = bind_over(c, "tmp/void", covered_folders[i]);
	return r;
}

/*
 * If a container masks parts of /proc, the kernel denies a fresh one in a user namespace. A private root then has an
 * empty /proc: the outer one would expose every process of the same user outside. Without a private root the command
 * sees the outer /proc. Both cases are reported by leaving the layer out, which fails a plan that requires it.
 */
int step_proc(struct step_context *c)
{
	if (!step_confined(c)) {
		if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
			c->layers |= PLAN_LAYER_MOUNTS;
		return 0;
	}
	if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return errno == EPERM && !c->privileged ? 0 : -1;
	if (mask_proc(c) < 0 || (c->outer_root && public_view_shut_proc(c) < 0))
		return -1;
	c->layers |= PLAN_LAYER_MOUNTS;
	return 0;
}

/* All three are directories of the new root's file system: one limit covers their total size. */
static const struct {
	const char *source, *place;
} tmp_folders[] = {
	{ "tmp/shm", "/dev/shm" },
	{ "tmp/var", "/var/tmp" },
	{ "tmp/tmp", "/tmp" }, /* last: it covers the directories that are the sources */
};

int step_tmp(struct step_context *c)
{
	if (!step_confined(c))
		return 0;
	for (size_t i = 0; i < sizeof tmp_folders / sizeof tmp_folders[0]; i++) {
		fd_auto int place = tree_mount_point(c, tmp_folders[i].place, true);
		if (place < 0 && (errno == ENOENT || errno == ELOOP))
			continue; /* the host's /var lacks this directory, or it is a link to one that we create */
		fd_auto int tree = place < 0 ? -1 : tree_clone(c->root_fd, tmp_folders[i].source);
		if (tree < 0 || tree_set(tree, TREE_INERT, -1) < 0 || tree_attach(tree, place) < 0) {
			step_path(c, tmp_folders[i].place);
			return -1;
		}
	}
	return 0;
}

/*
 * The command's user alone has access to them: a command can send a descriptor of a directory to a process of another
 * user. Their file system exists before the ids are known. With root's uid everybody must have access, or nothing below
 * them could be shown (public_view.c).
 */
int step_own_tmp(struct step_context *c)
{
	for (size_t i = 0; !c->outer_root && i < sizeof tmp_folders / sizeof tmp_folders[0]; i++) {
		char link[32];
		fd_auto int place = tree_find(c, tmp_folders[i].place);
		if (place < 0 && (errno == ENOENT || errno == ELOOP))
			continue;
		snprintf(link, sizeof link, "/proc/self/fd/%d", place);
		if (place < 0 || !tree_is_own(c, place) || fchownat(place, "", c->uid, c->gid, AT_EMPTY_PATH) < 0 ||
		    chmod(link, 0700) < 0) {
			step_path(c, tmp_folders[i].place);
			return -1;
		}
	}
	return 0;
}

/*
 * Every file system of this kind shows the queues of the IPC namespace in which it was created. Best effort: without it
 * the sandbox is used once.
 */
int step_queues(struct step_context *c)
{
	if (!step_confined(c) || !c->fingerprint)
		return 0;
	fd_auto int tree = tree_new("mqueue", NULL, TREE_READ);
	c->queues_known = tree < 0 && errno == ENODEV;
	if (tree >= 0)
		c->queues_fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	c->queues_known |= c->queues_fd >= 0;
	return 0;
}

/*
 * From here on the host's tree is unreachable for this process and its children. The old root is stacked on the new one
 * (".", ".") and detached from there, so that no directory is needed for it.
 */
int step_pivot(struct step_context *c)
{
	if (!step_confined(c))
		return 0;
	struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY };
	if (fchdir(c->root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
	    chdir("/") < 0 || mount_setattr(c->root_fd, "", AT_EMPTY_PATH, &a, sizeof a) < 0)
		return -1;
	fd_close(&c->root_fd);
	if (!c->outer_root)
		fd_close(&c->void_folder); /* `ids` needs it */
	fd_close(&c->void_file);
	return 0;
}
