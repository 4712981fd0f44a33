#ifndef BAILIFF_CONTROL_PEER_H
#define BAILIFF_CONTROL_PEER_H

/*
 * The identity of a unix socket's peer, as recorded by the kernel at connect().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct peer {
	uint32_t uid, gid;
	int32_t pid; /* in the daemon's pid namespace; 0 if it is in one that is not below */
};

int peer_read(int fd, struct peer *ret, struct err *e);
/* The peer's primary group, then its supplementary groups; returns how many. Those that cannot be read do not count. */
#define PEER_GROUPS_MAX 1024
size_t peer_groups(int fd, uint32_t gid, uint32_t ret[PEER_GROUPS_MAX]);

/*
 * Rejects (ERR_NOT_ALLOWED) a peer inside a sandbox of any daemon: one in a pid namespace below the daemon's whose pid
 * 1, or that of a namespace in between, has the name of bailiff's inits (sandbox/init_name.h). Clients in other
 * containers pass. A peer that cannot be located is rejected too: it has exited, is not visible in /proc, or is in a
 * pid namespace outside the daemon's.
 */
int peer_check(int fd, const struct peer *p, struct err *e);

/* Reads /proc/PID/status; −1 if that fails. */
struct peer_status {
	int32_t parent;
	unsigned namespaces; /* pid namespaces in which it has a number: the daemon's and those below */
	int32_t innermost;   /* its number in the last of them */
	bool init_name;      /* it has the name of a sandbox's init */
	bool ended;          /* a zombie */
};
int peer_status(int32_t pid, struct peer_status *ret);
int peer_status_parse(const char *text, struct peer_status *ret);

#endif
