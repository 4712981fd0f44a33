#ifndef BAILIFF_SUPERVISOR_SPAWNER_MEMBER_MSG_H
#define BAILIFF_SUPERVISOR_SPAWNER_MEMBER_MSG_H

/*
 * The link from the runtime to the init of a holder (SOCK_SEQPACKET), on which members are started and killed. It takes
 * the place of the holder's stdin: the guard keeps a copy of the runtime's end (GUARD_SLOT_STDIN), where a restarted
 * runtime finds it. Nothing is sent back: a member reports over its own status socket, like the command of a single-use
 * sandbox.
 *
 * A process that has the link can run commands with the rights of the sandbox, not more: the spawner checked those
 * rights when it built the sandbox, and the init rejects a plan for another sandbox (plan_fits_holder).
 */

#include "sandbox/plan.h"
#include "supervisor/spawner/spawn_msg.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum member_kind {
	MEMBER_START = 1, /* key, plan, descriptors: enum member_fd */
	MEMBER_KILL = 2,  /* key: kill the member's leader and its whole tree; its status socket reports the end */
};

enum member_fd {
	MEMBER_FD_PLAN, /* a sealed memfd, if the plan is not in the message */
	MEMBER_FD_STATUS,
	MEMBER_FD_GATE, /* read end */
	MEMBER_FD_OUT,  /* not with PLAN_TTY, like the next two */
	MEMBER_FD_ERR,
	MEMBER_FD_IN,
	MEMBER_FD_LIMITS, /* a member with limits of its own: a socket to the spawner (member_limits.h) */
	MEMBER_FDS
};

struct member_msg {
	uint32_t kind;
	uint32_t fds;      /* START: bits 1u << enum member_fd: those that come with it, in this order */
	uint32_t plan_len; /* START */
	uint32_t reserved;
	struct plan_key key;
};

struct member_msg_buffer {
	struct member_msg msg;
	_Alignas(uint64_t) char plan[SPAWN_INLINE_MAX];
};
_Static_assert(offsetof(struct member_msg_buffer, plan) == sizeof(struct member_msg), "no padding is sent");

/* Absent `fds` are −1; `plan` is NULL if it is in MEMBER_FD_PLAN. −1 with errno; EAGAIN: the socket is full. */
int member_msg_send_start(int link, const struct plan_key *key, const void *plan, size_t plan_len,
			  const int fds[MEMBER_FDS]);
int member_msg_send_kill(int link, const struct plan_key *key);

/*
 * `flags` are those of recv(2). 1 = a message, with its descriptors in `fds` (−1 = absent); *ret_plan is NULL or a plan
 * of plan_len bytes, in the buffer or mapped, not checked yet. 0 = nothing now, or an invalid message was discarded. −1
 * = the link is closed (errno 0), or it failed.
 */
int member_msg_receive(int link, int flags, struct member_msg_buffer *buffer, int fds[MEMBER_FDS],
		       const void **ret_plan);
/* Which of the descriptors that this plan needs is missing, or NULL. */
const char *member_msg_missing(const struct plan_head *plan, const int fds[MEMBER_FDS]);

#endif
