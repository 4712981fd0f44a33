#ifndef BAILIFF_SUPERVISOR_SPAWNER_PREBUILT_H
#define BAILIFF_SUPERVISOR_SPAWNER_PREBUILT_H

/*
 * Prebuilt sandboxes: inits that wait for a command. There are two kinds:
 *
 * A *generic* one has run the steps of STEP_PREBUILT and fits every plan of its shape (step_shape_of) of one user,
 * whose network namespace it has (netpool.h). Everything else that depends on the peer or on paths (write roots, hidden
 * and protected paths; ids, capabilities, Landlock, seccomp) is done after the command's message arrives, exactly as in
 * a sandbox that is built on demand.
 *
 * A *dedicated* one is built for one peer and one plan without its command (prebuilt_key.h) and has run every step of
 * the init. Only what is executed, where, and with which environment and descriptors is missing. The spawner records
 * what of the host each of them depends on (sandbox/host_fingerprint.h) and checks all of it before use.
 *
 * A generic one is used once. A dedicated one comes back after its command if the init can prove that nothing of it is
 * left (leftovers.h), and if no other sandboxed command with its uid is running, which could have got a descriptor of a
 * directory in it: building a sandbox and tearing it down takes most of the CPU time of a short command. The spawner
 * keeps the link to it meanwhile.
 *
 * Both have the host's top level bound as it was when they were built. They are dropped when the host's mounts change
 * (the kernel reports that), when the root directory, or a file that they copied (resolv.conf, passwd, group), has
 * another stamp, and when no request has needed their kind for a while.
 *
 * An unused prebuilt sandbox is not a process of the log and not in the guard's descriptor store, although it is the
 * guard's child. It exits when the spawner or the guard does. They are built while the spawner is idle.
 *
 * The kernel tears a mount namespace down when its last user exits, and that user waits for it. To keep this away from
 * the init of a command that has just ended, and from clients that wait for that end, the spawner holds the namespace
 * open until it is idle. The same is done with the network namespace, which may be used again (netpool.h).
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
struct netpool;
struct pollfd;
struct prebuilt_ready_msg;
struct spawn_identity;
struct spawn_msg;

#define PREBUILT_SHAPES 4 /* of generic ones that are remembered */
#define PREBUILT_KEYS 4
#define PREBUILT_KINDS (PREBUILT_SHAPES + PREBUILT_KEYS)
#define PREBUILT_WANTED_MAX 8 /* prebuilt sandboxes of one kind */
#define PREBUILT_SPARE_MAX 16 /* of one kind that wait, or run a command and may come back */
#define PREBUILT_POLLS_MAX (PREBUILT_KEYS * PREBUILT_SPARE_MAX)
#define PREBUILT_GARBAGE_MAX 32

/* The files of the host that are bound or copied into prebuilt sandboxes. */
struct host_stamps {
	struct file_stamp root, resolver, users, groups;
};

/* What a dedicated one depends on, and what checks of it have learned. */
struct prebuilt_fingerprint {
	struct host_fingerprint recorded;
	struct fingerprint_folders folders;
};

struct prebuilt {
	pid_t pid;
	int pidfd, link; /* the command's message goes to `link`; closing it ends the sandbox */
	uint64_t start_time;
	uint32_t layers;      /* layers that the clone set up */
	struct plan_key leaf; /* its cgroup's name */
	struct host_stamps stamps;
	int mounts; /* its mount namespace; −1 = not held */
	int net;    /* its network namespace, from the pool; −1 = not held */
	/* Of a dedicated one: */
	uint64_t kind, era; /* serial of its kind; prebuilt_pool.era when it was built */
	bool returning;     /* its command has ended, and it has not reported yet that nothing is left */
	uid_t uid;          /* of the command */
	gid_t gid;
	struct prebuilt_fingerprint *fingerprint; /* NULL until it has reported that it is complete */
};

struct prebuilt_kind {
	uint64_t serial;         /* unique, of a dedicated kind */
	uid_t owner;             /* the peer whose commands use it */
	struct step_shape shape; /* of a generic kind */
	struct prebuilt_key key; /* of a dedicated kind */
	uint64_t hint;           /* of the last start that wanted one */
	unsigned uses;
	uint64_t used_ns;  /* CLOCK_BOOTTIME; 0 = unused slot */
	unsigned failures; /* in a row */
	unsigned lost;     /* complete ones that exited since the last use: what is mounted in them keeps changing */
	bool missed;       /* of a dedicated kind: the last start found none, and none was built since */
	bool mapped; /* of a dedicated kind: one was built since the host's mounts changed, so ids can be mapped */
	struct prebuilt spare[PREBUILT_SPARE_MAX];
	size_t count;
};

/* Namespaces of a sandbox, held beyond its end. */
struct prebuilt_held {
	int mounts;
	int net;
	int pidfd;   /* of the init; net is not held without it */
	uid_t owner; /* the peer whose command uses net */
};

/* The cgroup name and namespaces of a running sandbox. */
struct prebuilt_leaf {
	struct plan_key key, leaf;
	struct prebuilt_held held;
	struct prebuilt *checked_out; /* one that may come back; NULL = it is used once */
	bool exclusive;               /* it has ended, and no other sandboxed command with its uid was running then */
	bool ended;                   /* its command had ended when abandoned ones were looked for */
};

struct prebuilt_pool {
	size_t wanted;     /* of each kind; 0 = none are built */
	unsigned spare_ms; /* after that long without a use, one of a kind is enough */
	int mounts_fd;     /* readable (POLLPRI) when the host's mounts change */
	bool privileged;
	struct cgroup_tree *cgroup;
	struct idmap *idmap;
	struct netpool *netpool;
	struct prebuilt_kind kinds[PREBUILT_KINDS]; /* generic ones come first */
	struct prebuilt_ready_msg *buffer;
	struct prebuilt_held garbage[PREBUILT_GARBAGE_MAX]; /* of commands that ended */
	size_t ngarbage;
	struct prebuilt_leaf *leaves;
	size_t nleaves, leaves_size;
	struct {
		uint64_t token; /* of the request that it was checked for; 0 = none */
		uint64_t ns;    /* when */
		pid_t pid;      /* of the sandbox that passed the check */
		unsigned skip;  /* announcements without a check, because no start used the last one */
	} early_check;
	char name[24]; /* of this spawner's leaves */
	unsigned serial;
	bool unknown_commands; /* commands that an earlier spawner has started may run */
	uint64_t era;          /* changes with the host's mounts */
	uint64_t last_serial;  /* of a kind */
	uint64_t abandoned_checked_ns;
};

void prebuilt_pool_init(struct prebuilt_pool *pool, struct cgroup_tree *cgroup, struct idmap *idmap,
			struct netpool *netpool, bool privileged, size_t wanted, unsigned spare_ms);
void prebuilt_pool_done(struct prebuilt_pool *pool);

/* Returns a matching one, owned by the caller; false = none. Records that the kind is in use. */
bool prebuilt_take_generic(struct prebuilt_pool *pool, const struct step_shape *shape, uid_t owner,
			   struct prebuilt *ret);
bool prebuilt_take_dedicated(struct prebuilt_pool *pool, const struct plan_head *plan, const struct spawn_identity *id,
			     const struct spawn_msg *start, struct prebuilt *ret);
/* Checks the one that a start with this hint would take now, so that the start with this token need not. */
void prebuilt_check_early(struct prebuilt_pool *pool, uint64_t hint, uint64_t token);
/* Records that one of this shape was dead when it was needed. */
void prebuilt_failed(struct prebuilt_pool *pool, const struct step_shape *shape, uid_t owner);
void prebuilt_free(struct prebuilt_pool *pool, struct prebuilt *one); /* kills it */

/* Returns a kind that has too few sandboxes, or NULL. */
struct prebuilt_kind *prebuilt_wanted_kind(struct prebuilt_pool *pool);
/*
 * Returns a kind of which the last start found none, or NULL. With many clients the spawner is never idle: one more is
 * then built after that start, so that soon there are as many as are in use at a time.
 */
struct prebuilt_kind *prebuilt_missed_kind(struct prebuilt_pool *pool);
/* Fills in the leaf's name and the stamps of the host as they are before it is built. */
void prebuilt_begin(struct prebuilt_pool *pool, struct prebuilt *ret);
void prebuilt_add(struct prebuilt_kind *k, const struct prebuilt *one);
/* The host's mounts have changed: none is usable any longer. */
void prebuilt_drop_all(struct prebuilt_pool *pool);
/*
 * Drops sandboxes of kinds that no request has used for a long time. Returns the ms until the next check, or −1 if the
 * pool is empty.
 */
int prebuilt_expire(struct prebuilt_pool *pool);

/*
 * Fills in the links of dedicated ones, at most PREBUILT_POLLS_MAX; returns how many. The report that nothing is left
 * in one is received when it is needed; until then only its death matters.
 */
size_t prebuilt_polls(const struct prebuilt_pool *pool, struct pollfd *ret);
/* One of them has reported that it is complete, or has exited: by itself, if what is mounted in it has changed. */
void prebuilt_on_ready(struct prebuilt_pool *pool, int fd);

/* A command of this user runs in this one now; its namespaces are held until the leaf is forgotten. */
void prebuilt_name_leaf(struct prebuilt_pool *pool, const struct plan_key *key, uid_t owner, struct prebuilt *one);
/* The same for one that was built on demand; takes `mounts` and `net`. */
void prebuilt_hold(struct prebuilt_pool *pool, const struct plan_key *key, const struct plan_key *leaf, uid_t owner,
		   int init, int *mounts, int *net);
/* Whether there will be room for it when it comes back. */
bool prebuilt_can_check_out(const struct prebuilt_pool *pool, const struct prebuilt *one);
/* The same for a dedicated one that may come back; takes it. */
void prebuilt_check_out(struct prebuilt_pool *pool, const struct plan_key *key, uid_t owner,
			const struct prebuilt *one);
/* The command has ended: takes the sandbox back if it was checked out and is still needed. */
bool prebuilt_take_back(struct prebuilt_pool *pool, const struct plan_key *key);
/* Returns the name of the command's leaf and forgets it: the command's own key if it was not prebuilt. */
struct plan_key prebuilt_forget_leaf(struct prebuilt_pool *pool, const struct plan_key *key);

/* Namespaces of ended commands; collect_garbage tears down those of one, or returns what can be used again. */
bool prebuilt_has_garbage(const struct prebuilt_pool *pool);
void prebuilt_collect_garbage(struct prebuilt_pool *pool);

#endif
