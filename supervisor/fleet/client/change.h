#ifndef BAILIFF_FLEET_CLIENT_CHANGE_H
#define BAILIFF_FLEET_CLIENT_CHANGE_H

#include "supervisor/fleet/client/connection.h"

/*
 * Leaves a signed request to cancel in the task's document, and tells its node, if it has one. A task that no node has
 * claimed is cancelled at once. 1: the task has ended, and is left as it is. 2: the task is another's, and its node has
 * not said that it accepts the request of this key; a request of the submitter is not replaced then. For both, e has
 * the text for the user. ERR_NOT_ALLOWED: the node rejects the key.
 */
int change_cancel(struct connection *x, const char *id, struct err *e);

#endif
