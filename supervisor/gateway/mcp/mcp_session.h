#ifndef BAILIFF_MCP_SESSION_H
#define BAILIFF_MCP_SESSION_H

/*
 * One client of the Model Context Protocol, independent of the transport.
 *
 * The transport passes messages in (mcp_session_feed) and gets messages to send (struct mcp_out). Every incoming
 * message belongs to a stream of the transport, `stream`: NULL on stdio, the POST's stream over HTTP. Replies to a
 * request, and messages sent on its behalf while it is in progress (progress, log messages, questions to the client),
 * carry the request's stream; all others carry NULL. `last` marks the last message of a stream; the message is NULL if
 * a request ends without a reply (it was cancelled).
 *
 * Both eras are supported. A request whose params._meta has a protocol version is modern (2026-07-28 on): it contains
 * everything needed to serve it, and questions to the client are sent in results. All others are legacy and start with
 * initialize. On stdio an accepted initialize makes the whole session legacy. Over HTTP the transport passes the era
 * from the headers as a hint, and feeds the modern requests of one principal to one session, in which requests on
 * different streams may have the same id.
 *
 *   mcp_call.h       a request in progress: the interface for handlers of tools, resources and prompts
 *   mcp_tool.h       tools, a table         mcp_resource.h, mcp_prompt.h    likewise
 *   mcp_tables.h     the tables, and how a program adds rows
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct mcp_client_state;
struct mcp_session;
struct mcp_tables;

/* Options of the gateway, the same for all its clients. Initialise with mcp_config_init. */
struct mcp_config {
	const char *profile, *cwd, *session_id; /* or NULL */
	bool away; /* clients do not work in this process's directory: their roots name their workspaces */
	const struct mcp_tables *tables[2]; /* tools, resources and prompts; the second set may be NULL */
	bool structured; /* send structured content, which several clients pass to the model instead of the text */
	unsigned heartbeat_ms; /* interval for calls without progress; 0: default */
	unsigned ask_ms;       /* timeout of a question to the client; 0: default */
	unsigned human_ms;     /* a question dismissed faster was not read by a person */
	unsigned quick_ms;     /* how long a call may take before it becomes a task; 0: default */
	unsigned max_calls;    /* calls in progress per client; above this its input is paused; 0: default */
	uint8_t key[32];       /* key of request states; new for each gateway process */
};
void mcp_config_init(struct mcp_config *c);

/* None of these may call into the session. */
struct mcp_out {
	/* Takes ownership of `message`. NULL with last: no reply is sent. */
	void (*send)(void *ctx, void *stream, json_t *message, bool last);
	/* Calls have ended: a transport that paused the client may resume reading. */
	void (*wake)(void *ctx);
	/*
	 * Or NULL. True: the client does not read. Progress and log messages are then dropped, and notifications of
	 * changes deferred until mcp_session_drained.
	 */
	bool (*lags)(void *ctx);
	/* Or NULL. True: so much is buffered that no further call is started. */
	bool (*full)(void *ctx);
};

struct mcp_session_options {
	struct event_base *base;
	const struct mcp_config *config;
	const char *transport; /* connect_channel's transport: stdio, http_json, sse */
	const char *principal; /* the client's identity in the transport; bound into request states */
	bool shared;           /* by several clients: approvals are given for one use only */
	struct mcp_out out;
	void *ctx;
};

enum mcp_hint { MCP_HINT_NONE, MCP_HINT_LEGACY, MCP_HINT_MODERN };

/* Never fails; connects to the daemon when the first call needs it. */
struct mcp_session *mcp_session_new(const struct mcp_session_options *o);
/*
 * The client has disconnected: terminates its foreground processes; nothing more is sent. May be called at any time.
 * The loop must keep running briefly so that the daemon receives the requests.
 */
void mcp_session_free(struct mcp_session *m);

/* The gateway is about to exit: ends listening calls with a result, as the protocol requires. mcp_session_free follows.
 */
void mcp_session_shutdown(struct mcp_session *m);

/*
 * Handles one message and takes ownership of it; an invalid one is answered with an error. `hint` is the era according
 * to the transport (HTTP header). A request leads to exactly one send with `last`, now or later; a notification or
 * response to none, unless `stream` is not NULL: then to one with NULL and `last`.
 */
void mcp_session_feed(struct mcp_session *m, json_t *message, void *stream, enum mcp_hint hint);
/* Sets the size of the next message, if the transport knows it: large messages pause the client earlier. */
void mcp_session_note_size(struct mcp_session *m, size_t bytes);
/* Replies to a line that is too long or not JSON. The id may be NULL. */
void mcp_session_bad(struct mcp_session *m, void *stream, json_t *id, int code, const char *message);
/* out.lags has become false: sends one notification for each resource and task that changed meanwhile. */
void mcp_session_drained(struct mcp_session *m);
/* The stream was closed. cancel (modern HTTP): its request is cancelled. Otherwise it continues, without a stream. */
void mcp_session_stream_closed(struct mcp_session *m, void *stream, bool cancel);

bool mcp_session_busy(const struct mcp_session *m);      /* the limit of calls in progress is reached */
bool mcp_session_is_legacy(const struct mcp_session *m); /* initialize was accepted */
const struct mcp_config *mcp_session_config(const struct mcp_session *m);
struct mcp_client_state *mcp_session_client_state(struct mcp_session *m); /* the tools' state of this client */
const char *mcp_session_version(const struct mcp_session *m);             /* the negotiated legacy version, or NULL */

/* Notifies subscribers that the resource has changed. */
void mcp_session_resource_updated(struct mcp_session *m, const char *uri);
/* Notifies clients that a list has changed. `what`: "tools", "prompts", "resources". */
void mcp_session_list_changed(struct mcp_session *m, const char *what);

#endif
