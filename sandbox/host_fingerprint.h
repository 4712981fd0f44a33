#ifndef BAILIFF_SANDBOX_HOST_FINGERPRINT_H
#define BAILIFF_SANDBOX_HOST_FINGERPRINT_H

/*
 * What of the host's a sandbox was made from. Who builds one ahead, mounts and all, notes each thing that it bound,
 * covered or held in place, and each that it looked for in vain (step_trees); whoever then wants to use it looks again,
 * and does so only if everything is still what it was: a folder that is another one now, a secret or a toolchain that
 * is there now, a `.git` that has come, a permission that has changed, and the sandbox is none that would be built now.
 *
 * A thing is told by device and inode. So that no other gets that inode meanwhile, the sandbox keeps each open (a
 * *pin*) until it is used. Of what is no folder the time of its last change counts too: it can have other names, and
 * what is mounted on one of them does not go over to the next; a folder has one name only. The ids and mode of a folder
 * on the way count where a sandbox was made differently for them.
 *
 * Mounts of the host's are not looked at: the kernel tells when any of them changes.
 */

#include "sandbox/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FINGERPRINT_MAX 320
#define FINGERPRINT_PINS 640 /* the first pin's number; the others follow */

enum fingerprint_flag {
	FINGERPRINT_AS_PEER = 1u << 0, /* looked for with the peer's rights, else with our own */
	FINGERPRINT_FOLLOW = 1u << 1,  /* links may have been followed */
	FINGERPRINT_OWNERS = 1u << 2,  /* who may pass counts too: ids and mode */
};

struct fingerprint_entry {
	uint16_t mount; /* of the plan: whose path */
	uint16_t len;   /* so much of it */
	uint16_t flags; /* enum fingerprint_flag */
	uint16_t error; /* errno: it was not found */
	uint32_t mode;  /* the type alone, unless FINGERPRINT_OWNERS */
	uint32_t uid, gid;
	uint32_t reserved;
	uint64_t dev, ino;
	int64_t changed_s, changed_ns; /* 0 of a folder */
};

struct host_fingerprint {
	uint32_t count;
	uint32_t pins;
	uint32_t lost; /* bool: too much to keep in mind, or it changed under our eyes */
	struct fingerprint_entry mark[FINGERPRINT_MAX];
};

/* As whom to look. */
struct fingerprint_peer {
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	size_t ngroups;
	bool switches; /* we are somebody else, and can become the peer and come back; our own groups are none */
};

/* The first `len` bytes of mount i's path are `fd`, or, if that is −1, were not found (errno). Leaves errno alone. */
void fingerprint_record(struct host_fingerprint *s, uint32_t mount, size_t len, uint32_t flags, int fd);
/* Forgets what is pinned. */
void fingerprint_unpin(struct host_fingerprint *s);
/*
 * Whether all of it is as it was. Only what the kernel knows without asking a file system counts, so that nobody can
 * make us wait: what cannot be told is not as it was.
 */
bool fingerprint_matches(const struct host_fingerprint *s, const struct plan_head *plan,
			 const struct fingerprint_peer *peer);

/* Looks a path of the host's up: O_PATH. `cached`: EAGAIN if a file system would have to be asked. */
int fingerprint_open(const char *path, bool follow, bool cached);
/* The same as the peer, links followed, cached. */
int fingerprint_open_as(const struct fingerprint_peer *peer, const char *path);

#endif
