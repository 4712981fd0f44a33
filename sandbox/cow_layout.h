#ifndef BAILIFF_SANDBOX_COW_LAYOUT_H
#define BAILIFF_SANDBOX_COW_LAYOUT_H

/*
 * The files of a copy-on-write run, below a directory that only the spawner and its children can enter:
 *
 *   <process id>/owner      struct cow_owner: the run's owner and start time; written by the spawner before the
 *                           clone
 *   <process id>/<n>/root   struct cow_root: identifies write root n; written by the sandbox's init, which resolves it
 *   <process id>/<n>/upper  the overlay's upper layer: what the command wrote there
 *   <process id>/<n>/work   overlayfs's own
 *   <process id>/undo       what applies replaced (supervisor/spawner/cow_undo.h); not part of a checkpoint
 *
 * A checkpoint is a copy of such a directory, named by its id. A directory that is being removed has a name that begins
 * with ".bailiff-".
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define COW_MAGIC 0x574f4342u /* "BCOW" */
#define COW_VERSION 1u
#define COW_OWNER_NAME "owner"
#define COW_GROUPS_MAX 256u

struct cow_owner {
	uint32_t magic, version;
	uint32_t uid, gid; /* of the peer */
	uint32_t nroots, ngroups;
	int64_t started_s; /* by the clock of the file system's timestamps */
	int64_t started_ns;
	uint32_t groups[COW_GROUPS_MAX];
};

/*
 * When the directory was created tells it from one that has got its inode number since. 0: unknown, because its file
 * system does not record or keep that, or an earlier version wrote the record.
 */
struct cow_root {
	uint32_t magic, version;
	uint64_t device, inode;
	char path[PATH_MAX - 16];
	int64_t created_s; /* compared only with itself: the file system may have a clock of its own */
	int64_t created_ns;
};

/* Sets the identity of an open directory. −1 with errno. */
int cow_root_identify(int fd, struct cow_root *r);
/* Whether an open directory is the recorded one. */
bool cow_root_is(const struct cow_root *recorded, int fd);

#endif
