#ifndef BAILIFF_FLEET_CLIENT_QUEUE_HINT_H
#define BAILIFF_FLEET_CLIENT_QUEUE_HINT_H

#include "supervisor/fleet/client/connection.h"

/* Why a queued task has not started, as a sentence: no nodes, none that satisfies its needs, or all are busy. */
void queue_hint(struct connection *x, const struct fleet_task *t, struct buf *ret);

#endif
