#ifndef BAILIFF_CLI_EVENT_STREAM_H
#define BAILIFF_CLI_EVENT_STREAM_H

/*
 * Events as they are recorded, exactly once and in order, across reconnects: subscribes, and subscribes again after the
 * last event seen whenever remote.c has reconnected. One stream per connection.
 */

#include "supervisor/cli/cli.h"

#include <stdint.h>

/* What arrives of a subscription that start_process makes, until an event_stream takes over. */
struct early_events {
	struct buf *lines;
	bool lost; /* the connection broke, and the subscription with it */
};

void early_events_listen(struct early_events *v, struct remote *r); /* before the request; the struct must not move */

struct event_stream {
	struct remote *remote;
	const struct early_events *early; /* a subscription that exists already; or NULL */
	const struct buf *filter;         /* members of the request that filter (`"processId":"…"`), or empty */
	uint64_t sequence;                /* of the last event seen */
	void (*event)(void *ctx, struct jval event);
	void (*connected)(void *ctx); /* after each reconnect, before it subscribes; or NULL */
	void *ctx;
	bool failed; /* the subscription was rejected: see `failure` */
	struct err failure;
};

void event_stream_start(struct event_stream *f); /* the struct must not move until event_stream_stop */
void event_stream_stop(struct event_stream *f);

/*
 * Stored events after *sequence, which is advanced to the last one seen. `filter` as above. fn returns false to stop.
 */
int event_stream_list(struct cli *c, const struct buf *filter, uint64_t *sequence,
		      bool (*fn)(void *ctx, struct jval event), void *ctx, struct err *e);

#endif
