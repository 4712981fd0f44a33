#ifndef BAILIFF_SUPERVISOR_HOST_KNOWN_PEER_H
#define BAILIFF_SUPERVISOR_HOST_KNOWN_PEER_H

/*
 * One socket for each uid that has connected. It identifies the peer to the spawner for work that no connection waits
 * for (jobs, tasks, turns). The guard keeps a copy. It is replaced by the latest client's when the groups differ: after
 * a change of groups and a new login the uid has another identity.
 *
 * For root the connected sockets are kept too and preferred: the spawner does more for a root client that is connected
 * than for one that was (supervisor/spawner/authority.c).
 */

#include "runtime/base/strmap.h"

#include <stdint.h>

struct guard_link;

struct known_peers {
	struct strmap by_name; /* "peer-<uid>" → its socket, as fd + 1 */
	struct guard_link *guard;
	int *present; /* copies of root's sockets, the oldest first; some may be disconnected */
	size_t npresent;
};

void known_peers_init(struct known_peers *k, struct guard_link *guard);
void known_peers_done(struct known_peers *k);
/* A client has connected. */
void known_peers_add(struct known_peers *k, uint32_t uid, int fd);
/* From the guard, under its name there; takes the descriptor. */
void known_peers_restore(struct known_peers *k, const char *name, int fd);
int known_peers_find(struct known_peers *k, uint32_t uid); /* borrowed; −1 = none */

#endif
