#ifndef BAILIFF_FLEET_WORKSPACES_H
#define BAILIFF_FLEET_WORKSPACES_H

/*
 * The folder of a node's workspaces: one folder for each task that it has run, named by the daemon's id of the task. A
 * workspace is removed when nothing has changed in its folder for some time, and its task ended that long ago or is not
 * known to the daemon (which has forgotten it, or a crash came before the task was created).
 *
 * The folder has a file with the identity of the daemon that it belongs to. Another one cannot use it: each would
 * remove what the other's tasks work with. Nothing here follows a link. Folders are checked, the daemon is asked and
 * trees are removed piece by piece, so that leases can be renewed in between.
 */

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct fleet_node;

#define WORKSPACE_NAME 64
#define WORKSPACES_STUCK 32u

/* A tree of which nothing could be removed; "" = unused. */
struct workspace_stuck {
	char name[WORKSPACE_NAME];
	uint64_t again_at, delay_ms;
};

struct workspaces {
	int dir_fd;
	DIR *list;                     /* the round that has begun, or NULL */
	bool more;                     /* of this round is to be removed */
	uint64_t keep_ms;              /* after the end of a task */
	uint64_t check_at, hold_until; /* boot clock, ms */
	int64_t offset;                /* of the wall clock from the boot clock in the last tick, ms */
	bool has_offset;
	struct workspace_stuck stuck[WORKSPACES_STUCK]; /* those that are tried again first are forgotten first */
};

/* instance: of this daemon. A folder without an owner becomes its own; one of another daemon is an error. */
int workspaces_init(struct workspaces *w, int dir_fd, const char *instance, uint64_t keep_ms, struct err *e);
/* now: boot clock; real: wall clock; both in ms. */
void workspaces_tick(struct workspaces *w, const struct fleet_node *n, uint64_t now, uint64_t real);
void workspaces_done(struct workspaces *w);

/*
 * Removes what `name` is, a tree or a file. *budget: how many files may be removed; false = there are more (or some
 * cannot be removed).
 */
bool workspace_remove(int dir_fd, const char *name, unsigned *budget);

#endif
