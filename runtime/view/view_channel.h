#ifndef BAILIFF_VIEW_CHANNEL_H
#define BAILIFF_VIEW_CHANNEL_H

/*
 * Channels to remote peers, and the tasks of such peers. A channel outlives its connection: the document stays when the
 * peer disconnects, and a resumed channel continues after the last acknowledged sequence.
 */

#include "runtime/view/view_documents.h"

struct jw;

/* {"channels":[…],"nextCursor"?}; session_id NULL = all of the uid's. */
int view_channels(struct store *s, uint32_t uid, const char *session_id, unsigned limit, const char *cursor,
		  struct buf *out, struct err *e);
/* channel_summary of a session: an object. */
int view_channel_summary(struct store *s, const char *session_id, struct jw *w, struct err *e);
/* The acknowledged sequence, 0 = none. Not an event: acknowledging one must not write another. 0 or −1. */
int view_channel_acked(struct store *s, const char *channel_id, uint64_t *ret, struct err *e);
#define CHANNEL_ACK_KEY "channel.acked."
/* The meta value of an action that a channel's peer may answer: the channel's id, until it is resolved. */
#define CHANNEL_ACTION_KEY "channel.action."

#endif
