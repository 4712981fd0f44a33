#ifndef BAILIFF_CLI_TREE_USAGE_H
#define BAILIFF_CLI_TREE_USAGE_H

/*
 * CPU time and memory of process trees, from one pass over /proc. All processes of a command are descendants of its
 * sandbox's init, which adopts orphans, so the sum over a subtree is the whole tree; the CPU time of ended members is
 * included in their parents'.
 *
 * If a sandbox has its own cgroup, the kernel's values are used instead: they include children that were never waited
 * for and, with the memory controller, count each page once.
 */

#include <stddef.h>
#include <stdint.h>

struct tree_usage {
	struct tree_usage_member {
		uint64_t pid, parent, start_time;
		uint64_t cpu_ticks, rss_pages; /* with all descendants */
	} * members;                           /* sorted by pid */
	size_t count;
	char *tree, *root; /* mount point of the cgroup v2 tree, and its root; NULL: not mounted */
};
#define TREE_USAGE_INIT ((struct tree_usage){ 0 })

void tree_usage_read(struct tree_usage *u);
void tree_usage_done(struct tree_usage *u);

/*
 * The usage of the tree below `pid`, which must have started at `start_time` (0: any), for this bailiff process. −1 if
 * there is none.
 */
int tree_usage_get(const struct tree_usage *u, const char *process_id, uint64_t pid, uint64_t start_time,
		   uint64_t *ret_cpu_ms, uint64_t *ret_memory_bytes);

#endif
