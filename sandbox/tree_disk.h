#ifndef BAILIFF_SANDBOX_TREE_DISK_H
#define BAILIFF_SANDBOX_TREE_DISK_H

/*
 * The disks that limits on input and output apply to: those of a plan's write roots (of its working directory, where
 * there are none) and of what is kept for copy-on-write. The kernel takes such limits for whole disks, so a partition
 * stands for the disk it is on. File systems whose files have no disk of their own in the kernel's eyes (btrfs,
 * overlayfs, network and memory file systems) cannot be limited.
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
		bool weighs;     /* an I/O scheduler or cost model that knows weights is active */
		bool attributes; /* the file system tells the kernel whose buffered writes it writes (v2) */
		char name[32];   /* "vda" */
		char scheduler[32];
		char type[32]; /* of the file system: "ext4" */
	} disk[TREE_DISKS_MAX];
	size_t count;
};

/*
 * Paths are looked up as the peer, and only in what the kernel has at hand: no file system is waited for. cow_fd −1 =
 * no copy-on-write. ERR_UNAVAILABLE names the path and its file system.
 */
int tree_disks_find(const struct plan_head *plan, const struct fingerprint_peer *peer, int cow_fd,
		    struct tree_disks *ret, struct err *e);

#endif
