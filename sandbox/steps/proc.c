#include "sandbox/plan.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"

#include "runtime/base/fd.h"

#include <errno.h>
#include <sys/mount.h>

/* Whoever is not root can do little with these; they are shut all the same, for the day a permission is forgotten. */
static const char *const read_only[] = { "sys", "bus", "fs", "irq", "sysrq-trigger" };
static const char *const covered_files[] = { "kcore", "keys", "key-users", "timer_list", "sched_debug", "latency_stats" };
static const char *const covered_folders[] = { "acpi", "scsi" };

/* Where the kernel has no such entry there is nothing to do. */
static int fix(int proc, int tree, const char *name, bool make_read_only)
{
	fd_auto int t = tree;
	if (t < 0)
		return errno == ENOENT ? 0 : -1;
	if (make_read_only && tree_set(t, TREE_READ | MOUNT_ATTR_NOEXEC, -1) < 0)
		return -1;
	return tree_attach_at(t, proc, name) < 0 && errno != ENOENT ? -1 : 0;
}

static int mask(struct step_context *c, int proc)
{
	for (size_t i = 0; i < sizeof read_only / sizeof read_only[0]; i++) {
		if (fix(proc, tree_clone(proc, read_only[i]), read_only[i], true) < 0) {
			step_path(c, read_only[i]);
			return -1;
		}
	}
	for (size_t i = 0; i < sizeof covered_files / sizeof covered_files[0]; i++) {
		if (fix(proc, tree_clone(c->void_file, ""), covered_files[i], false) < 0) {
			step_path(c, covered_files[i]);
			return -1;
		}
	}
	for (size_t i = 0; i < sizeof covered_folders / sizeof covered_folders[0]; i++) {
		if (fix(proc, tree_clone(c->void_folder, ""), covered_folders[i], false) < 0) {
			step_path(c, covered_folders[i]);
			return -1;
		}
	}
	return 0;
}

/*
 * A container that masks parts of /proc makes the kernel refuse a fresh one in a user namespace. A private root then has
 * an empty /proc: the outer one would show, and lead to, every process of the same user outside. Without a private root
 * the command sees the outer /proc. Either is said by leaving the layer out, and whoever required it gets a failure.
 */
int step_proc(struct step_context *c)
{
	if (!step_confined(c)) {
		if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
			c->layers |= PLAN_LAYER_MOUNTS;
		return 0;
	}
	fd_auto int proc = tree_new("proc", NULL, TREE_INERT | MOUNT_ATTR_NOEXEC);
	if (proc < 0)
		return errno == EPERM && !c->privileged ? 0 : -1;
	if (tree_attach_at(proc, c->root_fd, "proc") < 0 || mask(c, proc) < 0)
		return -1;
	c->layers |= PLAN_LAYER_MOUNTS;
	return 0;
}
