#ifndef BAILIFF_ENGINE_CHANNEL_H
#define BAILIFF_ENGINE_CHANNEL_H

/*
 * Channels: remote peers that come back. A channel has an identity of its own, a token to resume with (of which only
 * the hash is kept), and a cursor of what its peer has acknowledged. One without a heartbeat lives as long as the
 * connection that made or resumed it; one with a heartbeat is disconnected when nothing of it was heard for three
 * intervals. A disconnected channel ends nothing: its session's work goes on, its peers' tasks are `unreachable`, and
 * it can be resumed.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/engine/process/process.h"

struct channel_request {
	const char *channel_id;                                            /* its id, or NULL: made */
	const char *session_id;                                            /* NULL: a session is made … */
	const char *title;                                                 /* … with this title, or NULL */
	const char *transport, *peer_role, *native_protocol, *account_ref; /* all but transport may be NULL */
	const char *capabilities_json;                                     /* an array; NULL = none */
	uint64_t heartbeat_ms;                                             /* 0 = none: bound to the connection */
};
void engine_connect_channel(struct engine *g, const struct channel_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx);
/* Answers {channelId, resumeToken, resumedFrom, gap?, sessionId, sequence}; the control socket adds snapshot and
 * events. */
void engine_reconnect_channel(struct engine *g, const char *channel_id, uint64_t last_acked, const char *token,
			      const struct caller *c, engine_reply_fn fn, void *ctx);
void engine_disconnect_channel(struct engine *g, const char *channel_id, const char *reason, const struct caller *c,
			       engine_reply_fn fn, void *ctx);
/* Moves the cursor forward, never back; answers when that is durable. Counts as a heartbeat. */
void engine_ack_events(struct engine *g, const char *channel_id, uint64_t sequence, const struct caller *c,
		       engine_reply_fn fn, void *ctx);

struct channel_message_request {
	const char *channel_id, *direction; /* out: to the peer, in: from it */
	const char *text;                   /* kept behind a ref when it is long */
	const char *kind;                   /* message, notice, status … for the reader; or NULL */
};
void engine_send_channel_message(struct engine *g, const struct channel_message_request *m, const struct caller *c,
				 engine_reply_fn fn, void *ctx);

/* The parameters are those of the methods' rows. */
struct json_t;

struct store_batch;

/* After a restart: channels that were bound to a connection are disconnected. */
void channel_recover(struct engine *g);
uint64_t channel_tick(struct engine *g, uint64_t now_ns);
void channel_client_disconnected(struct engine *g, uint64_t connection);

/*
 * The permission bridge. An action was opened in this session: if a connected channel of it can answer (capability
 * "permissions"), channel.permission_forwarded. It was resolved: channel.permission_returned, saying which side
 * decided.
 */
void channel_on_action_required(struct engine *g, const void *subject, struct store_batch *b);
void channel_on_action_resolved(struct engine *g, const void *subject, struct store_batch *b);

void channel_init(struct engine *g);
void channel_done(struct engine *g);

#endif
