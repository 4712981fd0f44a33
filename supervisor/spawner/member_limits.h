#ifndef BAILIFF_SUPERVISOR_SPAWNER_MEMBER_LIMITS_H
#define BAILIFF_SUPERVISOR_SPAWNER_MEMBER_LIMITS_H

/*
 * Limits of single members of session sandboxes. A member is started without the spawner, but only the spawner may
 * create cgroups and move processes:
 *
 * 1. The runtime sends LIMIT, with the limits in the plan and one end of a socket pair. The spawner creates the cgroups
 *    inside those of the sandbox (tree_limit.h) and replies; a limit that cannot be enforced is the error.
 * 2. The runtime sends the start to the holder, with the other end of the pair. The leader sends its pidfd on it and
 *    waits (member_join.h). The spawner moves it and sends the files that count what its cgroups use.
 * 3. CLEAN removes the cgroups.
 *
 * The leader does not get a descriptor with which it could move itself: with it any process can be moved there, and it
 * would pass through the runtime. The spawner moves only a child of the holder, and that must be a child of the
 * guard, so a compromised runtime can limit nothing but what this daemon has started.
 *
 * Nothing of this is kept across spawners. If one dies before step 2, the leader sees its socket close and fails; what
 * an earlier one created is removed together with the cgroup of the sandbox.
 */

#include "sandbox/tree_limit.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct spawn_msg;
struct spawner;

#define MEMBER_LIMITS_POLLS_MAX 64

#define JOINED_OOM (1u << TREE_FILES)
/*
 * The reply to the leader, with the descriptors of `files`: bits 1 << enum tree_file, and JOINED_OOM for its
 * oom_score_adj.
 */
struct joined_msg {
	int32_t error;
	uint32_t files;
	uint32_t memory; /* the tree's memory is limited */
	uint32_t reserved;
};

struct member_limits {
	struct limited_member {
		struct plan_key key;
		struct tree_sandbox in;
		pid_t holder;
		int fd;                   /* the leader's request arrives here; −1 = it is there */
		bool memory;              /* its memory is limited */
		struct tree_files leaves; /* to enter */
		bool ended;               /* to be removed */
		unsigned tries;
	} * member;
	size_t count, cap;
};

/* Handles LIMIT: `fds` as in spawn_msg.h. Takes the socket. */
int member_limits_make(struct spawner *s, const struct spawn_msg *m, int *fds, struct err *e);
/* False = not one of these. */
bool member_limits_remove(struct spawner *s, const struct plan_key *key);
/* Sockets on which a request may arrive, at most MEMBER_LIMITS_POLLS_MAX. */
size_t member_limits_polls(const struct member_limits *l, int ret[MEMBER_LIMITS_POLLS_MAX]);
void member_limits_on_request(struct spawner *s, int fd);
/* Retries what could not be removed. The ms until the next retry; −1 = nothing is left. */
int member_limits_tick(struct spawner *s);
void member_limits_done(struct spawner *s);

#endif
