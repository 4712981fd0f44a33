#ifndef BAILIFF_SANDBOX_HOST_FINGERPRINT_H
#define BAILIFF_SANDBOX_HOST_FINGERPRINT_H

/*
 * The files of the host that a dedicated prebuilt sandbox depends on. While it is built, step_trees records each file
 * that it binds, covers or pins, and each that it searched for and did not find. Before the sandbox is used, everything
 * is checked again: if a folder was replaced, a hidden file or a toolchain has appeared, a `.git` has come, or a
 * permission has changed, the sandbox is not the one that would be built now, and is dropped.
 *
 * A file is identified by device and inode. The sandbox keeps each one open (a *pin*) until it is used, so that no
 * other file can get the inode meanwhile. For files other than folders the ctime is compared too: such a file can have
 * several names, and what is mounted on one does not cover the next; a folder has one name only. The ids and mode of a
 * folder on the way are compared where they influenced how the sandbox was built.
 *
 * Mounts of the host are not recorded: the kernel reports when any of them changes.
 */

#include "sandbox/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FINGERPRINT_MAX 320
#define FINGERPRINT_PINS 640 /* the first pin's number; the others follow */

enum fingerprint_flag {
	FINGERPRINT_AS_PEER = 1u << 0, /* looked up with the peer's rights, else with our own */
	FINGERPRINT_FOLLOW = 1u << 1,  /* links may have been followed */
	FINGERPRINT_OWNERS = 1u << 2,  /* ids and mode are compared too */
};

struct fingerprint_entry {
	uint16_t mount; /* index in the plan: whose path */
	uint16_t len;   /* bytes of that path */
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
	uint32_t lost; /* bool: too many entries, or a file changed while it was recorded; never matches */
	struct fingerprint_entry mark[FINGERPRINT_MAX];
};

/*
 * What a check has learned for the next one. Most entries are names in a few folders (a home, the workspace) that do
 * not exist, or folders there. While the ctime of such a folder is the same, no name was added, removed or replaced in
 * it, so that one lookup stands for all of them. That holds on file systems of this machine; a folder on another one is
 * not remembered. Neither is one that has just changed.
 */
#define FINGERPRINT_FOLDERS 32
#define FINGERPRINT_FOLDER_LEAST 4 /* entries; for fewer it saves nothing */

struct fingerprint_folder {
	uint16_t mount, len, flags; /* its path and how it was looked up, as in struct fingerprint_entry */
	uint16_t entries;
	bool known;   /* its entries were as recorded when it was as below */
	bool current; /* … and it is, in the check that is running */
	uint64_t dev, ino;
	int64_t changed_s, changed_ns;
};

struct fingerprint_folders {
	uint32_t sorted; /* bits: entries without FINGERPRINT_AS_PEER, and with it, have folders */
	uint32_t count;
	struct fingerprint_folder folder[FINGERPRINT_FOLDERS];
	uint8_t of[FINGERPRINT_MAX]; /* of each entry: number of its folder, from 1; 0 = it is checked itself */
};

/* The identity for lookups. */
struct fingerprint_peer {
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	size_t ngroups;
	bool switches; /* this process has another identity, can switch and switch back, and has no groups of its own */
};

/* The first `len` bytes of mount i's path are `fd`, or, if that is −1, were not found (errno). Leaves errno alone. */
void fingerprint_record(struct host_fingerprint *s, uint32_t mount, size_t len, uint32_t flags, int fd);
/* Closes the pins. */
void fingerprint_unpin(struct host_fingerprint *s);
/*
 * Whether everything is as it was recorded. Only cached lookups are used, so that no file system can block the caller;
 * a lookup that is not cached counts as a mismatch. `folders` belongs to this fingerprint, plan and peer; it starts
 * with zeroes.
 */
bool fingerprint_matches(const struct host_fingerprint *s, struct fingerprint_folders *folders,
			 const struct plan_head *plan, const struct fingerprint_peer *peer);

/* Opens a path of the host with O_PATH. `cached`: EAGAIN if the file system would have to be asked. */
int fingerprint_open(const char *path, bool follow, bool cached);
/* The same as the peer, links followed, cached. */
int fingerprint_open_as(const struct fingerprint_peer *peer, const char *path);

#endif
