#ifndef BAILIFF_MCP_SESSION_H
#define BAILIFF_MCP_SESSION_H

/*
 * One client that speaks the Model Context Protocol, whatever the transport.
 *
 * The transport passes messages in (mcp_session_feed) and gets messages to send (struct mcp_out). Every incoming
 * message belongs to a stream of the transport, `stream`: NULL on stdio, the POST's stream over HTTP. Replies to a
 * request, and what is sent on its behalf while it is in progress (progress, log lines, questions to the client), carry
 * the request's stream; anything else carries NULL. `last` marks the last message of a stream; the message is NULL
 * where a request ends without a reply (it was cancelled).
 *
 * Both eras are spoken. A request whose params._meta names a protocol version is of the modern era (2026-07-28 on): it
 * brings everything that is needed to serve it, and questions to the client travel in results. Everything else is
 * legacy and begins with initialize. On stdio an accepted initialize makes the whole session legacy; over HTTP the
 * transport says what the headers said, and feeds modern requests of one principal to one session, in which ids of
 * different places may be the same.
 *
 *   mcp_call.h       a request under way: what handlers of tools, resources and prompts program against
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

/* What the command line said; the same for all clients of a gateway. Set up once with mcp_config_init. */
struct mcp_config {
	const char *profile, *cwd, *session_id; /* or NULL */
	bool away; /* clients do not work in this process's directory: their roots name their working trees */
	const struct mcp_tables *tables[2]; /* what is offered; the second may be NULL */
	bool structured; /* output schemas and structured content: several clients hand a model that instead of the text
			  */
	unsigned heartbeat_ms; /* of calls that say nothing; 0 = default */
	unsigned ask_ms;       /* how long the client has to answer a question; 0 = default */
	unsigned human_ms;     /* a question that is dismissed sooner was not read by a person */
	unsigned quick_ms;     /* how long a call may take before it becomes a task; 0 = default */
	unsigned max_calls;    /* calls in progress for one client, then its input is paused; 0 = default */
	uint8_t key[32];       /* of request states; new for each gateway process */
};
void mcp_config_init(struct mcp_config *c);

/* None of these may call back into the session. */
struct mcp_out {
	/* `message` is the callee's; NULL with last: no answer comes. */
	void (*send)(void *ctx, void *stream, json_t *message, bool last);
	/* Calls have ended: a transport that paused the client may read again. */
	void (*wake)(void *ctx);
	/*
	 * Or NULL: the client does not read what it is sent. Progress and log lines are not for it then, and of changes
	 * it hears once mcp_session_drained was called.
	 */
	bool (*lags)(void *ctx);
	/* Or NULL: so much is buffered that no further call is started. */
	bool (*full)(void *ctx);
};

struct mcp_session_options {
	struct event_base *base;
	const struct mcp_config *config;
	const char *transport; /* as connect_channel names it: stdio, http_json, sse */
	const char *principal; /* who the client is as far as the transport knows; part of request states */
	bool shared;           /* by several clients: nothing is allowed for longer than once */
	struct mcp_out out;
	void *ctx;
};

enum mcp_hint { MCP_HINT_NONE, MCP_HINT_LEGACY, MCP_HINT_MODERN };

/* Never fails; the daemon is connected when the first call needs it. */
struct mcp_session *mcp_session_new(const struct mcp_session_options *o);
/*
 * The client has gone: everything of it that runs in the foreground is terminated, nothing is sent any more. May be
 * called at any time; the loop must go on for a moment so that the daemon can be told.
 */
void mcp_session_free(struct mcp_session *m);

/* The gateway is about to exit: ends listening calls with a result, as the protocol requires. mcp_session_free follows.
 */
void mcp_session_shutdown(struct mcp_session *m);

/*
 * One message, taken over: an object, or what is wrong is answered. `hint` is what the transport knows of its era
 * (HTTP's header). A request always leads to exactly one send with `last`, now or later; notifications and responses to
 * none, unless `stream` is not NULL: then to one with NULL and `last`.
 */
void mcp_session_feed(struct mcp_session *m, json_t *message, void *stream, enum mcp_hint hint);
/* How long the next message is, where the transport knows: many long ones hold the client back sooner than many short
 * ones. */
void mcp_session_note_size(struct mcp_session *m, size_t bytes);
/* A line that is not JSON, or too long. The id may be NULL. */
void mcp_session_bad(struct mcp_session *m, void *stream, json_t *id, int code, const char *message);
/* out.lags has ended: notifies the client once of each resource and task that changed meanwhile. */
void mcp_session_drained(struct mcp_session *m);
/* The stream was closed. cancel (modern HTTP): its request is cancelled. Otherwise it continues, without a stream. */
void mcp_session_stream_closed(struct mcp_session *m, void *stream, bool cancel);

bool mcp_session_busy(const struct mcp_session *m);      /* the limit of calls in progress is reached */
bool mcp_session_is_legacy(const struct mcp_session *m); /* initialize was accepted */
const struct mcp_config *mcp_session_config(const struct mcp_session *m);
struct mcp_client_state *mcp_session_client_state(struct mcp_session *m); /* the tools' state of this client */
const char *mcp_session_version(const struct mcp_session *m);             /* the legacy version agreed on, or NULL */

/* Notifies subscribers that the resource has changed. */
void mcp_session_resource_updated(struct mcp_session *m, const char *uri);
/* Tells clients that the lists of tools, prompts or resources have changed. `what`: "tools", "prompts",
 * "resources". */
void mcp_session_list_changed(struct mcp_session *m, const char *what);

#endif
