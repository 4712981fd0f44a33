#ifndef BAILIFF_SUPERVISOR_ZYGOTE_H
#define BAILIFF_SUPERVISOR_ZYGOTE_H

/*
 * Sandboxes built ahead. A zygote is the init of a sandbox that went through the steps of STEP_AHEAD and waits for a command:
 * namespaces, cgroup, root, /dev, /proc and private /tmp are there; nothing of a peer's is. It is used once. Everything
 * that depends on the peer, the workspace or the command (what is bound, hidden and protected; ids, capabilities,
 * Landlock, the filter) is done after the order came, exactly as without zygotes, so none of it can be out of date.
 *
 * What can be is the host's top level, which was bound when the zygote was built. Zygotes are thrown away when the host's table of
 * mounts changes (the kernel tells), when "/" was written to, and, where it matters, when the resolver's file is another one.
 *
 * An unused zygote is no process of the log and not in the guard's hands, though it is the guard's child. It leaves when the
 * spawner or the guard does. They are made while the spawner has nothing else to do, of the shapes that were asked for lately.
 */

#include "sandbox/plan.h"
#include "sandbox/steps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup_tree;

#define ZYGOTE_KINDS 4     /* shapes that are remembered */
#define ZYGOTE_SPARE_MAX 8 /* of one shape */

/* A file's outer marks: another file, or one that was changed, has others. */
struct zygote_mark {
	uint64_t dev, ino;
	int64_t changed_s, changed_ns;
};

/* What of the host's is in every zygote. */
struct zygote_sight {
	struct zygote_mark root, resolver;
};

struct zygote {
	pid_t pid;
	int pidfd, link;         /* the order goes to link; closing it is a farewell */
	uint64_t start_time;
	uint32_t layers;         /* that the clone gave */
	struct plan_key leaf;    /* its cgroup's name */
	struct zygote_sight sight;
};

struct zygote_kind {
	struct step_shape shape;
	uint64_t used_ns;        /* CLOCK_BOOTTIME; 0 = a free place */
	unsigned failures;       /* in a row */
	struct zygote spare[ZYGOTE_SPARE_MAX];
	size_t count;
};

/* Under which name a running sandbox has its cgroup. */
struct zygote_leaf {
	struct plan_key key, leaf;
};

struct zygotes {
	size_t wanted;           /* of each shape; 0 = none are made */
	int mounts_fd;           /* tells when the host's mounts change */
	struct cgroup_tree *cgroup;
	struct zygote_kind kinds[ZYGOTE_KINDS];
	struct zygote_leaf *leaves;
	size_t nleaves, room;
	char name[24];           /* of this spawner's leaves */
	unsigned serial;
};

void zygotes_init(struct zygotes *z, struct cgroup_tree *cgroup, size_t wanted);
void zygotes_done(struct zygotes *z);

/* One that fits, from now on the caller's; false = there is none. Remembers that the shape is in use. */
bool zygotes_take(struct zygotes *z, const struct step_shape *shape, struct zygote *ret);
/* It was dead when it was needed. */
void zygotes_failed(struct zygotes *z, const struct step_shape *shape);
void zygote_free(struct zygotes *z, struct zygote *one); /* ends it */

/* The kind of which one is missing, or NULL. */
struct zygote_kind *zygotes_wants(struct zygotes *z);
/* A zygote to be filled in: its leaf's name and what was seen of the host before. */
void zygotes_begin(struct zygotes *z, struct zygote *ret);
void zygotes_add(struct zygote_kind *k, const struct zygote *one);
/* The host's mounts have changed: none is of use any more. */
void zygotes_drop(struct zygotes *z);
/* Throws away those whose shape nobody asked for in a long time; how many ms until there may be such, −1 = there are none. */
int zygotes_tend(struct zygotes *z);

/* A command runs in this leaf now. */
void zygotes_name_leaf(struct zygotes *z, const struct plan_key *key, const struct plan_key *leaf);
/* The name of the command's leaf, which is forgotten: its own key if it was not built ahead. */
struct plan_key zygotes_forget_leaf(struct zygotes *z, const struct plan_key *key);

#endif
