#ifndef BAILIFF_FLEET_DAEMON_LINK_H
#define BAILIFF_FLEET_DAEMON_LINK_H

/*
 * The node's daemon over its control socket. Each claim becomes a task of the daemon with a workspace of its own; the
 * fact task.created has the claim (member `fleet`). Calls block until the daemon answers.
 */

#include "supervisor/common/event_link.h"
#include "supervisor/fleet/fleet_daemon.h"

#include <stdbool.h>
#include <stdint.h>

struct fleet_input;
struct fleet_port;

struct daemon_link {
	struct fleet_daemon daemon;
	struct event_link *link;
	struct fleet_port *port; /* where inputs come from */
	int work_fd;             /* directory of the workspaces */
	const char *work;        /* its absolute path */
	struct pending_input {
		struct pending_input *next;
		char local_id[FLEET_LOCAL_ID];
		struct fleet_input *input;
	} * inputs;
	bool drains;
	uint64_t health_at; /* boot clock, ms */
};

void daemon_link_init(struct daemon_link *d, struct event_link *link, struct fleet_port *port, int work_fd,
		      const char *work);

#endif
