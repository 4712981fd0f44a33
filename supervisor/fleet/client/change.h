#ifndef BAILIFF_FLEET_CLIENT_CHANGE_H
#define BAILIFF_FLEET_CLIENT_CHANGE_H

#include "supervisor/fleet/client/connection.h"

/*
 * Leaves a signed request to cancel in the task's document, and tells its node, if it has one. A task that no node has
 * claimed is cancelled at once. A task that has ended is left as it is.
 */
int change_cancel(struct connection *x, const char *id, struct err *e);

#endif
