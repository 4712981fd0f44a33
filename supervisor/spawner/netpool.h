#ifndef BAILIFF_SUPERVISOR_NETPOOL_H
#define BAILIFF_SUPERVISOR_NETPOOL_H

/*
 * A pool of empty network namespaces. Creating one and tearing it down costs more CPU time than the rest of a sandbox's
 * setup. New ones are created while the spawner is idle, by the spawner itself, which leaves its own network namespace
 * for that moment. Their loopback interface is up.
 *
 * One that a command has used comes back if nothing happened in it: most commands never use the network. That is proven
 * after all of the command's processes have ended, by what the kernel reports about the namespace. There must be no
 * socket (a command can send one to a process outside, through a unix socket in its workspace), and every counter of
 * packets, protocols and flow labels must be what it is in a new namespace. Interfaces, routes, filters and sysctls
 * cannot have changed: no command has a capability over its network namespace. As no process is left that could act in
 * it, what was read stays true. It is then only used for commands of the same user again.
 */

#include "runtime/base/buf.h"
#include "supervisor/spawner/net_state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NETPOOL_MAX 8 /* that came back */
#define NETPOOL_NEW 2
#define NETPOOL_OPEN 12

/*
 * The files that report the use of one namespace, opened in it once: entering the namespace and opening them takes as
 * long as reading them. They keep the namespace alive.
 */
struct netpool_files {
	uint64_t id; /* inode of the namespace; 0 = none */
	struct net_state state;
};

struct netpool {
	int home; /* the spawner's own network namespace; −1 = the pool is disabled */
	int fd[NETPOOL_NEW];
	size_t count;
	struct {
		int fd;
		uid_t owner;
	} used[NETPOOL_MAX]; /* came back; the oldest first */
	size_t nused;
	bool asked;                              /* none is created before the first request for one */
	struct netpool_files open[NETPOOL_OPEN]; /* of the namespaces that were created last */
	size_t turn;
	struct buf fresh, seen; /* what the kernel reports about a new one; about the one that is checked */
};

void netpool_init(struct netpool *p, bool privileged);
void netpool_done(struct netpool *p);
/* Returns a namespace's descriptor for a command of this user, owned by the caller, or −1 if there is none. */
int netpool_take(struct netpool *p, uid_t owner);
/* Takes back, or closes, the namespace of a command of this user, all of whose processes must have ended. */
void netpool_give_back(struct netpool *p, int fd, uid_t owner);
/* Whether there are too few new ones: call netpool_fill when idle. */
bool netpool_is_short(const struct netpool *p);
/* Creates one namespace. */
void netpool_fill(struct netpool *p);

#endif
