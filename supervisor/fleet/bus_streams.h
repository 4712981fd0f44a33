#ifndef BAILIFF_FLEET_BUS_STREAMS_H
#define BAILIFF_FLEET_BUS_STREAMS_H

/* What the server stores for a fleet: streams, and buckets, which are streams as well (KV_NAME, $KV.NAME.KEY). */

#include <nats/nats.h>
#include <stdbool.h>

struct buf;
struct err;
struct fleet_nats_options;

/*
 * Creates those that are missing. A user that may not is told to start a node first. With `updates`, those that exist
 * with other settings are changed; ret_differs has what could not be, and why, as text.
 */
int bus_streams_ensure(natsConnection *nc, jsCtx *js, const struct fleet_nats_options *o, struct buf *ret_differs,
		       struct err *e);
/* Whether all are as a node with `replicas` wants them. Changes nothing; false also if the server does not answer. */
bool bus_streams_match(jsCtx *js, unsigned replicas);

#endif
