#ifndef BAILIFF_FLEET_BUNDLE_H
#define BAILIFF_FLEET_BUNDLE_H

/*
 * A copy of a workspace, sent with a task: a tar archive (ustar with GNU long names; regular files, folders and
 * symbolic links) whose name is the SHA-256 of its bytes.
 *
 * The submitter packs it; a node verifies the hash and unpacks it into an empty folder of its own. The archive comes
 * from another machine and is not trusted: unpacking resolves every name below the folder without following a link,
 * creates and never overwrites, gives no special mode bits, and stops at the limits below.
 */

#include "runtime/base/hash.h"

#include <stddef.h>
#include <stdint.h>

struct err;

#define BUNDLE_BYTES_MAX (256ull << 20) /* of the archive */
#define BUNDLE_FILES_MAX 200000u
#define BUNDLE_CHUNK (512u << 10) /* what is sent in one message */

struct bundle {
	char sha256[HASH_SHA256_TEXT];
	uint64_t bytes;
	size_t files;
};

/*
 * Writes the named files below dir_fd to out_fd, in the given order. Names are relative, without "..". A name that no
 * longer exists is left out; a socket, device or FIFO is, too. ERR_EXHAUSTED names the limit.
 */
int bundle_pack(int dir_fd, char *const *names, size_t n, int out_fd, struct bundle *ret, struct err *e);

/* Appends the names of all files and links below dir_fd, sorted, except for those in .git folders. */
struct bundle_names {
	char **names;
	size_t n;
};
int bundle_names_walk(int dir_fd, struct bundle_names *ret, struct err *e);
void bundle_names_add(struct bundle_names *list, const char *name);
void bundle_names_done(struct bundle_names *list);

/* Unpacks the archive at the current position of in_fd into the empty folder dir_fd. Its hash has been verified. */
int bundle_unpack(int in_fd, int dir_fd, struct err *e);
/* Whether the file of this size at in_fd is this bundle: compares size and hash. Leaves the position at its start. */
int bundle_verify(int in_fd, const struct bundle *expected, struct err *e);

#endif
