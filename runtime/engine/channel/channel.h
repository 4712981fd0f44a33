#ifndef BAILIFF_ENGINE_CHANNEL_H
#define BAILIFF_ENGINE_CHANNEL_H

/*
 * Channels: remote peers that may disconnect and return. A channel has its own identity, a token to resume with (only
 * its hash is part of events and documents), and a cursor of what its peer has acknowledged. A channel without a
 * heartbeat lives as long as the connection that created or resumed it. A channel with a heartbeat is disconnected
 * after three missed intervals. Disconnecting ends no work: the session's work continues, the peer's tasks become
 * `unreachable`, and the channel can be resumed.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/engine/process/process.h"

struct channel_request {
	const char *channel_id;                                            /* or NULL: generated */
	const char *session_id;                                            /* NULL: a session is created … */
	const char *title;                                                 /* … with this title, or NULL */
	const char *transport, *peer_role, *native_protocol, *account_ref; /* all but transport may be NULL */
	const char *capabilities_json;                                     /* an array; NULL = none */
	uint64_t heartbeat_ms;                                             /* 0 = none: bound to the connection */
};
/* `resumeToken` in a result is a seed with this prefix: what is stored under an idempotency key must not be a secret.
 */
#define CHANNEL_SEED_PREFIX "seed:"
#define CHANNEL_TOKEN_TEXT 65
/* The token of a seed. */
void engine_channel_token(const struct engine *engine, const char *seed, char ret[CHANNEL_TOKEN_TEXT]);
void engine_connect_channel(struct engine *engine, const struct channel_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx);
/*
 * Replies {channelId, resumeToken, resumedFrom, gap?, sessionId, sequence}; the control socket adds snapshot and
 * events.
 */
void engine_reconnect_channel(struct engine *engine, const char *channel_id, uint64_t last_acked, const char *token,
			      const struct caller *c, engine_reply_fn fn, void *ctx);
void engine_disconnect_channel(struct engine *engine, const char *channel_id, const char *reason,
			       const struct caller *c, engine_reply_fn fn, void *ctx);
/* Moves the cursor forward, never back; replies when that is durable. Counts as a heartbeat. */
void engine_ack_events(struct engine *engine, const char *channel_id, uint64_t sequence, const struct caller *c,
		       engine_reply_fn fn, void *ctx);

struct channel_message_request {
	const char *channel_id, *direction; /* out: to the peer, in: from it */
	const char *text;                   /* stored behind a ref if it is long */
	const char *kind;                   /* message, notice, status … for display; or NULL */
};
void engine_send_channel_message(struct engine *engine, const struct channel_message_request *m, const struct caller *c,
				 engine_reply_fn fn, void *ctx);

struct action_required;
struct action_resolved;
struct scope;
struct transaction;

/* After a restart: disconnects channels that were bound to a connection. */
void channel_recover(struct engine *engine);
uint64_t channel_tick(struct engine *engine, uint64_t now_ns);
void channel_client_disconnected(struct engine *engine, uint64_t connection);

/*
 * The permission bridge. When an action is opened in a session that has a connected channel with the capability
 * "permissions", this adds channel.permission_forwarded. When the action is resolved, it adds
 * channel.permission_returned, with the side that decided.
 */
void channel_on_action_required(struct transaction *tx, const struct scope *s, const struct action_required *p);
void channel_on_action_resolved(struct transaction *tx, const struct scope *s, const struct action_resolved *p);

void channel_init(struct engine *engine);
void channel_done(struct engine *engine);

#endif
