#ifndef BAILIFF_SANDBOX_TREE_FILES_H
#define BAILIFF_SANDBOX_TREE_FILES_H

/*
 * The files in which the kernel counts what a sandbox's cgroups use and what their limits denied. The init opens them
 * while it still can and reads them after the command's tree is gone: they cover the whole tree, including children
 * reaped by other processes.
 *
 * On v2 they are in the leaf into which the init is cloned. On v1 the init first enters the leaves that the limiter
 * created for it (`leaf`, one per controller); without limits there are none.
 */

#include <stdbool.h>
#include <stdint.h>

/* Controllers. */
enum tree_limit { TREE_LIMIT_MEMORY, TREE_LIMIT_PIDS, TREE_LIMIT_CPU, TREE_LIMIT_IO, TREE_LIMITS };

enum tree_file {
	TREE_FILE_CPU_TIME,     /* v2 has it without a controller; with one also throttling */
	TREE_FILE_CPU_THROTTLE, /* v1 */
	TREE_FILE_MEMORY_PEAK,
	TREE_FILE_MEMORY_EVENTS,
	TREE_FILE_PIDS_PEAK,
	TREE_FILE_PIDS_EVENTS,
	TREE_FILE_IO,
	TREE_FILES
};

struct tree_files {
	int leaf[TREE_LIMITS]; /* directories of v1 leaves to enter; −1 = none */
	int file[TREE_FILES];  /* −1 = the kernel does not count it here */
};

/* Which counters are valid. */
enum tree_count_flag {
	TREE_COUNT_CPU = 1u << 0,
	TREE_COUNT_MEMORY = 1u << 1,
	TREE_COUNT_PIDS = 1u << 2,
	TREE_COUNT_IO = 1u << 3,
	TREE_COUNT_THROTTLE = 1u << 4,
	TREE_COUNT_HIGH = 1u << 5,
};

struct tree_count {
	uint32_t known; /* enum tree_count_flag */
	uint32_t reserved;
	uint64_t user_us, system_us;
	uint64_t memory_peak; /* bytes, including the tree's page cache */
	uint64_t pids_peak;
	uint64_t io_read, io_write; /* bytes, of all block devices */
	uint64_t throttled_us, throttled_periods;
	uint64_t high_events; /* how often the tree was throttled because of memory.high */
	uint64_t oom_kills, pids_refused;
};

void tree_files_init(struct tree_files *f);
void tree_files_close(struct tree_files *f);
/* Opens those of one controller's v1 leaf. */
void tree_files_open_v1(struct tree_files *f, enum tree_limit controller, int leaf);
/* Opens those of the v2 leaf. */
void tree_files_open_v2(struct tree_files *f, int leaf);
/* Does not allocate: used in the init. */
void tree_files_read(const struct tree_files *f, struct tree_count *ret);
/* Only oom_kills and pids_refused: the other files make the kernel sum up what every CPU has counted. */
void tree_files_read_denials(const struct tree_files *f, struct tree_count *ret);

#endif
