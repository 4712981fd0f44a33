#ifndef BAILIFF_SUPERVISOR_GUARD_FD_STORE_H
#define BAILIFF_SUPERVISOR_GUARD_FD_STORE_H

/*
 * The guard's descriptor store: for each started process (key) the descriptors that must outlive the runtime and the
 * spawner. Allocated once. An entry is HELD until it is released, then DYING while its init is being killed, then GONE
 * until the child that released it has been notified.
 *
 * An init stays a zombie while its entry is HELD, even if it is dead: its pid is not reused, so nothing that refers to
 * the pid can mean another process. Only the release reaps it.
 *
 * Lookups scan the array of hashes, 32 KiB at most. Unlike a hash table it needs no memory later, and entries stay
 * where they are: the hand-over to a new runtime refers to them by index.
 */

#include "supervisor/guard/guard_msg.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum fd_store_state { FD_STORE_FREE, FD_STORE_HELD, FD_STORE_DYING, FD_STORE_GONE };

struct fd_store_entry {
	struct plan_key key;
	enum fd_store_state state;
	int32_t pid; /* of the init; 0 = not deposited */
	bool answer; /* RELEASED is still to be sent */
	bool was_alive;
	bool killed; /* its init was sent SIGKILL: it cannot be kept, even if it is still there */
	int fd[GUARD_SLOT_COUNT];
};

struct fd_store {
	struct fd_store_entry *entries;
	uint32_t *hashes; /* of the keys, contiguous: lookups touch little memory */
	size_t cap;
	size_t high; /* entries at and past this were never used */
	size_t ndying, ngone;
	size_t nlimited; /* entries with a timer in GUARD_SLOT_LIMIT */
};

void fd_store_init(struct fd_store *v, size_t cap);
void fd_store_done(struct fd_store *v);

struct fd_store_entry *fd_store_find(const struct fd_store *v, const struct plan_key *key);
/* Finds or creates an entry; NULL if the store is full. */
struct fd_store_entry *fd_store_get(struct fd_store *v, const struct plan_key *key);
/* Takes ownership of fds, which are in slot order, one per bit of slots. Replaces slots that are already filled. */
void fd_store_deposit(struct fd_store *v, struct fd_store_entry *en, uint32_t slots, const int *fds, pid_t pid);
void fd_store_withdraw(struct fd_store *v, struct fd_store_entry *en, uint32_t slots);
/* Fills fds in slot order and returns how many; 0 if the entry is not HELD. The store keeps ownership. */
size_t fd_store_list(const struct fd_store_entry *en, int fds[GUARD_SLOT_COUNT], uint32_t *ret_slots);

void fd_store_kill(struct fd_store_entry *en);
/* Kills the init if it is alive. The entry becomes DYING, or GONE if there is nothing to wait for. */
void fd_store_release(struct fd_store *v, struct fd_store_entry *en, bool keep);
/* Call when the pidfd of a DYING entry is readable: reaps the init, closes everything; the entry becomes GONE. */
void fd_store_reap(struct fd_store *v, struct fd_store_entry *en);
void fd_store_forget(struct fd_store *v, struct fd_store_entry *en);

/*
 * What a poll has to wait for: pidfds of inits that are dying, and timers of those that may run for a limited time. At
 * most one for each entry. fd_store_handle_polls follows before any other change: it reaps the former and kills the
 * latter.
 */
size_t fd_store_fill_polls(const struct fd_store *v, struct pollfd *ret);
void fd_store_handle_polls(struct fd_store *v, const struct pollfd *polls);

/* Shuts down the clients' sockets in the store. */
void fd_store_disconnect_clients(struct fd_store *v);

/* The first HELD or DYING entry at or after index, or NULL. */
struct fd_store_entry *fd_store_next(const struct fd_store *v, size_t index);
bool fd_store_owns_pid(const struct fd_store *v, pid_t pid);

#endif
