#ifndef BAILIFF_FLEET_NODE_CONFIG_H
#define BAILIFF_FLEET_NODE_CONFIG_H

/*
 * The node's settings: options, which the guard passes on, before the keys "fleet.…" of the daemon's configuration. An
 * unknown key, a wrong type or an invalid value is an error that names the key; the node then does not start.
 */

#include "supervisor/fleet/fleet_node.h"

struct err;

struct node_config {
	struct fleet_node_config node;
	struct fleet_nats_options bus;
	const char *work; /* absolute path of the workspaces */
	uint64_t keep_ms; /* how long they are kept after the end of their tasks */
	const char *log_format;
	json_t *root; /* owns strings */
};

/* config_fd: the daemon's configuration; −1 = there is none. */
int node_config_read(int argc, char **argv, int config_fd, struct node_config *ret, struct err *e);
void node_config_done(struct node_config *c);

#endif
