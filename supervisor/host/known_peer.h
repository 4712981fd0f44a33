#ifndef BAILIFF_SUPERVISOR_HOST_KNOWN_PEER_H
#define BAILIFF_SUPERVISOR_HOST_KNOWN_PEER_H

/*
 * One socket of each uid that has come: by it the spawner knows for whom it starts what nobody waits for at a
 * connection (jobs, tasks, turns). The guard has a copy. It is that of the latest client, once its groups are not those
 * of the one before: who was taken out of a group, or put into one, and has logged in again, is somebody else from then
 * on.
 *
 * Of root the connected ones are known too, and one of them is given while there is any: for root the spawner does more
 * for a client that is there than for one that was (supervisor/spawner/authority.c).
 */

#include "runtime/base/strmap.h"

#include <stdint.h>

struct guard_link;

struct known_peers {
	struct strmap by_name; /* "peer-<uid>" → its socket, as fd + 1 */
	struct guard_link *guard;
	int *present; /* copies of root's sockets, the oldest first; some may have hung up */
	size_t npresent;
};

void known_peers_init(struct known_peers *k, struct guard_link *guard);
void known_peers_done(struct known_peers *k);
/* A client has come. */
void known_peers_add(struct known_peers *k, uint32_t uid, int fd);
/* From the guard, under the name that it has there; takes the descriptor. */
void known_peers_restore(struct known_peers *k, const char *name, int fd);
int known_peers_find(struct known_peers *k, uint32_t uid); /* borrowed; −1 = none */

#endif
