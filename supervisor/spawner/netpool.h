#ifndef BAILIFF_SUPERVISOR_NETPOOL_H
#define BAILIFF_SUPERVISOR_NETPOOL_H

/*
 * A pool of empty network namespaces. Creating one takes about as long as the rest of a sandbox's setup. Each is used
 * once. They are created while the spawner is idle, by the spawner itself, which leaves its own network namespace for
 * that moment. Their loopback interface is up.
 */

#include <stdbool.h>
#include <stddef.h>

#define NETPOOL_MAX 8

struct netpool {
	int home; /* the spawner's own network namespace; −1 = the pool is disabled */
	int fd[NETPOOL_MAX];
	size_t count;
	bool asked; /* none is created before the first request for one */
};

void netpool_init(struct netpool *p, bool privileged);
void netpool_done(struct netpool *p);
/* Returns a namespace's descriptor, owned by the caller, or −1 if the pool is empty. */
int netpool_take(struct netpool *p);
/* Whether the pool is not full: call netpool_fill when idle. */
bool netpool_wants(const struct netpool *p);
/* Creates one namespace. */
void netpool_fill(struct netpool *p);

#endif
