#ifndef BAILIFF_SUPERVISOR_SPAWNER_LEADER_H
#define BAILIFF_SUPERVISOR_SPAWNER_LEADER_H

/*
 * A leader: the process of a holder (holder.h) that leads one member after another. Before each command it examines the
 * hidden paths that were missing when the sandbox was built (mount_watch.h). A file system that does not answer so
 * stops only the leader, and the holder ends it after a time.
 */

#include "supervisor/spawner/member_msg.h"

#include <stdint.h>

struct init;
struct mount_watch;
struct plan_head;

enum leader_stage {
	LEADER_RUNNING,        /* the command was executed */
	LEADER_CHECKING_PATHS, /* the hidden ones; the holder sets this, when a member begins */
	LEADER_STARTING,       /* the command */
	LEADER_FOUND_PATH,     /* a hidden one exists: the leader exits, and the sandbox has to end */
};

/* Shared by holder and leader. */
struct leader_state {
	volatile uint8_t stage;
	volatile uint16_t hidden; /* the path that it examines: its number in the plan */
};

struct leader {
	struct init *in;
	struct leader_state *state;
	const struct mount_watch *mounts;
	struct member_msg_buffer *buffer;
	int signal_fd;
	int holder_fd; /* on which further members arrive; −1 = it leads one */
};

/* In the forked child. Does not return. */
_Noreturn void leader_run(const struct leader *l, const struct plan_head *plan, int fds[MEMBER_FDS]);

#endif
