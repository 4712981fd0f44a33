#ifndef BAILIFF_SUPERVISOR_SPAWNER_LEADER_H
#define BAILIFF_SUPERVISOR_SPAWNER_LEADER_H

/*
 * A leader runs members of a holder, one after another (holder.h). The holder forks it for its first member. If its
 * tree is gone afterwards, it is as good as a new one: it becomes idle and reads the next start from the link itself,
 * so a start neither wakes the holder nor takes a fork.
 *
 * Who reads the link: each idle leader waits for it, and one of them is woken (EPOLLEXCLUSIVE). The holder waits for it
 * through `link_watch`, an epoll instance that it shares with its leaders: the one that becomes idle first switches
 * that off, and the last one that stops being idle switches it on, which wakes the holder if a message is there. Which
 * leaders are idle is a set of bits in shared memory, changed by atomic operations, so that it is right at whatever
 * moment a leader is killed; the holder then removes the leader's bit and reads the link itself.
 *
 * The deposit: before it starts a command, a leader puts a copy of the member's status socket into a socket whose
 * reading end the holder has, too, and takes it back when it has reported the end. If the leader is killed, the holder
 * finds the copy there. A leader that is killed before the deposit has not started anything.
 *
 * Members have the leader's uid, but cannot trace it: they reach neither its memory nor its descriptors. They can kill
 * it, and change what inherited.h lists: it compares that before each member, and exits if it has changed.
 */

#include "supervisor/spawner/inherited.h"
#include "supervisor/spawner/member_msg.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LEADER_SLOTS 64 /* leaders that can become idle */

struct init;
struct plan_head;

struct leader_shared {
	_Atomic uint64_t idle;    /* bits 1 << slot */
	_Atomic uint64_t starts;  /* members that idle leaders have taken */
	_Atomic uint32_t leaders; /* set by the holder */
};

/* What a holder and its leaders have in common. */
struct leader_pool {
	struct init *in;
	const struct plan_head *plan; /* the holder's */
	struct member_msg_buffer *buffer;
	int signal_fd;
	int link;             /* −1 = closed: there are no more members */
	int link_watch;       /* readable while a message is in the link and no leader is idle */
	int forward[2];       /* messages of the link that an idle leader cannot use; the first is read by the holder */
	struct inherited own; /* what new leaders have; commands cannot change the holder's */
	struct leader_shared *shared;
};

/* What the holder gives to a new leader. */
struct leader {
	struct leader_pool *pool;
	int slot;       /* −1 = it exits with its member */
	int deposit[2]; /* the first is the reading end */
};

/* Takes the link. −1 with errno. */
int leader_pool_init(struct leader_pool *p, struct init *in, int *link);
/* The leader of this slot is not idle. Called by the leader, and by the holder once it is dead. */
void leader_pool_remove(struct leader_pool *p, int slot);
/* In the holder, if link_watch is readable: true if it has to read the link. */
bool leader_pool_is_for_holder(struct leader_pool *p);

/* Why a member cannot be started, or NULL. The plan may be NULL. */
const char *leader_pool_reject(const struct leader_pool *p, const struct plan_head *plan, const int fds[MEMBER_FDS]);
/* True if the leader of this member can be idle afterwards: a terminal and cgroups of its own stay with the leader. */
bool leader_pool_is_plain(const struct leader_pool *p, const struct plan_head *plan, const int fds[MEMBER_FDS]);

/* −1 with errno. */
int leader_deposit(const int deposit[2], const struct plan_key *key, int status_fd);
/* True if a status socket is there, with its member's key, or if that is not known (no key). */
bool leader_deposit_exists(int fd, struct plan_key *ret);
/* Takes the status socket; *ret_status_fd stays as it is if there is none. −1 = try again. */
int leader_deposit_take(int fd, int *ret_status_fd);

void leader_fail_member(int status_fd, int error, const char *what);
/*
 * Prepares a status socket whose last copies are closed next. If a request were left unread in it, the runtime's end
 * would report an error instead of the end of file, which libevent's EV_CLOSED does not see. So none may arrive, and
 * none is left.
 */
void leader_finish_status(int status_fd);

/* In the new process: runs the member, whose status socket is deposited, and then others. */
_Noreturn void leader_run(const struct leader *l, const struct plan_head *plan, int fds[MEMBER_FDS]);

#endif
