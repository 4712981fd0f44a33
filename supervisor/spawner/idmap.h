#ifndef BAILIFF_SUPERVISOR_IDMAP_H
#define BAILIFF_SUPERVISOR_IDMAP_H

/*
 * A confined command never runs as root. For a root peer it runs with an id from a range reserved for this, and the
 * peer's own files (write roots, toolchains) are mounted with root's ids and that id *swapped*: files that the command
 * creates belong to root outside, and it has no rights to any other file of root's. On file systems that cannot map
 * ids, the same id is a name for root's uid inside a user namespace (sandbox/steps/public_view.c).
 *
 * The swap is a user namespace that exists only as a descriptor. It is created when its id is first used and then kept,
 * because creating one costs a fork. The first free id is taken, so consecutive commands reuse one. The search starts
 * at a random id: the kernel counts processes and other resources per user, and another daemon on this machine, or the
 * previous spawner, may have running commands, too.
 */

#include "sandbox/plan.h"

#include <stdbool.h>
#include <sys/types.h>

struct err;

#define IDMAP_FIRST 64700u
#define IDMAP_COUNT 256u
#define IDMAP_DEVICES 32u

struct idmap {
	uid_t avoid;         /* the runtime's uid */
	unsigned from;       /* where the search for a free id starts */
	unsigned turn;       /* when all are taken, they are shared round-robin */
	int fd[IDMAP_COUNT]; /* −1 = not created yet */
	bool taken[IDMAP_COUNT];
	struct plan_key by[IDMAP_COUNT];
	dev_t device[IDMAP_DEVICES]; /* file systems already probed … */
	bool mapped[IDMAP_DEVICES];  /* … and whether ids can be mapped on them */
	size_t ndevices;
};

void idmap_init(struct idmap *m, uid_t avoid);
void idmap_done(struct idmap *m);
/*
 * Returns an id (for uid and gid) and its descriptor, which the map keeps; ret_fd NULL = not wanted. The id stays
 * assigned to the key until idmap_release.
 */
int idmap_take(struct idmap *m, const struct plan_key *key, uid_t *ret_id, int *ret_fd, struct err *e);
/* Whether the path can be mounted with mapped ids. overlayfs does not support that, nor tmpfs before Linux 6.3. */
bool idmap_can_map(struct idmap *m, const char *path, int userns);
/* Call when the host's mounts change: device numbers may have been reused. */
void idmap_forget_devices(struct idmap *m);
/* Transfers an id from one key to another. */
void idmap_pass_on(struct idmap *m, const struct plan_key *from, const struct plan_key *to);
void idmap_release(struct idmap *m, const struct plan_key *key);

#endif
