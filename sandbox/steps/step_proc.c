#include "sandbox/plan.h"
#include "sandbox/steps/public_view.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>

/* Whoever is not root can do little with these; they are shut all the same, for the day a permission is forgotten. */
static const char *const read_only[] = { "proc/sys", "proc/bus", "proc/fs", "proc/irq", "proc/sysrq-trigger" };
static const char *const covered_files[] = { "proc/kcore",      "proc/keys",        "proc/key-users",
					     "proc/timer_list", "proc/sched_debug", "proc/latency_stats" };
static const char *const covered_folders[] = { "proc/acpi", "proc/scsi" };

/* The new root is the working directory. Where the kernel has no such entry there is nothing to do. */
static int bind_over(struct step_context *c, const char *source, const char *place)
{
	struct mount_attr a = { .attr_set = TREE_READ | MOUNT_ATTR_NOEXEC };
	step_path(c, place);
	if (mount(source, place, NULL, MS_BIND | MS_REC, NULL) < 0)
		return errno == ENOENT ? 0 : -1;
	return mount_setattr(AT_FDCWD, place, AT_RECURSIVE, &a, sizeof a);
}

static int mask(struct step_context *c)
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
 * A container that masks parts of /proc makes the kernel refuse a fresh one in a user namespace. A private root then
 * has an empty /proc: the outer one would show, and lead to, every process of the same user outside. Without a private
 * root the command sees the outer /proc. Either is said by leaving the layer out, and whoever required it gets a
 * failure.
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
	if (mask(c) < 0 || (c->outer_root && public_view_shut_proc(c) < 0))
		return -1;
	c->layers |= PLAN_LAYER_MOUNTS;
	return 0;
}
