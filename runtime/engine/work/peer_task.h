#ifndef BAILIFF_ENGINE_PEER_TASK_H
#define BAILIFF_ENGINE_PEER_TASK_H

/* Tasks that a peer behind a channel works on. */

#include "runtime/engine/core/reply.h"

#include <jansson.h>

struct transaction;

void engine_link_peer_task(struct engine *g, const struct json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx);
void engine_update_peer_task(struct engine *g, const struct json_t *params, const struct caller *c, engine_reply_fn fn,
			     void *ctx);
/* The channel is disconnected: the peer's running tasks are unreachable until they are reported again. */
void peer_tasks_unreachable(struct engine *g, const char *channel_id, struct transaction *tx);
/* True if a linked peer's task has not ended, as far as is known; returns its remote id. */
bool peer_task_open(struct engine *g, const char *task_id, char ret_remote[ID_SIZE]);

#endif
