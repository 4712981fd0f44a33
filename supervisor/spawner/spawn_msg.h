#ifndef BAILIFF_SUPERVISOR_SPAWN_MSG_H
#define BAILIFF_SUPERVISOR_SPAWN_MSG_H

/*
 * Messages between runtime and spawner (SOCK_SEQPACKET, fixed structs with descriptors). The spawner keeps no state
 * about processes: after it answered, a sandbox is the guard's and the runtime's.
 *
 * START brings its plan behind the message if that is not long, else in a sealed memfd, which is then its first
 * descriptor. The others, in this order: the client's socket (for SO_PEERCRED and SO_PEERGROUPS), status, gate (read
 * end), stdout, then stderr unless PLAN_STDERR_MERGE, then stdin (read end, or a sealed memory file) if
 * PLAN_STDIN_PIPE. With PLAN_TTY nothing comes after the gate: the init opens the terminal and sends its master with
 * READY. The spawner checks the plan, clones the init, deposits its pidfd with the guard and answers STARTED with a
 * copy of the pidfd; or FAILED with the step and errno, and nothing exists then. What fails later comes over the status
 * socket.
 */

#include "sandbox/plan.h"

#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum spawn_kind {
	SPAWN_START = 1,      /* runtime → spawner */
	SPAWN_SYNC = 2,       /* → SYNCED: everything sent before on any link is done */
	SPAWN_CLEAN = 3,      /* key: remove the cgroup of a released process; no answer */
	SPAWN_MARK = 4,       /* token: put it behind the audit records that exist now; it comes among them */
	SPAWN_PEER_FILES = 6, /* op: policy files, opened as the peer (look.h); descriptors: request (memfd), the
			   client's socket, a socket for the answers */
	SPAWN_CHANGES = 5, /* key, op → CHANGED; descriptors: paths (memfd), result (memfd), the client's socket if op
			      needs one, for REVERT the report */
	SPAWN_ANNOUNCE = 7, /* token, hint: a START is likely to come, and what it may need can be looked at meanwhile;
			     no answer */
	SPAWN_GRANT = 8,    /* folders that a root client lets commands be run in later (authority.h); descriptors: enum
			       grant_fd */
	SPAWN_STARTED = 16, /* pid, start_time, layers + pidfd */
	SPAWN_FAILED = 17,  /* step, error, path */
	SPAWN_SYNCED = 18,
	SPAWN_CHANGED = 19, /* key, error: the result is written, or why there is none */
};

struct spawn_msg {
	uint32_t kind;
	uint32_t flags; /* START: must equal the plan's */
	int32_t pid;
	int32_t error;
	uint32_t step;       /* enum sandbox_step */
	uint32_t layers;     /* STARTED: enum plan_layer that the clone itself gave */
	uint64_t start_time; /* STARTED: of the init, field 22 of /proc/PID/stat */
	uint64_t token;      /* MARK; EXPECT, and the START that it was for: which request, 0 = none */
	uint64_t hint;       /* EXPECT, START: requests with the same mostly have the same sandbox */
	int32_t cpu;         /* EXPECT, START: where the runtime is; CLEAN: where it was when it answered */
	uint32_t reserved;
	uint32_t op;       /* CHANGES: enum change_op */
	uint32_t plan_len; /* START: bytes of the plan that follow this; 0 = it is in a memfd */
	struct plan_key key;
	char path[512]; /* FAILED: what it was about; of STEP_LIMITS "field: why and what to do" */
};
#define SPAWN_INLINE_MAX (24u << 10)

/* As long as any message. */
struct spawn_msg_buffer {
	struct spawn_msg msg;
	_Alignas(uint64_t) char plan[SPAWN_INLINE_MAX];
};
_Static_assert(offsetof(struct spawn_msg_buffer, plan) == sizeof(struct spawn_msg), "the plan follows the message");

/* Of a GRANT: the client's socket, the folders (each with its NUL, in a sealed memfd), and what is closed once they are
 * noted. */
enum grant_fd { GRANT_FD_CLIENT, GRANT_FD_PATHS, GRANT_FD_DONE, GRANT_FDS };
#define GRANT_BYTES_MAX (256u << 10)
int grant_read(int fd, struct buf *out, struct err *e);

/* What the runtime may send: the size with that of a plan, a kind that is permitted, known flags, its number of
 * descriptors, a proper key. */
int spawn_msg_check(const void *message, size_t len, size_t nfds, struct err *e);

#endif
