#ifndef BAILIFF_SUPERVISOR_HOST_PEER_FILES_LINK_H
#define BAILIFF_SUPERVISOR_HOST_PEER_FILES_LINK_H

/*
 * The runtime's side of look.h: a request, and its answers one by one. A look (but nothing that writes) is asked for
 * again when whoever was asked is gone: answers that came before then come again.
 */

#include "supervisor/spawner/peer_files.h"

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct peer_files_link;
struct spawn_link;

struct peer_files_link_events {
	/* Descriptors that are kept are to be taken (set to −1). The text's is the last, if error is 0. */
	void (*found)(void *ctx, const struct peer_files_reply *a, int *fds, size_t nfds);
	/* The last word; e == NULL: all of it was told. */
	void (*over)(void *ctx, const struct err *e);
};

/* NULL, with errno: nothing was sent. Otherwise `over` comes, once and later; before it, peer_files_link_free ends it
 * without a word. */
struct peer_files_link *peer_files_link_new(struct event_base *base, struct spawn_link *spawner,
					    enum peer_files_op what, const void *request, size_t len, int peer_fd,
					    const struct peer_files_link_events *on, void *ctx);
void peer_files_link_free(struct peer_files_link *l);

#endif
