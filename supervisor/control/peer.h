#ifndef BAILIFF_CONTROL_PEER_H
#define BAILIFF_CONTROL_PEER_H

/* Who is at the other end of a unix socket, as the kernel knows it from the moment of connect(). */

#include <stdbool.h>
#include <stdint.h>

struct err;

struct peer {
	uint32_t uid, gid;
	int32_t pid; /* our numbering; 0 when it lives in a pid namespace that is not below ours */
};

int peer_read(int fd, struct peer *ret, struct err *e);

/*
 * Refuses (ERR_NOT_ALLOWED) a peer inside one of our sandboxes: one that has more pid namespaces than we do and whose
 * line of parents leads to a process that is_init knows. Clients in foreign containers pass. A peer that is already
 * gone, or that /proc does not show, is refused too: who was it?
 */
int peer_check(int fd, const struct peer *p, bool (*is_init)(void *ctx, int32_t pid), void *ctx, struct err *e);

/* What /proc/PID/status says; −1 if it cannot be read. */
struct peer_status { int32_t parent; unsigned namespaces; };
int peer_status(int32_t pid, struct peer_status *ret);
int peer_status_parse(const char *text, struct peer_status *ret);

#endif
