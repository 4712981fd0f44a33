#ifndef BAILIFF_SUPERVISOR_GUARD_VAULT_H
#define BAILIFF_SUPERVISOR_GUARD_VAULT_H

/*
 * The guard's descriptor store: for each started process (key) the descriptors that must outlive the runtime and the
 * spawner. Allocated once. An entry is HELD until it is released; then DYING while its init is being killed; then GONE
 * until whoever asked was told so.
 */

#include "supervisor/guard/guard_msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum vault_state { VAULT_FREE, VAULT_HELD, VAULT_DYING, VAULT_GONE };

struct vault_entry {
	struct plan_key key;
	enum vault_state state;
	int32_t pid; /* of the init; 0 = not deposited */
	bool answer; /* RELEASED is owed */
	bool was_alive;
	int fd[GUARD_SLOT_COUNT];
};

struct vault {
	struct vault_entry *entries;
	uint32_t *hashes; /* of the keys, side by side: lookups touch little memory */
	size_t cap;
	size_t high; /* entries at and past this were never used */
	size_t ndying, ngone;
};

void vault_init(struct vault *v, size_t cap);
void vault_done(struct vault *v);

struct vault_entry *vault_find(const struct vault *v, const struct plan_key *key);
/* Finds or makes; NULL when full. */
struct vault_entry *vault_get(struct vault *v, const struct plan_key *key);
/* fds in slot order, as many as slots has bits; they are taken over. A slot that was filled is replaced. */
void vault_deposit(struct vault_entry *en, uint32_t slots, const int *fds, pid_t pid);
void vault_withdraw(struct vault_entry *en, uint32_t slots);
/* Fills fds in slot order and says which slots; how many: none of one that is not HELD. The descriptors stay the
 * vault's. */
size_t vault_list(const struct vault_entry *en, int fds[GUARD_SLOT_COUNT], uint32_t *ret_slots);

void vault_kill(const struct vault_entry *en);
/* Kills the init if it is alive; DYING, or GONE if there is nothing to wait for. */
void vault_release(struct vault *v, struct vault_entry *en);
/* DYING and its pidfd is readable: reaps, closes all; GONE. */
void vault_reap(struct vault *v, struct vault_entry *en);
void vault_forget(struct vault *v, struct vault_entry *en);

/* Ends the connections of the clients' sockets that are held. */
void vault_hang_up(struct vault *v);

/* The first HELD or DYING entry at or after index, or NULL. */
struct vault_entry *vault_next(const struct vault *v, size_t index);
bool vault_owns_pid(const struct vault *v, pid_t pid);

#endif
