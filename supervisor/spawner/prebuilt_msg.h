#ifndef BAILIFF_SUPERVISOR_SPAWNER_PREBUILT_MSG_H
#define BAILIFF_SUPERVISOR_SPAWNER_PREBUILT_MSG_H

/*
 * The messages between the spawner and a prebuilt sandbox (prebuilt.h). The spawner sends one when there is a command:
 * the identity, the plan, and the descriptors that another init has from its start. The spawner has checked the plan,
 * and it cannot have changed since: it is in the message, or, if it is long, in a sealed memfd that comes with it. A
 * dedicated sandbox first reports once that it is complete, and its fingerprint (struct prebuilt_ready_msg); one that
 * is kept reports after each command that nothing is left of it.
 */

#include "sandbox/host_fingerprint.h"
#include "sandbox/tree_files.h"
#include "supervisor/spawner/spawn_msg.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct init;

#define PREBUILT_MSG_GROUPS_MAX 128 /* a peer with more never gets a prebuilt sandbox */

enum prebuilt_msg_fd {
	PREBUILT_MSG_PLAN, /* of a plan that is not in the message */
	PREBUILT_MSG_STATUS,
	PREBUILT_MSG_GATE,
	PREBUILT_MSG_OUT,
	PREBUILT_MSG_ERR,
	PREBUILT_MSG_IN,
	PREBUILT_MSG_IDMAP,
	PREBUILT_MSG_PLACEHOLDER,
	PREBUILT_MSG_COW,  /* the run's folder */
	PREBUILT_MSG_LEAF, /* of v1, to be entered: enum tree_limit */
	PREBUILT_MSG_FDS = PREBUILT_MSG_LEAF + TREE_LIMITS
};

struct prebuilt_msg {
	uid_t uid;
	gid_t gid;
	uid_t peer_uid;
	gid_t peer_gid;
	uint32_t plan_len;
	uint32_t fds;  /* bits 1u << enum prebuilt_msg_fd: those that come with it, in this order */
	uint32_t keep; /* bool: for a dedicated one: the init waits for another command afterwards */
	uint32_t ngroups;
	gid_t groups[PREBUILT_MSG_GROUPS_MAX];
	char cow_name[PLAN_KEY_MAX]; /* of that folder, in that of all of them */
};

#define PREBUILT_MSG_INLINE_MAX SPAWN_INLINE_MAX
/* A whole message. */
struct prebuilt_msg_buffer {
	struct prebuilt_msg msg;
	_Alignas(uint64_t) char plan[PREBUILT_MSG_INLINE_MAX];
};

/* Sent by a dedicated sandbox that is complete; the fingerprint only with the entries that it has. */
struct prebuilt_ready_msg {
	uint32_t layers;
	uint32_t reserved;
	struct host_fingerprint fingerprint;
};

/*
 * −1 in `fds` is none. The plan goes into the message if PREBUILT_MSG_PLAN is none; the caller fills buffer->msg except
 * plan_len and fds. −1 with errno: the sandbox is gone.
 */
int prebuilt_msg_send(int link, struct prebuilt_msg_buffer *room, const void *plan, size_t plan_len,
		      const int fds[PREBUILT_MSG_FDS]);
/* 1 = received, 0 = nothing yet, −1 = it is dead or sent something invalid. */
int prebuilt_msg_receive_ready(int link, struct prebuilt_ready_msg *ret);

/* The same for one that is kept: nothing of its last command is left. */
int prebuilt_msg_receive_empty(int link);

/* In the init. */
int prebuilt_msg_send_ready(const struct init *in);
int prebuilt_msg_send_empty(const struct init *in);

/* In the init, on steps.prebuilt_fd: 0 = the message is in `in`, −1 = none will come. Does not allocate. */
int prebuilt_msg_wait(struct init *in);
/* The same for an init that has failed: no message can be sent any longer, but one may already be queued. */
int prebuilt_msg_receive_last(struct init *in);

#endif
