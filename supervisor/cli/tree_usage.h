#ifndef BAILIFF_CLI_TREE_USAGE_H
#define BAILIFF_CLI_TREE_USAGE_H

/*
 * CPU time and memory of process trees, from one pass over /proc. A command's tree hangs below its sandbox's init,
 * which adopts every orphan, so the sum over a subtree is the whole tree; the time of members that have ended is in
 * their parents' figures.
 *
 * Where a sandbox has a cgroup of its own, the kernel's figures for that count instead: they include children that
 * nobody waited for, and, with the memory controller, each page once.
 */

#include <stddef.h>
#include <stdint.h>

struct tree_usage {
	struct tree_usage_member {
		uint64_t pid, parent, start_time;
		uint64_t cpu_ticks, rss_pages; /* with all descendants */
	} * members;                           /* by pid */
	size_t count;
	char *tree, *root; /* where the v2 tree is mounted, and which part of it; NULL = it is not */
};
#define TREE_USAGE_INIT ((struct tree_usage){ 0 })

void tree_usage_read(struct tree_usage *u);
void tree_usage_done(struct tree_usage *u);

/* The tree below `pid`, which must have started at `start_time` (0: any time), of this process of bailiff's. −1 if
 * there is none. */
int tree_usage_get(const struct tree_usage *u, const char *process_id, uint64_t pid, uint64_t start_time,
		   uint64_t *ret_cpu_ms, uint64_t *ret_memory_bytes);

#endif
