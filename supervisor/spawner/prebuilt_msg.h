#ifndef BAILIFF_SUPERVISOR_SPAWNER_PREBUILT_MSG_H
#define BAILIFF_SUPERVISOR_SPAWNER_PREBUILT_MSG_H

/*
 * What a sandbox that was built ahead (zygote.h) gets when there is a command for it: who it is for, its plan, and the
 * descriptors that another init has from birth. The plan was checked by the spawner and cannot have changed since: it
 * is in the message itself, or, if it is long, in a sealed memory file of which this brings a descriptor.
 *
 * One that was fitted to a plan says once, before it waits, what it was made from (struct prebuilt_ready_msg).
 */

#include "sandbox/host_fingerprint.h"
#include "sandbox/tree_files.h"
#include "supervisor/spawner/spawn_msg.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct init;

#define PREBUILT_MSG_GROUPS_MAX 128 /* a peer with more gets a sandbox that was not built ahead */

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
	uint32_t fds; /* bits 1u << enum prebuilt_msg_fd: those that come with it, in this order */
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

/* The sandbox's word that it is complete. Of the sight only the marks that there are. */
struct prebuilt_ready_msg {
	uint32_t layers;
	uint32_t reserved;
	struct host_fingerprint fingerprint;
};

/*
 * −1 in `fds` is none. The plan goes into the message if PREBUILT_MSG_PLAN is none; room->msg is filled in but for its
 * plan_len and fds. −1 with errno: there is nobody any more.
 */
int prebuilt_msg_send(int link, struct prebuilt_msg_buffer *room, const void *plan, size_t plan_len,
		      const int fds[PREBUILT_MSG_FDS]);
/* 1 = it is fitted, 0 = it is not done yet, −1 = it is dead or talks nonsense. */
int prebuilt_msg_receive_ready(int link, struct prebuilt_ready_msg *ret);

/* In the init: what it was made from, and which layers are in force. */
int prebuilt_msg_send_ready(const struct init *in);

/* In the init, on steps.prebuilt_fd: 0 = it is in `in`, −1 = no order will come. Without malloc. */
int prebuilt_msg_wait(struct init *in);
/* The same for an init that has failed: no order can be sent to it any more, but one may have been. */
int prebuilt_msg_receive_last(struct init *in);

#endif
