#ifndef BAILIFF_FLEET_BUS_STREAMS_H
#define BAILIFF_FLEET_BUS_STREAMS_H

/* What the server stores for a fleet: streams, and buckets, which are streams as well (KV_NAME, $KV.NAME.KEY). */

#include <nats/nats.h>

struct err;

/* Creates those that are missing. A user that may not is told to start a node first. */
int bus_streams_ensure(natsConnection *nc, jsCtx *js, unsigned replicas, struct err *e);

#endif
