#ifndef BAILIFF_FLEET_CLIENT_WORKSPACE_H
#define BAILIFF_FLEET_CLIENT_WORKSPACE_H

/*
 * --dir: a copy of a folder that is stored on the bus for the task's node. Of a git work tree it has the files that git
 * tracks and those that it does not ignore, as they are in the folder now; of another folder, all files.
 */

#include "supervisor/fleet/bundle.h"
#include "supervisor/fleet/client/connection.h"

/* Packs the folder and stores the archive, unless the bus has it already. 0, or the exit status after an error. */
int workspace_send(struct connection *x, const char *folder, struct bundle *ret);

#endif
