#ifndef BAILIFF_SUPERVISOR_SPAWNER_NET_STATE_H
#define BAILIFF_SUPERVISOR_SPAWNER_NET_STATE_H

/*
 * What the kernel reports about the use of a network namespace: sockets, and counters of packets, protocols and flow
 * labels. Two equal reports of one namespace, or those of two new ones, mean that nothing happened in between.
 */

#include <stdbool.h>

struct buf;

#define NET_STATE_FILES 6

struct net_state {
	int fd[NET_STATE_FILES]; /* they keep the namespace alive */
};

#define NET_STATE_INIT                           \
	(struct net_state)                       \
	{                                        \
		.fd = { -1, -1, -1, -1, -1, -1 } \
	}

/* Opens the files of the caller's namespace. false = the kernel does not report all. */
bool net_state_open(struct net_state *ret);
void net_state_close(struct net_state *s);
/* Replaces `out` with the report. false = a file cannot be read. */
bool net_state_read(const struct net_state *s, struct buf *out);
/* Whether as many sockets exist as a report says. */
bool net_state_has_same_sockets(const struct net_state *s, const struct buf *report);
/* Whether a report says that no socket exists. */
bool net_state_has_no_socket(const struct buf *report);

#endif
