#include "supervisor/spawner/inherited.h"

#include <linux/ioprio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int inherited_read(pid_t pid, struct inherited *ret)
{
	memset(ret, 0, sizeof *ret);
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		if (prlimit(pid, i, NULL, &ret->limit[i]) < 0)
			return -1;
	}
	ret->io_priority = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, pid);
	if (ret->io_priority < 0 || sched_getaffinity(pid, sizeof ret->cpus, &ret->cpus) < 0)
		return -1;
	return (int)syscall(SYS_sched_getattr, pid, ret->scheduling, sizeof ret->scheduling, 0);
}
