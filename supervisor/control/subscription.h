#ifndef BAILIFF_CONTROL_SUBSCRIPTION_H
#define BAILIFF_CONTROL_SUBSCRIPTION_H

/*
 * A stream of events to one connection: a filter and a cursor in the log, never a queue. Events are read from the log
 * (its newest part is in memory) when the connection has room for them, so a slow reader costs a cursor and at most
 * CLIENT_OUT_LOW unsent bytes, delays no other connection, and misses nothing that is kept.
 *
 * Subscriptions with something to send are in control's `ready` list, from which each turn takes them in order, a
 * bounded piece of work each. One leaves the list when it has caught up (the next commit brings it back) or when its
 * connection has enough unsent bytes (it comes back when they are sent).
 */

#include "supervisor/control/filter.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct batch;
struct client;
struct control;

struct subscription {
	LIST_ENTRY(subscription) entry;  /* control's */
	LIST_ENTRY(subscription) mine;   /* the client's */
	TAILQ_ENTRY(subscription) queue; /* control's ready */
	struct client *client;
	char id[32];
	struct filter filter;
	uint64_t cursor;          /* everything up to here was sent or did not match */
	const struct batch *held; /* the batch with its own reply, which must be sent first */
	bool queued;
};

/* Takes the filter. Inactive until subscription_start, which is called when its reply is queued. */
struct subscription *subscription_new(struct client *cl, struct filter *f, uint64_t after);
void subscription_start(struct subscription *s, const struct batch *in);
void subscription_free(struct subscription *s);
struct subscription *subscription_find(struct client *cl, const char *id); /* or NULL */

void subscription_release(struct client *cl, const struct batch *b); /* the batch was sent */
void subscription_drained(struct client *cl);                        /* the client has room again */
void subscription_committed(struct control *k);                      /* there are new events */
/* A bounded piece of work for those that are ready; true if there is more. */
bool subscription_turn(struct control *k);

#endif
