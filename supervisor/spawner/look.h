#ifndef BAILIFF_SUPERVISOR_LOOK_H
#define BAILIFF_SUPERVISOR_LOOK_H

/*
 * "Open this as the peer": policy files that perhaps only the peer may read, and the one that it may write.
 *
 * A child of the spawner's becomes the peer for good, looks, reads, and sends what it found straight to the runtime: a
 * file system that does not answer holds up that child and nobody else. Which files these are is decided here and not
 * by the runtime, which could otherwise read or write anything of the peer's: .bailiff/policy.json in folders, and the
 * user's own policy.json.
 *
 * What is sent besides the text are descriptors (O_PATH) of the folders on the way and of the file, with their stamps
 * from before the file was read. As long as these have not changed, neither has the answer; so the runtime knows
 * without asking again.
 */

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct spawner;
struct spawn_identity;

enum look_what {
	LOOK_WORKSPACE, /* the request is folders, each with its NUL, or "" for the user's own file: one answer each */
	LOOK_BELOW,     /* the same, and what is nested in the first folder (sandbox/nested.h): answers with index
			   LOOK_NESTED and its path, "" = there may be more */
	LOOK_USER,      /* one answer; the request is empty */
	LOOK_WRITE,     /* replaces the user's: the request is a look_write and the text */
	LOOK_COUNT
};
enum { LOOK_FD_REQUEST, LOOK_FD_CLIENT, LOOK_FD_ANSWER, LOOK_FDS };

#define LOOK_TEXT_MAX (1u << 20)
#define LOOK_FOLDERS_MAX 40u
#define LOOK_WATCH_MAX 4u /* folders on the way, and the file */
#define LOOK_END UINT32_MAX
#define LOOK_NESTED (UINT32_MAX - 1)

struct look_stamp {
	uint64_t dev, ino, size;
	int64_t changed_s, modified_s;
	uint32_t changed_ns, modified_ns;
};

/* One message each, then one with index LOOK_END. Descriptors: what is watched, then the text (a sealed memfd) if error
 * is 0. */
struct look_answer {
	uint32_t index; /* of the folder */
	int32_t error;  /* 0 = there is a file; ENOENT = there is none; else it cannot be used: EFBIG, EINVAL (no file),
			   ELOOP … */
	uint32_t nwatch;
	uint32_t reserved;
	struct look_stamp watch[LOOK_WATCH_MAX];
	char path[PATH_MAX]; /* of the user's file; of what is nested */
};

struct look_write {
	uint32_t exists; /* it does, with this stamp: anything else is EAGAIN */
	uint32_t reserved;
	struct look_stamp stamp;
};

/* 0, −1. Whether it is still what the stamp says, as far as is known without asking its file system. */
int look_stamp_get(int fd, struct look_stamp *ret);

/* ---- in the spawner ---- */

int look_start(struct spawner *s, enum look_what what, const struct spawn_identity *peer, const int fds[LOOK_FDS],
	       struct err *e);

#endif
