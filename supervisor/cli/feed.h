#ifndef BAILIFF_CLI_FEED_H
#define BAILIFF_CLI_FEED_H

/*
 * Events as they are recorded, each once and in order, over breaks of the connection: subscribes, and subscribes again
 * after the last one seen whenever remote.c has connected again. One feed a connection.
 */

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct remote;

struct feed {
	struct remote *remote;
	const struct buf *filter; /* members of the request that select (`"processId":"…"`), or empty */
	uint64_t sequence;        /* of the last event seen */
	void (*event)(void *ctx, struct jval event);
	void (*connected)(void *ctx); /* after each reconnect, before it subscribes; or NULL */
	void *ctx;
	bool failed; /* the subscription was refused: `failure` says why */
	struct err failure;
};

void feed_start(struct feed *f); /* the struct stays where it is until feed_stop */
void feed_stop(struct feed *f);

#endif
