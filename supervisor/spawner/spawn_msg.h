#ifndef BAILIFF_SUPERVISOR_SPAWN_MSG_H
#define BAILIFF_SUPERVISOR_SPAWN_MSG_H

/*
 * Messages between runtime and spawner (SOCK_SEQPACKET, fixed structs with descriptors). The spawner keeps no state
 * about processes: after it answered, a sandbox is the guard's and the runtime's.
 *
 * START's descriptors, in this order: plan (sealed memfd), the client's socket (for SO_PEERCRED and SO_PEERGROUPS), status,
 * gate (read end), stdout, then stderr unless PLAN_STDERR_MERGE, then stdin (read end) if PLAN_STDIN_PIPE. With PLAN_TTY
 * nothing comes after the gate: the init opens the terminal and sends its master with READY.
 * The spawner checks the plan, clones the init, deposits its pidfd with the guard and answers STARTED with a copy of the
 * pidfd; or FAILED with the step and errno, and nothing exists then. What fails later comes over the status socket.
 */

#include "sandbox/plan.h"

#include <stddef.h>
#include <stdint.h>

struct err;

enum spawn_kind {
	SPAWN_START = 1,    /* runtime → spawner */
	SPAWN_SYNC = 2,     /* → SYNCED: everything sent before on any link is done */
	SPAWN_CLEAN = 3,    /* key: remove the cgroup of a released process; no answer */
	SPAWN_MARK = 4,     /* token: put it behind the audit records that exist now; it comes among them */
	SPAWN_CHANGES = 5,  /* key, op → CHANGED; descriptors: paths (memfd), result (memfd), and the client's socket if op needs one */
	SPAWN_STARTED = 16, /* pid, start_time, layers + pidfd */
	SPAWN_FAILED = 17,  /* step, error, path */
	SPAWN_SYNCED = 18,
	SPAWN_CHANGED = 19, /* key, error: the result is written, or why there is none */
};

struct spawn_msg {
	uint32_t kind;
	uint32_t flags;      /* START: must equal the plan's */
	int32_t pid;
	int32_t error;
	uint32_t step;       /* enum sandbox_step */
	uint32_t layers;     /* STARTED: enum plan_layer that the clone itself gave */
	uint64_t start_time; /* STARTED: of the init, field 22 of /proc/PID/stat */
	uint64_t token;      /* MARK */
	uint32_t op;         /* CHANGES: enum changes_op */
	uint32_t reserved;
	struct plan_key key;
	char path[128];
};

/* How many descriptors a START with these flags brings. */
size_t spawn_msg_start_fds(uint32_t flags);
/* What the runtime may send: the size, a kind that is permitted, known flags, its number of descriptors, a proper key. */
int spawn_msg_check(const void *message, size_t len, size_t nfds, struct err *e);

#endif
