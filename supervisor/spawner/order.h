#ifndef BAILIFF_SUPERVISOR_ORDER_H
#define BAILIFF_SUPERVISOR_ORDER_H

/*
 * What a sandbox that was built ahead (zygote.h) gets when there is a command for it: who it is for, its plan, and the
 * descriptors that another init has from birth. The plan was checked by the spawner and cannot have changed since: it
 * is in the message itself, or, if it is long, in a sealed memory file of which this brings a descriptor.
 *
 * One that was fitted to a plan says once, before it waits, what it was made from (struct order_fitted).
 */

#include "sandbox/sight.h"
#include "sandbox/tree_files.h"
#include "supervisor/spawner/spawn_msg.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct init;

#define ORDER_GROUPS_MAX 128 /* a peer with more gets a sandbox that was not built ahead */

enum order_fd {
	ORDER_PLAN, /* of a plan that is not in the message */
	ORDER_STATUS,
	ORDER_GATE,
	ORDER_OUT,
	ORDER_ERR,
	ORDER_IN,
	ORDER_IDMAP,
	ORDER_KEEPER,
	ORDER_COW,  /* the run's folder */
	ORDER_LEAF, /* of v1, to be entered: enum tree_limit */
	ORDER_FDS = ORDER_LEAF + TREE_LIMITS
};

struct order {
	uid_t uid;
	gid_t gid;
	uid_t peer_uid;
	gid_t peer_gid;
	uint32_t plan_len;
	uint32_t fds; /* bits 1u << enum order_fd: those that come with it, in this order */
	uint32_t ngroups;
	gid_t groups[ORDER_GROUPS_MAX];
	char cow_name[PLAN_KEY_MAX]; /* of that folder, in that of all of them */
};

#define ORDER_INLINE_MAX SPAWN_INLINE_MAX
/* A whole message. */
struct order_room {
	struct order order;
	_Alignas(uint64_t) char plan[ORDER_INLINE_MAX];
};

/* The sandbox's word that it is complete. Of the sight only the marks that there are. */
struct order_fitted {
	uint32_t layers;
	uint32_t reserved;
	struct sight sight;
};

/*
 * −1 in `fds` is none. The plan goes into the message if ORDER_PLAN is none; room->order is filled in but for its
 * plan_len and fds. −1 with errno: there is nobody any more.
 */
int order_send(int link, struct order_room *room, const void *plan, size_t plan_len, const int fds[ORDER_FDS]);
/* 1 = it is fitted, 0 = it is not done yet, −1 = it is dead or talks nonsense. */
int order_take_fitted(int link, struct order_fitted *ret);

/* In the init: what it was made from, and which layers are in force. */
int order_tell_fitted(const struct init *in);

/* In the init, on steps.order_fd: 0 = it is in `in`, −1 = no order will come. Without malloc. */
int order_wait(struct init *in);
/* The same for an init that has failed: no order can be sent to it any more, but one may have been. */
int order_take_last(struct init *in);

#endif
