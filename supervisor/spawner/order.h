#ifndef BAILIFF_SUPERVISOR_ORDER_H
#define BAILIFF_SUPERVISOR_ORDER_H

/*
 * What a sandbox that was built ahead (zygote.h) gets when there is a command for it: who it is for, its plan, and the
 * descriptors that another init has from birth. The plan was checked by the spawner and cannot have changed since: it lies in
 * a sealed memory file, and here is a descriptor of the same one.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct init;

#define ORDER_GROUPS_MAX 128 /* a peer with more gets a sandbox that was not built ahead */

enum order_fd {
	ORDER_PLAN,
	ORDER_STATUS,
	ORDER_GATE,
	ORDER_OUT,
	ORDER_ERR,
	ORDER_IN,
	ORDER_IDMAP,
	ORDER_KEEPER,
	ORDER_ATTACH,                     /* two of each: enum tree_limit */
	ORDER_EVENTS = ORDER_ATTACH + 2,
	ORDER_FDS = ORDER_EVENTS + 2
};

struct order {
	uid_t uid;
	gid_t gid;
	uid_t peer_uid;
	gid_t peer_gid;
	uint32_t plan_len;
	uint32_t fds;                     /* bits 1u << enum order_fd: those that come with it, in this order */
	uint32_t ngroups;
	gid_t groups[ORDER_GROUPS_MAX];
};

/* −1 in `fds` is none. −1 with errno: there is nobody any more. */
int order_send(int link, struct order *o, const int fds[ORDER_FDS]);

/* In the init, on steps.order_fd: 0 = it is in `in`, −1 = no order will come. Without malloc. */
int order_wait(struct init *in);
/* The same for an init that has failed: no order can be sent to it any more, but one may have been. */
int order_take_last(struct init *in);

#endif
