#ifndef BAILIFF_SUPERVISOR_SPAWN_MSG_H
#define BAILIFF_SUPERVISOR_SPAWN_MSG_H

/*
 * Messages between runtime and spawner (SOCK_SEQPACKET, fixed structs with descriptors). The spawner keeps no state
 * about processes: after its reply, a sandbox belongs to the guard and the runtime.
 *
 * A short plan follows the START message; a long one comes in a sealed memfd, which is then the first descriptor. The
 * others, in this order: the client's socket (for SO_PEERCRED and SO_PEERGROUPS), status, gate (read end), stdout, then
 * stderr unless PLAN_STDERR_MERGE, then stdin (read end, or a sealed memfd; for a holder its link, member_msg.h) if
 * PLAN_STDIN_PIPE. With PLAN_TTY nothing follows the gate: the init opens the terminal and sends its master with READY.
 * The spawner checks the plan, clones the init, deposits its pidfd with the guard and replies STARTED with a copy of
 * the pidfd; or it replies FAILED with the step and errno, and nothing is left behind. Later failures are reported over
 * the status socket.
 */

#include "sandbox/plan.h"

#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum spawn_kind {
	SPAWN_START = 1,      /* runtime → spawner */
	SPAWN_SYNC = 2,       /* → SYNCED: everything sent before on any link has been handled */
	SPAWN_CLEAN = 3,      /* key: remove the cgroup of a released process; no reply */
	SPAWN_MARK = 4,       /* token: append it to the audit records that exist now; it is delivered among them */
	SPAWN_PEER_FILES = 6, /* op: policy files, opened as the peer (peer_files.h); descriptors: request (memfd), the
				 client's socket, a socket for the replies */
	SPAWN_CHANGES = 5, /* key, op → CHANGED; descriptors: paths (memfd), result (memfd), the client's socket if op
			      needs one, for REVERT the report */
	SPAWN_ANNOUNCE =
		7,       /* token, hint: a START is likely to follow; what it may need can be checked early; no reply */
	SPAWN_GRANT = 8, /* directories in which a root client authorises later commands (authority.h); descriptors:
			    enum grant_fd */
	SPAWN_LIMIT = 9, /* pid of a holder, holder, plan (with the limits of one member): make cgroups for that member
			    (member_limits.h) → LIMITED or FAILED; descriptors: plan if it is not in the message, the
			    client's socket, a socket on which the member's leader will ask to be moved there */
	SPAWN_STARTED = 16, /* pid, start_time, layers + pidfd */
	SPAWN_FAILED = 17,  /* step, error, path */
	SPAWN_SYNCED = 18,
	SPAWN_CHANGED = 19, /* key, error: the result is written, or the reason why not */
	SPAWN_LIMITED = 20, /* key */
};

struct spawn_msg {
	uint32_t kind;
	uint32_t flags; /* START, LIMIT: must equal the plan's */
	int32_t pid;    /* STARTED: of the init; LIMIT: of the holder */
	int32_t error;
	uint32_t step;       /* enum sandbox_step */
	uint32_t layers;     /* STARTED: enum plan_layer that the clone set up */
	uint64_t start_time; /* STARTED: of the init, field 22 of /proc/PID/stat */
	uint64_t token;      /* MARK; ANNOUNCE and its START: id of the request, 0 = none */
	uint64_t hint;       /* ANNOUNCE, START: requests with the same value usually need the same sandbox */
	int32_t cpu;         /* ANNOUNCE, START: the runtime's CPU; CLEAN: its CPU when it replied */
	uint32_t reason;     /* FAILED: enum err_reason */
	uint32_t op;         /* CHANGES: enum change_op */
	uint32_t plan_len;   /* START, LIMIT: bytes of the plan that follow this struct; 0 = it is in a memfd */
	struct plan_key key;
	union {
		char path[512]; /* FAILED: the path or object concerned; for STEP_LIMITS "field: why and what to do" */
		struct plan_key holder; /* LIMIT */
	};
};
#define SPAWN_INLINE_MAX (24u << 10)

/* Large enough for every message. */
struct spawn_msg_buffer {
	struct spawn_msg msg;
	_Alignas(uint64_t) char plan[SPAWN_INLINE_MAX];
};
_Static_assert(offsetof(struct spawn_msg_buffer, plan) == sizeof(struct spawn_msg), "the plan follows the message");

/*
 * Descriptors of a GRANT: the client's socket, the directories (NUL-terminated, in a sealed memfd), and one that is
 * closed once they are recorded.
 */
enum grant_fd { GRANT_FD_CLIENT, GRANT_FD_PATHS, GRANT_FD_DONE, GRANT_FDS };
#define GRANT_BYTES_MAX (256u << 10)
int grant_read(int fd, struct buf *out, struct err *e);

/* Checks a message of the runtime: its size including the plan, its kind, flags, number of descriptors and key. */
int spawn_msg_check(const void *message, size_t len, size_t nfds, struct err *e);

#endif
