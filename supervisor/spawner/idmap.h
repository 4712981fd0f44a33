#ifndef BAILIFF_SUPERVISOR_IDMAP_H
#define BAILIFF_SUPERVISOR_IDMAP_H

/*
 * A confined command never runs as root. For a root peer it runs as an id of its own from a range that nobody else
 * uses, and what is the peer's (write roots, its toolchains) is shown to it with root's ids and that id *swapped*:
 * files that it makes belong to root outside, and everything else of the host's is a stranger's to it. Where a file
 * system cannot do that, the same namespace gives root's uid that name (sandbox/steps/public_view.c).
 *
 * The swap is a user namespace that exists only as a descriptor. One is made when an id is used for the first time and
 * kept: making one costs a fork. The first free id is taken, so that commands one after the other share one. From which
 * one is left to chance: the kernel counts processes and more by user, and another daemon on this machine, or the
 * spawner before us, has commands too.
 */

#include "sandbox/plan.h"

#include <stdbool.h>
#include <sys/types.h>

struct err;

#define IDMAP_FIRST 64700u
#define IDMAP_COUNT 256u
#define IDMAP_DEVICES 32u

struct idmap {
	uid_t avoid;         /* the runtime's */
	unsigned from;       /* where looking for a free one begins */
	unsigned turn;       /* when all are taken, they are shared in turn */
	int fd[IDMAP_COUNT]; /* −1 = not made yet */
	bool taken[IDMAP_COUNT];
	struct plan_key by[IDMAP_COUNT];
	dev_t device[IDMAP_DEVICES]; /* file systems of which it is known whether … */
	bool mapped[IDMAP_DEVICES];  /* … ids can be mapped on them */
	size_t ndevices;
};

void idmap_init(struct idmap *m, uid_t avoid);
void idmap_done(struct idmap *m);
/* An id (for uid and gid) and its descriptor, which stays the map's; NULL = none is needed. The id is the key's until
 * idmap_release. */
int idmap_take(struct idmap *m, const struct plan_key *key, uid_t *ret_id, int *ret_fd, struct err *e);
/* Whether what is at the path can be mounted with ids mapped. overlayfs cannot, nor tmpfs before 6.3. */
bool idmap_can_map(struct idmap *m, const char *path, int userns);
/* The host's mounts have changed: numbers of devices may mean others. */
void idmap_forget_devices(struct idmap *m);
/* What was taken for one is another's now. */
void idmap_pass_on(struct idmap *m, const struct plan_key *from, const struct plan_key *to);
void idmap_release(struct idmap *m, const struct plan_key *key);

#endif
