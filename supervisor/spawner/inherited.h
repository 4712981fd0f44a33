#ifndef BAILIFF_SUPERVISOR_SPAWNER_INHERITED_H
#define BAILIFF_SUPERVISOR_SPAWNER_INHERITED_H

/*
 * What a command inherits from its leader or init and every process of its user can change. The rest of these two is
 * out of reach: they cannot be traced, their files in /proc are not the command's, and their process group is the
 * spawner's. One that runs several commands compares this first, so that none inherits what another has set.
 */

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct inherited {
	struct rlimit limit[RLIM_NLIMITS];
	uint64_t scheduling[16]; /* struct sched_attr, with room for what later kernels add: policy, nice value, … */
	long io_priority;
	cpu_set_t cpus;
};

/* Of a process, 0 = the caller. Two results can be compared with memcmp. −1 with errno. */
int inherited_read(pid_t pid, struct inherited *ret);

#endif
