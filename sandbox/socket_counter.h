#ifndef BAILIFF_SANDBOX_SOCKET_COUNTER_H
#define BAILIFF_SANDBOX_SOCKET_COUNTER_H

/*
 * How many internet sockets processes in a cgroup, or below it, have created so far. A small BPF program counts them;
 * it decides nothing. While the count is the same and no socket exists, no packet was sent in the network namespaces of
 * these processes, so that their many counters need not be read (supervisor/spawner/leftovers.h): printing those takes
 * the kernel longer than any other check of a sandbox.
 *
 * Requires CAP_BPF, CAP_NET_ADMIN and Linux 5.16: before that, the program is not called for any socket once a
 * controller of cgroup v1 labels sockets (net_cls, net_prio).
 */

#include <stdbool.h>
#include <stdint.h>

struct socket_counter {
	int link;                       /* the program's attachment, which ends when it is closed; −1 = none */
	const volatile uint64_t *count; /* NULL = not available. Forked processes share it */
};

/* `cgroup`: directory of cgroup v2. Without the privilege or the kernel's support, nothing is counted. */
void socket_counter_open(struct socket_counter *c, int cgroup);
void socket_counter_close(struct socket_counter *c);

/* Whether it counts the sockets of this process. */
bool socket_counter_works(const volatile uint64_t *count);

#endif
