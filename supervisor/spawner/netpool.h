#ifndef BAILIFF_SUPERVISOR_NETPOOL_H
#define BAILIFF_SUPERVISOR_NETPOOL_H

/*
 * Empty network namespaces, made ahead: to make one takes about as long as everything else in a sandbox's set-up
 * together. Each is used once. They are made while the spawner has nothing else to do, in the spawner itself, which
 * steps out of its own network namespace for that moment; loopback is up in them.
 */

#include <stdbool.h>
#include <stddef.h>

#define NETPOOL_MAX 8

struct netpool {
	int home; /* our own network namespace; −1 = nothing is made ahead */
	int fd[NETPOOL_MAX];
	size_t count;
	bool asked; /* nothing is made before somebody has use for it */
};

void netpool_init(struct netpool *p, bool privileged);
void netpool_done(struct netpool *p);
/* A namespace's descriptor, from now on the caller's; −1 = there is none at the moment. */
int netpool_take(struct netpool *p);
/* Something is missing: worth calling netpool_fill when there is time. */
bool netpool_wants(const struct netpool *p);
/* Makes one. */
void netpool_fill(struct netpool *p);

#endif
