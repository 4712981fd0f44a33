#ifndef BAILIFF_FLEET_QUEUE_CONSUMER_H
#define BAILIFF_FLEET_QUEUE_CONSUMER_H

/*
 * The server's consumers of the queue, one for each class and priority, and which of them no longer answer.
 *
 * A consumer of nats-server 2.9 that was killed between the removal of a message and the record of its acknowledgement
 * looks for that message forever ("error looking up message for consumer: deleted message"): it delivers nothing, lets
 * requests wait, and rejects further ones with 408. Recreated, it delivers everything that is still in the queue, some
 * of it a second time, which nodes are used to.
 */

#include "runtime/base/strmap.h"

#include <nats/nats.h>
#include <stdbool.h>

#define QUEUE_STREAM "bailiff_queue"

struct queue_consumers {
	struct strmap silent; /* name → when it first did not answer */
	struct strmap known;  /* names of those that exist */
};

void queue_consumers_done(struct queue_consumers *q);
/*
 * Creates the consumer unless it exists. Only nodes do: who may create one can take the queue's messages, and have them
 * sent to any subject.
 */
natsStatus queue_consumer_need(struct queue_consumers *q, jsCtx *js, const char *class, unsigned priority);
/* Notes whether a pull request was answered. A consumer that was silent for ten seconds is recreated. */
void queue_consumer_note(struct queue_consumers *q, jsCtx *js, const char *class, unsigned priority, bool answered);

/*
 * A server that was killed after an acknowledgement may keep the message although the consumer counts it as done: then
 * the task has a message that is never delivered, and cannot get another one.
 */
void queue_consumer_recreate(jsCtx *js, const char *class, unsigned priority, const char *why);

#endif
