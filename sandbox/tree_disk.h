#ifndef BAILIFF_SANDBOX_TREE_DISK_H
#define BAILIFF_SANDBOX_TREE_DISK_H

/*
 * The disks to which I/O limits apply: those of a plan's write roots (or of its working directory, if there are none)
 * and of the copy-on-write storage. The kernel applies such limits to whole disks, so a partition stands for its disk.
 * File systems without a disk that the kernel can attribute (btrfs, overlayfs, network and memory file systems) cannot
 * be limited.
 */

#include "sandbox/host_fingerprint.h"
#include "sandbox/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define TREE_DISKS_MAX 16

struct tree_disks {
	struct tree_disk {
		uint32_t major, minor;
		bool weighs;     /* an I/O scheduler or cost model that supports weights is active */
		bool attributes; /* the file system attributes buffered writes to their cgroup (v2) */
		char name[32];   /* "vda" */
		char scheduler[32];
		char type[32]; /* of the file system: "ext4" */
	} disk[TREE_DISKS_MAX];
	size_t count;
};

/*
 * Paths are resolved with the peer's identity and from the kernel's cache only, so no file system can block the caller.
 * cow_fd −1 = no copy-on-write. ERR_UNAVAILABLE names the path and its file system.
 */
int tree_disks_find(const struct plan_head *plan, const struct fingerprint_peer *peer, int cow_fd,
		    struct tree_disks *ret, struct err *e);

#endif
