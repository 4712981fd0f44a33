#ifndef BAILIFF_SUPERVISOR_HOST_PEER_FILES_LINK_H
#define BAILIFF_SUPERVISOR_HOST_PEER_FILES_LINK_H

/*
 * The runtime's side of peer_files.h: one request and its replies, one by one. A request that only reads is sent again
 * when the spawner or its helper dies; replies from before then come again.
 *
 * The helper runs as the peer, so everything in a reply is the peer's claim: `found` must check sizes, seals and paths
 * before it uses them. A helper that is stuck in a network file system costs a timeout, not a blocked runtime.
 */

#include "supervisor/spawner/peer_files.h"

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct peer_files_link;
struct spawn_link;

struct peer_files_link_events {
	/* The callee takes descriptors that it keeps (sets them to −1). The file's is the last, if error is 0. */
	void (*found)(void *ctx, const struct peer_files_reply *a, int *fds, size_t nfds);
	/* The end; e == NULL: all replies have arrived. */
	void (*over)(void *ctx, const struct err *e);
};

/*
 * NULL with errno: nothing was sent. Otherwise `over` is called exactly once, from the loop, and the link is freed
 * before it. Until then peer_files_link_free cancels the request without a callback.
 */
struct peer_files_link *peer_files_link_new(struct event_base *base, struct spawn_link *spawner,
					    enum peer_files_op what, const void *request, size_t len, int peer_fd,
					    const struct peer_files_link_events *on, void *ctx);
void peer_files_link_free(struct peer_files_link *l);

#endif
