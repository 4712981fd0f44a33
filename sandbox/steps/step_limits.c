/* Limits of the tree by cgroup (in the init), and of each process by setrlimit (in the command's process). */

#include "sandbox/steps/step.h"

#include "runtime/base/fd.h"
#include "sandbox/plan.h"
#include "sandbox/tree_limit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* On v1 hierarchies: must run before anything of the peer's is touched. "0" means the writing process. */
int step_limits(struct step_context *c)
{
	for (int i = 0; i < TREE_LIMITS; i++) {
		if (c->tree.leaf[i] < 0)
			continue;
		step_path(c, tree_limit_name((enum tree_limit)i));
		fd_auto int procs = openat(c->tree.leaf[i], "cgroup.procs", O_WRONLY | O_CLOEXEC);
		if (procs < 0 || write(procs, "0", 1) < 0)
			return -1;
		tree_files_open_v1(&c->tree, (enum tree_limit)i, c->tree.leaf[i]);
		fd_close(&c->tree.leaf[i]);
		c->layers |= PLAN_LAYER_CGROUP;
	}
	return 0;
}

/* The value that programs with select(2) expect; the daemon itself runs with a much higher one. */
#define OPEN_FILES_DEFAULT 1024u
#define MEMLOCK_MOST (8u << 20) /* the kernel's own default */

/* Sets the limit to at most `value`; a lower hard limit is kept. */
static int limit_resource(int resource, uint64_t value)
{
	struct rlimit r;
	if (getrlimit((__rlimit_resource_t)resource, &r) < 0)
		return -1;
	if (value < r.rlim_max)
		r.rlim_max = value;
	r.rlim_cur = r.rlim_max;
	return setrlimit((__rlimit_resource_t)resource, &r);
}

/*
 * The kernel counts descriptors in flight per user, against the sender's limit of open files. A command of our own user
 * that sends and never receives must hit its limit before we hit ours: otherwise no other command could be started.
 */
static int limit_open_files(const struct step_context *c)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return -1;
	uint64_t wanted = c->plan->open_files;
	if (step_confined(c))
		r.rlim_max -= r.rlim_max / 4;
	if (wanted < r.rlim_max)
		r.rlim_max = wanted;
	r.rlim_cur = wanted == PLAN_UNLIMITED && r.rlim_max > OPEN_FILES_DEFAULT ? OPEN_FILES_DEFAULT : r.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &r);
}

/* Drops privileges that the daemon or its user was granted for other purposes: priority and locked memory. */
static int limit_advantages(void)
{
	static const struct {
		int resource;
		rlim_t most;
	} rows[] = { { RLIMIT_RTPRIO, 0 }, { RLIMIT_NICE, 0 }, { RLIMIT_MEMLOCK, MEMLOCK_MOST } };
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct rlimit r;
		if (getrlimit((__rlimit_resource_t)rows[i].resource, &r) < 0)
			return -1;
		if (r.rlim_max > rows[i].most && limit_resource(rows[i].resource, rows[i].most) < 0)
			return -1;
	}
	return 0;
}

/*
 * Whether core_pattern is a pipe: the kernel then runs that program outside, as root, with the crashed command's
 * memory.
 */
static bool host_handles_crashes(const struct step_context *c)
{
	char first = 0;
	fd_auto int fd = c->core_fd >= 0 ? -1 : open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
	return pread(c->core_fd >= 0 ? c->core_fd : fd, &first, 1, 0) != 1 || first == '|';
}

/*
 * Core files are off by default: service managers let daemons write them, and all commands would inherit that. A limit
 * of 1 is too small for any core, and the only value that keeps the kernel from running the host's core_pattern
 * program. If there is such a program, the hard limit is lowered, too.
 */
static int disable_core_files(const struct step_context *c)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_CORE, &r) < 0)
		return -1;
	if (r.rlim_max > 1 && host_handles_crashes(c))
		r.rlim_max = 1;
	r.rlim_cur = r.rlim_max ? 1 : 0;
	return setrlimit(RLIMIT_CORE, &r);
}

int step_rlimits(struct step_context *c)
{
	const struct plan_head *p = c->plan;
	if (step_confined(c) && (limit_advantages() < 0 || disable_core_files(c) < 0))
		return -1;
	if (limit_open_files(c) < 0) {
		step_path(c, "openFiles");
		return -1;
	}
	if (p->file_bytes != PLAN_UNLIMITED && limit_resource(RLIMIT_FSIZE, p->file_bytes) < 0) {
		step_path(c, "fileBytes");
		return -1;
	}
	/*
	 * If no cgroup counts the processes, the kernel counts them per user. That is equivalent if the id or the user
	 * namespace is the sandbox's own; otherwise the peer's other processes are counted, too.
	 */
	if (p->limits.value[PLAN_LIMIT_PIDS] && c->tree.file[TREE_FILE_PIDS_EVENTS] < 0 &&
	    limit_resource(RLIMIT_NPROC, plan_tasks(p)) < 0) {
		step_path(c, "pids");
		return -1;
	}
	/*
	 * The init sums the tree's CPU time from its /proc; without one, the limit applies to each process separately.
	 */
	if (p->cpu_ms != PLAN_UNLIMITED && !(c->layers & PLAN_LAYER_MOUNTS) &&
	    limit_resource(RLIMIT_CPU, (p->cpu_ms + 999) / 1000) < 0) {
		step_path(c, "cpuMs");
		return -1;
	}
	return 0;
}
