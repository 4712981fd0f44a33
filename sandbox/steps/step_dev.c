#include "runtime/base/fd.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

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

/* A node of our own costs a fifth of a bind; without the right to make one (a user namespace) the host's is bound. */
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
	/* Read-only keeps nobody from writing to a device, but its owner, who may be the command's, from changing the
	 * node. */
	if (file < 0 || tree_set(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1) < 0)
		return -1;
	return tree_attach_at(tree, c->root_fd, path);
}

/* A terminal belongs to whoever opens it: in a sandbox that is the command's id, so no more is to be said about owners.
 */
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
