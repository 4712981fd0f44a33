#ifndef BAILIFF_SUPERVISOR_FLEET_PART_H
#define BAILIFF_SUPERVISOR_FLEET_PART_H

/*
 * Whether the daemon is a node of a fleet, and as which user: options, else keys of the configuration. The keys
 * themselves are read and checked by bailiff-fleet; here only those that are needed before it runs.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct options;

#define FLEET_PART_ARGS 24
#define FLEET_PART_GROUPS 64

struct fleet_part {
	char program[PATH_MAX]; /* "" = the daemon is not a node */
	uid_t uid;
	gid_t gid;
	gid_t groups[FLEET_PART_GROUPS];
	size_t ngroups;
	char work[PATH_MAX]; /* default directory of workspaces; "" = none is known */
	char *argv[FLEET_PART_ARGS];
};

/* config_file may not exist. As root a user must be named, and the file must be root's. */
int fleet_part_find(const struct options *o, const char *config_file, bool privileged, const char *program,
		    struct fleet_part *ret, struct err *e);

#endif
