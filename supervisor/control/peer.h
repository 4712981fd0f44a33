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
 * Refuses (ERR_NOT_ALLOWED) a peer inside a sandbox, whichever daemon started it: one that lives in a pid namespace
 * below ours whose pid 1, or that of a namespace in between, bears the name of an init of bailiff's
 * (sandbox/init_name.h). Clients in foreign containers pass. A peer whose place cannot be determined is refused too:
 * one that is gone, that /proc does not show, or that is in a pid namespace outside of ours.
 */
int peer_check(int fd, const struct peer *p, struct err *e);

/* What /proc/PID/status says; −1 if it cannot be read. */
struct peer_status {
	int32_t parent;
	unsigned namespaces; /* pid namespaces that it has a number in, as far as they are below ours, and ours */
	int32_t innermost;   /* its number in the last of them */
	bool init_name;      /* it is called as the inits of sandboxes are */
};
int peer_status(int32_t pid, struct peer_status *ret);
int peer_status_parse(const char *text, struct peer_status *ret);

#endif
