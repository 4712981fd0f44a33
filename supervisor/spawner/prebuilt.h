#ifndef BAILIFF_SUPERVISOR_SPAWNER_PREBUILT_H
#define BAILIFF_SUPERVISOR_SPAWNER_PREBUILT_H

/*
 * Sandboxes built ahead. A zygote is the init of a sandbox that waits for a command, and is used once. There are two
 * sorts.
 *
 * *By shape*: it went through the steps of STEP_PREBUILT. Namespaces, cgroup, root, /dev, /proc and private /tmp are
 * there; nothing of a peer's is. What depends on the peer, the workspace or the command (what is bound, hidden and
 * protected; ids, capabilities, Landlock, the filter) is done after the order came, exactly as without zygotes, so none
 * of it can be out of date.
 *
 * *Fitted* to one peer and one plan (fitting.h): all steps of the init's are done, and an order brings only what is to
 * be executed, where, with which environment and descriptors. For each such zygote the spawner knows what of the host's
 * it was made from, and looks at all of that again before it uses it (sandbox/host_fingerprint.h): when the start
 * comes, or a moment before, when the runtime has a request but not yet judged it; never before the request. They are
 * made for plans that came more than once lately: somebody runs one command after the other in a workspace.
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

#include "sandbox/file_stamp.h"
#include "sandbox/host_fingerprint.h"
#include "sandbox/plan.h"
#include "sandbox/steps.h"
#include "supervisor/spawner/prebuilt_key.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup_tree;
struct idmap;
struct prebuilt_ready_msg;
struct spawn_identity;
struct spawn_msg;

#define PREBUILT_SHAPES 4 /* that are remembered */
#define PREBUILT_KEYS 4
#define PREBUILT_KINDS (PREBUILT_SHAPES + PREBUILT_KEYS)
#define PREBUILT_SPARE_MAX 8 /* of one kind */
#define PREBUILT_POLLS_MAX (PREBUILT_KEYS * PREBUILT_SPARE_MAX)
#define PREBUILT_GARBAGE_MAX 32

/* What of the host's is in every zygote. */
struct host_stamps {
	struct file_stamp root, resolver, users, groups;
};

struct prebuilt {
	pid_t pid;
	int pidfd, link; /* the order goes to link; closing it is a farewell */
	uint64_t start_time;
	uint32_t layers;      /* that the clone gave */
	struct plan_key leaf; /* its cgroup's name */
	struct host_stamps stamps;
	int mounts; /* its mount namespace; −1 = not held */
	/* Of one that is fitted: */
	uid_t uid; /* of the command */
	gid_t gid;
	struct host_fingerprint *fingerprint; /* NULL until it is complete */
};

struct prebuilt_kind {
	struct step_shape shape; /* if it is one of shape */
	struct prebuilt_key key; /* if it is one of those */
	uint64_t hint;           /* of the last start that wanted one */
	unsigned uses;
	uint64_t used_ns;  /* CLOCK_BOOTTIME; 0 = a free place */
	unsigned failures; /* in a row */
	struct prebuilt spare[PREBUILT_SPARE_MAX];
	size_t count;
};

/* Under which name a running sandbox has its cgroup, and its mount namespace. */
struct prebuilt_leaf {
	struct plan_key key, leaf;
	int mounts;
};

struct prebuilt_pool {
	size_t wanted; /* of each kind; 0 = none are made */
	int mounts_fd; /* tells when the host's mounts change */
	bool privileged;
	struct cgroup_tree *cgroup;
	struct idmap *idmap;
	struct prebuilt_kind kinds[PREBUILT_KINDS]; /* those of shape come first */
	struct prebuilt_ready_msg *room;
	int remains[PREBUILT_GARBAGE_MAX]; /* mount namespaces of commands that ended */
	size_t nremains;
	struct prebuilt_leaf *leaves;
	size_t nleaves, room_leaves;
	struct {
		uint64_t token; /* of the request that it was looked at for; 0 = none */
		uint64_t ns;    /* when */
		pid_t pid;      /* the zygote that was found to hold */
	} early_check;
	char name[24]; /* of this spawner's leaves */
	unsigned serial;
};

void prebuilt_pool_init(struct prebuilt_pool *pool, struct cgroup_tree *cgroup, struct idmap *idmap, bool privileged,
			size_t wanted);
void prebuilt_pool_done(struct prebuilt_pool *pool);

/* One that fits, from now on the caller's; false = there is none. Remembers that such are in use. */
bool prebuilt_take_generic(struct prebuilt_pool *pool, const struct step_shape *shape, struct prebuilt *ret);
bool prebuilt_take_dedicated(struct prebuilt_pool *pool, const struct plan_head *plan, const struct spawn_identity *id,
			     const struct spawn_msg *start, struct prebuilt *ret);
/* Looks at the one that a start of this sort would take now, so that the start of this request need not. */
void prebuilt_check_early(struct prebuilt_pool *pool, uint64_t hint, uint64_t token);
/* It was dead when it was needed. */
void prebuilt_failed(struct prebuilt_pool *pool, const struct step_shape *shape);
void prebuilt_free(struct prebuilt_pool *pool, struct prebuilt *one); /* ends it */

/* The kind of which one is missing, or NULL. */
struct prebuilt_kind *prebuilt_wanted_kind(struct prebuilt_pool *pool);
/* A zygote to be filled in: its leaf's name and what was seen of the host before. */
void prebuilt_begin(struct prebuilt_pool *pool, struct prebuilt *ret);
void prebuilt_add(struct prebuilt_kind *k, const struct prebuilt *one);
/* The host's mounts have changed: none is of use any more. */
void prebuilt_drop_all(struct prebuilt_pool *pool);
/* Throws away those whose shape nobody asked for in a long time; how many ms until there may be such, −1 = there are
 * none. */
int prebuilt_expire(struct prebuilt_pool *pool);

/* Where those say that they are complete who did not yet; how many of the PREBUILT_POLLS_MAX. */
size_t prebuilt_polls(const struct prebuilt_pool *pool, int fds[PREBUILT_POLLS_MAX]);
/* One of them did. */
void prebuilt_on_ready(struct prebuilt_pool *pool, int fd);

/* A command runs in this one now; its mount namespace is held until the leaf is forgotten. */
void prebuilt_name_leaf(struct prebuilt_pool *pool, const struct plan_key *key, struct prebuilt *one);
/* The name of the command's leaf, which is forgotten: its own key if it was not built ahead. */
struct plan_key prebuilt_forget_leaf(struct prebuilt_pool *pool, const struct plan_key *key);

/* Whether there is something to take down; does that for one. */
bool prebuilt_has_garbage(const struct prebuilt_pool *pool);
void prebuilt_collect_garbage(struct prebuilt_pool *pool);

#endif
