#ifndef BAILIFF_SUPERVISOR_ZYGOTE_H
#define BAILIFF_SUPERVISOR_ZYGOTE_H

/*
 * Sandboxes built ahead. A zygote is the init of a sandbox that waits for a command, and is used once. There are two
 * sorts.
 *
 * *By shape*: it went through the steps of STEP_AHEAD. Namespaces, cgroup, root, /dev, /proc and private /tmp are
 * there; nothing of a peer's is. What depends on the peer, the workspace or the command (what is bound, hidden and
 * protected; ids, capabilities, Landlock, the filter) is done after the order came, exactly as without zygotes, so none
 * of it can be out of date.
 *
 * *Fitted* to one peer and one plan (fitting.h): all steps of the init's are done, and an order brings only what is to
 * be executed, where, with which environment and descriptors. For each such zygote the spawner knows what of the host's
 * it was made from, and looks at all of that again before it uses it (sandbox/sight.h): when the start comes, or a
 * moment before, when the runtime has a request but not yet judged it; never before the request. They are made for
 * plans that came more than once lately: somebody runs one command after the other in a workspace.
 *
 * In both, the host's top level was bound when the zygote was built. Zygotes are thrown away when the host's table of
 * mounts changes (the kernel tells), when "/" was written to, and, where it matters, when the resolver's file is
 * another one, or those of accounts, of which a fitted one may have a copy.
 *
 * An unused zygote is no process of the log and not in the guard's hands, though it is the guard's child. It leaves
 * when the spawner or the guard does. They are made while the spawner has nothing else to do.
 *
 * The kernel takes a mount namespace down when its last user goes, and whoever that is has to wait. That is to be
 * neither the init of a command that has just ended, nor somebody who waits for it: the spawner holds the namespace
 * until there is time.
 */

#include "sandbox/plan.h"
#include "sandbox/sight.h"
#include "sandbox/steps.h"
#include "supervisor/spawner/fitting.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup_tree;
struct idmap;
struct order_fitted;
struct spawn_identity;
struct spawn_msg;

#define ZYGOTE_SHAPES 4 /* that are remembered */
#define ZYGOTE_FITTINGS 4
#define ZYGOTE_KINDS (ZYGOTE_SHAPES + ZYGOTE_FITTINGS)
#define ZYGOTE_SPARE_MAX 8 /* of one kind */
#define ZYGOTE_POLLS_MAX (ZYGOTE_FITTINGS * ZYGOTE_SPARE_MAX)
#define ZYGOTE_REMAINS_MAX 32

/* A file's outer marks: another file, or one that was changed, has others. */
struct zygote_mark {
	uint64_t dev, ino;
	int64_t changed_s, changed_ns;
};

/* What of the host's is in every zygote. */
struct zygote_sight {
	struct zygote_mark root, resolver, users, groups;
};

struct zygote {
	pid_t pid;
	int pidfd, link; /* the order goes to link; closing it is a farewell */
	uint64_t start_time;
	uint32_t layers;      /* that the clone gave */
	struct plan_key leaf; /* its cgroup's name */
	struct zygote_sight sight;
	int mounts; /* its mount namespace; −1 = not held */
	/* Of one that is fitted: */
	uid_t uid; /* of the command */
	gid_t gid;
	struct sight *made_from; /* NULL until it is complete */
};

struct zygote_kind {
	struct step_shape shape; /* if it is one of shape */
	struct fitting fit;      /* if it is one of those */
	uint64_t hint;           /* of the last start that wanted one */
	unsigned uses;
	uint64_t used_ns;  /* CLOCK_BOOTTIME; 0 = a free place */
	unsigned failures; /* in a row */
	struct zygote spare[ZYGOTE_SPARE_MAX];
	size_t count;
};

/* Under which name a running sandbox has its cgroup, and its mount namespace. */
struct zygote_leaf {
	struct plan_key key, leaf;
	int mounts;
};

struct zygotes {
	size_t wanted; /* of each kind; 0 = none are made */
	int mounts_fd; /* tells when the host's mounts change */
	bool privileged;
	struct cgroup_tree *cgroup;
	struct idmap *idmap;
	struct zygote_kind kinds[ZYGOTE_KINDS]; /* those of shape come first */
	struct order_fitted *room;
	int remains[ZYGOTE_REMAINS_MAX]; /* mount namespaces of commands that ended */
	size_t nremains;
	struct zygote_leaf *leaves;
	size_t nleaves, room_leaves;
	struct {
		uint64_t token; /* of the request that it was looked at for; 0 = none */
		uint64_t ns;    /* when */
		pid_t pid;      /* the zygote that was found to hold */
	} sure;
	char name[24]; /* of this spawner's leaves */
	unsigned serial;
};

void zygotes_init(struct zygotes *z, struct cgroup_tree *cgroup, struct idmap *idmap, bool privileged, size_t wanted);
void zygotes_done(struct zygotes *z);

/* One that fits, from now on the caller's; false = there is none. Remembers that such are in use. */
bool zygotes_take(struct zygotes *z, const struct step_shape *shape, struct zygote *ret);
bool zygotes_take_fitted(struct zygotes *z, const struct plan_head *plan, const struct spawn_identity *id,
			 const struct spawn_msg *start, struct zygote *ret);
/* Looks at the one that a start of this sort would take now, so that the start of this request need not. */
void zygotes_expect(struct zygotes *z, uint64_t hint, uint64_t token);
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
/* Throws away those whose shape nobody asked for in a long time; how many ms until there may be such, −1 = there are
 * none. */
int zygotes_tend(struct zygotes *z);

/* Where those say that they are complete who did not yet; how many of the ZYGOTE_POLLS_MAX. */
size_t zygotes_polls(const struct zygotes *z, int fds[ZYGOTE_POLLS_MAX]);
/* One of them did. */
void zygotes_on_told(struct zygotes *z, int fd);

/* A command runs in this one now; its mount namespace is held until the leaf is forgotten. */
void zygotes_name_leaf(struct zygotes *z, const struct plan_key *key, struct zygote *one);
/* The name of the command's leaf, which is forgotten: its own key if it was not built ahead. */
struct plan_key zygotes_forget_leaf(struct zygotes *z, const struct plan_key *key);

/* Whether there is something to take down; does that for one. */
bool zygotes_has_remains(const struct zygotes *z);
void zygotes_clear_remains(struct zygotes *z);

#endif
