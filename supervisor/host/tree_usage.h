#ifndef BAILIFF_SUPERVISOR_TREE_USAGE_H
#define BAILIFF_SUPERVISOR_TREE_USAGE_H

/*
 * What process trees use now. If a sandbox has its own cgroup, the kernel's counters are used: they include children
 * that were never waited for and, with the memory controller, count each page once.
 *
 * Otherwise, and for a command that shares a session sandbox, the values are sums over /proc: all processes of a
 * command are descendants of its sandbox's init, or of its leader, which adopts orphans; the CPU time of ended members
 * is included in their parents'. Bytes read and written are not known then: the runtime's Landlock domain cannot read
 * /proc/PID/io.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_usage_member;

struct tree_usage {
	struct tree_usage_member *members; /* sorted by pid */
	size_t count;
	uint64_t read_us;  /* when: clock_boot_ns in microseconds */
	char *tree, *root; /* mount point of the cgroup v2 tree, and its root; NULL: not mounted */
};

struct tree_usage_process {
	const char *process_id;
	uint64_t pid, start_time; /* start_time 0: any */
	bool shares_cgroup;       /* it runs in a session sandbox */
};

struct tree_usage_values {
	uint64_t time_us; /* when they were read, on a clock that only counts up */
	uint64_t cpu_us, memory_bytes, tasks, read_bytes, write_bytes;
	bool io_known;
};

/* One pass over /proc for all trees, unless the last one was less than 200 ms ago. */
void tree_usage_refresh(struct tree_usage *u);
/* −1 if the process is gone. */
int tree_usage_get(const struct tree_usage *u, const struct tree_usage_process *p, struct tree_usage_values *ret);
void tree_usage_done(struct tree_usage *u);

#endif
