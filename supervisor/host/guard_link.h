#ifndef BAILIFF_SUPERVISOR_HOST_GUARD_LINK_H
#define BAILIFF_SUPERVISOR_HOST_GUARD_LINK_H

/*
 * The runtime's side of its link to the guard (guard_msg.h). Sends block: the guard never waits for the runtime, so it
 * always reads them. If the guard dies, the end of the link ends this process.
 */

#include "supervisor/guard/guard_msg.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct event_base;

struct guard_link_events {
	void (*released)(void *ctx, const struct plan_key *key, bool was_alive);
	void (*peer)(void *ctx, enum guard_role role,
		     int fd); /* a new link to the spawner or the proxy; ownership passes */
	void (*stop)(void *ctx);
	/* Files by enum guard_file: a descriptor, −1 = does not exist, −2 = cannot be opened. Closed afterwards. They
	 * were opened after the request with this token, and after earlier ones. */
	void (*reload)(void *ctx, const int files[GUARD_FILES], uint32_t token);
	void (*fleet)(void *ctx, int32_t pid); /* the fleet's node was started; 0 = it has exited */
};

struct guard_link {
	int fd;
	uint32_t reload_token; /* of the last request */
	struct event *ev;
	const struct guard_link_events *on;
	void *ctx;
	struct event *later_ev;
	struct guard_later {
		struct plan_key key;
		enum guard_release how;
	} * later; /* to be released after pending replies are sent */
	size_t nlater, later_size;
};

void guard_link_init(struct guard_link *l, int fd, const struct guard_link_events *on, void *ctx);
void guard_link_listen(struct guard_link *l, struct event_base *base);
void guard_link_done(struct guard_link *l);

/* fds[i] belongs to slot i where bit i of `slots` is set. */
void guard_link_deposit(struct guard_link *l, const struct plan_key *key, uint32_t slots,
			const int fds[GUARD_SLOT_COUNT]);
/* The same for a member, which the guard may read later. */
void guard_link_deposit_member(struct guard_link *l, const struct plan_key *key, uint32_t slots,
			       const int fds[GUARD_SLOT_COUNT]);
void guard_link_withdraw(struct guard_link *l, const struct plan_key *key, uint32_t slots);
void guard_link_kill(struct guard_link *l, const struct plan_key *key);
void guard_link_release(struct guard_link *l, const struct plan_key *key);
/*
 * The same at the end of this turn of the loop: nothing waits for it, and waking the guard takes CPU time. A member has
 * neither an init to be reaped nor a cgroup to be removed, so its release waits for the next deposit and has no reply.
 */
void guard_link_release_later(struct guard_link *l, const struct plan_key *key, enum guard_release how);
void guard_link_ready(struct guard_link *l, uint64_t grace_ms); /* grace period of commands when the daemon stops */
/* The link to the spawner or the proxy is broken: the guard kills it, starts another, and sends a new link. */
void guard_link_want_restart(struct guard_link *l, enum guard_role role);
void guard_link_want_proxy(struct guard_link *l);
/* Returns the request's token. A RELOAD that was already on its way has an earlier one. */
uint32_t guard_link_want_reload(struct guard_link *l);

/* One entry of the hand-over, or no more (1). Only before guard_link_listen. */
struct guard_item {
	struct plan_key key;
	int32_t pid;
	int fds[GUARD_SLOT_COUNT]; /* −1 = none */
};
int guard_link_next(struct guard_link *l, uint32_t *index, struct guard_item *ret, struct err *e);
/* Handles one message, blocking: for waiting on the spawner before the loop runs. */
void guard_link_receive(struct guard_link *l);

#endif
