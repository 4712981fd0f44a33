#ifndef BAILIFF_CONTROL_FLEET_BOARD_H
#define BAILIFF_CONTROL_FLEET_BOARD_H

/*
 * What bailiff-fleet has reported about the fleet, for clients that show it (get_fleet). It is a copy that ages, in
 * memory only: the documents are on the bus, and what ran is in the logs of the nodes. The lists are read only while a
 * client asks for them, because reading them costs the server and the node.
 */

#include <stdbool.h>
#include <stdint.h>

struct fleet_board {
	uint64_t reporter; /* number of bailiff-fleet's connection; 0 = there was none */
	uint32_t uid;      /* the user of the fleet's tasks */
	char node[65];
	bool connected;
	char *problem;         /* why it is not connected, or NULL */
	char *nodes, *tasks;   /* JSON text of arrays, or NULL */
	uint64_t task_count;   /* with those that are not in the list */
	uint64_t listed_at_ns; /* boot clock */
	uint64_t wanted_until_ns;
};

void fleet_board_done(struct fleet_board *b);

#endif
