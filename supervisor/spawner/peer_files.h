#ifndef BAILIFF_SUPERVISOR_SPAWNER_PEER_FILES_H
#define BAILIFF_SUPERVISOR_SPAWNER_PEER_FILES_H

/*
 * Opens files with the peer's identity: policy files that only the peer may be able to read, and the one that it may
 * write.
 *
 * A child of the spawner becomes the peer for good, opens and reads, and sends the result straight to the runtime: a
 * file system that does not answer blocks that child only. The child's alarm ends it, unless the kernel lets it wait
 * without signals; so a user can have only PEER_FILES_STUCK_MAX of those at a time. The spawner decides which files
 * these are, because a compromised runtime could otherwise read or write anything of the peer: .bailiff/policy.json in
 * folders, and the user's own policy.json.
 *
 * In addition to the text the reply has descriptors (O_PATH) of the folders on the way and of the file, with their
 * stamps from before the file was read. As long as these stamps are unchanged the reply is still valid, so the runtime
 * can tell without asking again.
 */

#include "sandbox/file_stamp.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct spawner;
struct spawn_identity;

enum peer_files_op {
	PEER_FILES_WORKSPACE, /* the request is NUL-terminated directories, "" = the user's own file: one reply each */
	PEER_FILES_BELOW, /* the same, and for the first directory: what its .git file leads to (sandbox/git_link.h),
			     replies with index PEER_FILES_GIT; then repositories nested in it (sandbox/nested_repos.h),
			     replies with index PEER_FILES_NESTED and a path, "" = the list may be incomplete */
	PEER_FILES_USER,  /* one reply; the request is empty */
	PEER_FILES_WRITE, /* replaces the user's file: the request is a peer_files_write and the text */
	PEER_FILES_FIND, /* the request is a directory and the home: workspace_search (sandbox/workspace.h). A reply for
			    each directory that it depends on, unless there are more than PEER_FILES_SEARCHED_MAX; then
			    what was found, with index PEER_FILES_GIT and the number of those in `git` */
	PEER_FILES_OP_COUNT
};
enum { PEER_FILES_FD_REQUEST, PEER_FILES_FD_CLIENT, PEER_FILES_FD_REPLY, PEER_FILES_FDS };

#define PEER_FILES_TEXT_MAX (1u << 20)
#define PEER_FILES_STUCK_MAX 32u    /* helpers of one user that run although their alarm is over … */
#define PEER_FILES_HELPERS_MAX 256u /* … and in all */
#define PEER_FILES_FOLDERS_MAX 40u
#define PEER_FILES_SEARCHED_MAX 16u
#define PEER_FILES_WATCH_MAX 4u   /* directories on the way, and the file */
#define PEER_FILES_END UINT32_MAX /* error EDQUOT: too many earlier helpers of this user have not ended */
#define PEER_FILES_NESTED (UINT32_MAX - 1)
#define PEER_FILES_GIT (UINT32_MAX - 2)

/*
 * One message each, then one with index PEER_FILES_END. Descriptors: the watched entries, then, if error is 0, the text
 * (a sealed memfd).
 */
struct peer_files_reply {
	uint32_t index; /* of the directory in the request */
	int32_t error;  /* 0 = found; ENOENT = no file; others: unusable: EFBIG, EINVAL (not a file), ELOOP … */
	uint32_t nwatch;
	uint32_t git; /* with PEER_FILES_GIT: PROFILE_GIT_DIR … (sandbox/profile.h), or a number of directories */
	struct file_stamp watch[PEER_FILES_WATCH_MAX];
	char path[PATH_MAX]; /* of the user's file, the nested repository, the git directory or what was searched for */
};

struct peer_files_write {
	uint32_t exists; /* the file must exist with this stamp, or must not exist; otherwise EAGAIN */
	uint32_t reserved;
	struct file_stamp stamp;
};

/* ---- in the spawner ---- */

#define PEER_FILES_ALL_HELPERS_MAX 1024u

/* The helpers that may still run. */
struct peer_files_helpers {
	struct {
		uid_t uid;
		int pidfd;
		uint64_t began_ns;
	} at[PEER_FILES_ALL_HELPERS_MAX];
	size_t count;
};

int peer_files_start(struct spawner *s, enum peer_files_op what, const struct spawn_identity *peer,
		     const int fds[PEER_FILES_FDS], struct err *e);

#endif
