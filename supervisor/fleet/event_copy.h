#ifndef BAILIFF_FLEET_EVENT_COPY_H
#define BAILIFF_FLEET_EVENT_COPY_H

/*
 * Copies of the daemon's events on the bus, subject evt.NODE.SESSION: for people who watch, never the truth. Only
 * events of the fleet's tasks are copied, without their output previews if they are long. While the bus is away they
 * are dropped beyond a limit, and the next copy says how many.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "supervisor/fleet/fleet_doc.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct event_link;
struct fleet_port;

struct event_copy {
	char node[FLEET_ID_MAX + 1];
	struct copied_event *first, **last;
	unsigned waiting;
	uint64_t dropped;
};

/* Subscribes to the events after this sequence. */
int event_copy_begin(struct event_copy *c, struct event_link *link, const char *node, uint64_t after, struct err *e);
void event_copy_add(struct event_copy *c, struct jval event);
void event_copy_send(struct event_copy *c, struct fleet_port *p);
/* Whether a task may have changed its status. */
bool event_copy_concerns_task(struct jval event);

#endif
