#ifndef BAILIFF_MCP_CALL_H
#define BAILIFF_MCP_CALL_H

/*
 * A request of a client in progress. A handler gets one, sends requests to the daemon, and ends it with exactly one of
 * mcp_call_finish, mcp_call_fail and mcp_call_tool_error, which free it.
 *
 * A handler never waits: mcp_call_query sends a request to the daemon and goes on in a callback. The call belongs to
 *the session; if the client cancels it or vanishes, the handler's `cancelled` is called if it set one, processes that
 *the call started in the foreground are terminated with their whole tree, no callback comes any more, and the call is
 *freed. So a handler keeps its state in `data` (freed with `data_free`) and nowhere else.
 *
 *	static void on_list(struct mcp_call *c, json_t *result, json_t *error)
 *	{
 *		if (error)
 *			mcp_call_daemon_error(c, "list processes", error);
 *		else
 *			mcp_call_finish(c, mcp_call_text(c, …));
 *	}
 *	void mcp_tool_ps(struct mcp_call *c)
 *	{
 *		mcp_call_query(c, "list_processes", json_pack("{ss}", "sessionId", gateway_session_id(c->up)), on_list);
 *	}
 *
 * Questions to the client's user look the same in both eras. The handler names them and passes the state to keep:
 *
 *	mcp_call_question(c, "approve", "elicitation/create", params);
 *	mcp_call_ask(c, json_pack("{ss}", "processId", id), on_answers);
 *
 * A legacy client is sent the requests, and on_answers runs in the same call. A modern client gets a result that asks
 * for input, with the kept state in a signed request state, and calls again; the handler then runs again with that
 *state in `kept` (NULL in the first round), reaches the same mcp_call_question and mcp_call_ask, and on_answers runs
 * immediately. So a handler checks `kept` before it starts anything.
 */

#include "supervisor/gateway/common/gateway_session.h"

#include <jansson.h>
#include <stdbool.h>

struct mcp_call;
struct mcp_session;
struct mcp_tool;

enum mcp_era { MCP_LEGACY = 1, MCP_MODERN = 2, MCP_BOTH = 3 };

enum {
	MCP_RESOURCE_NOT_FOUND = -32002, /* legacy; modern is RPC_INVALID_PARAMS */
	MCP_HEADER_MISMATCH = -32020,
	MCP_CAPABILITY_MISSING = -32021,
	MCP_VERSION_UNSUPPORTED = -32022,
};

typedef void (*mcp_call_fn)(struct mcp_call *c);
typedef void (*mcp_call_reply_fn)(struct mcp_call *c, json_t *result, json_t *error);

struct mcp_call {
	struct mcp_session *mcp;
	struct gateway_session *up; /* the daemon; ready */
	json_t *params;             /* the request's; an object */
	json_t *arguments;          /* of tools/call and prompts/get; an object, valid by the tool's input schema */
	const char *name;           /* of the tool or prompt */
	const char *uri;            /* of the resource */
	json_t *vars;               /* the variables of a resource template, unescaped */
	json_t *kept;               /* the state kept by an earlier round; NULL in the first */
	void *data;                 /* the handler's */
	void (*data_free)(void *data);
	mcp_call_fn cancelled; /* the handler's, or NULL; it must not finish the call */
	struct mcp_call_private *priv;
};

/* ---- the end ---- */

/* The result of the method, taken over. Members of the protocol (resultType, ttlMs …) are added. */
void mcp_call_finish(struct mcp_call *c, json_t *result);
/* A JSON-RPC error: the request itself is invalid. data may be NULL and is taken over. */
void mcp_call_fail(struct mcp_call *c, int code, json_t *data, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* tools/call: a result with isError, which the model reads. */
void mcp_call_tool_error(struct mcp_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for an error of the daemon: its message and advice. `what` is the operation that failed. */
void mcp_call_daemon_error(struct mcp_call *c, const char *what, const json_t *error);

/* {content: [{type: text, text}]}, to be finished with; invalid UTF-8 is replaced. */
json_t *mcp_call_text(const char *text, size_t n);
/* Adds structuredContent, which only gateways with --structured send. Both are taken over. Returns result. */
json_t *mcp_call_structured(json_t *result, json_t *structured);

/* ---- on the way ---- */

/* A reading request to the daemon. params is taken over, may be NULL. */
void mcp_call_query(struct mcp_call *c, const char *method, json_t *params, mcp_call_reply_fn fn);
/* One that changes something: idempotent, with the client's trace context. */
void mcp_call_mutate(struct mcp_call *c, const char *method, json_t *params, mcp_call_reply_fn fn);
/* The same without a reply: neither the call nor a closing session waits for it. */
void mcp_call_mutate_async(struct mcp_call *c, const char *method, json_t *params);
/*
 * start_process in the client's session. Of the foreground: with onDisconnect "terminate", and the call's cancellation
 * ends it. Otherwise "keep", and it outlives the call and the client.
 */
void mcp_call_start(struct mcp_call *c, json_t *params, bool foreground, mcp_call_reply_fn fn);
/* With the user's authority, given through the client: apply_changes, discard_changes. Only after mcp_call_answer was a
 * yes. */
void mcp_call_decide(struct mcp_call *c, const char *method, json_t *params, mcp_call_reply_fn fn);
/* A process that cancellation ends, and one that it no longer does. */
void mcp_call_add_process(struct mcp_call *c, const char *process_id);
void mcp_call_remove_process(struct mcp_call *c, const char *process_id);
/* fn after this many milliseconds; one at a time, a new one replaces it. */
void mcp_call_set_timer(struct mcp_call *c, unsigned ms, mcp_call_fn fn);
/* Each event of the session while the call is under way; or NULL. */
void mcp_call_watch(struct mcp_call *c, void (*event)(struct mcp_call *c, struct jval event));

/*
 * Progress, if the client asked for it. progress and total < 0: not known, then time goes on. What does not increase is
 * not sent. A call that says nothing is kept alive by heartbeats without the handler's help.
 */
void mcp_call_progress(struct mcp_call *c, double progress, double total, const char *message);
/* A log line for the client, if it asked for this level: debug info notice warning error critical alert emergency. data
 * is taken over. */
void mcp_call_log(struct mcp_call *c, const char *level, const char *logger, json_t *data);

/* The client's working tree as it reported it (mcp_roots.h), or NULL. */
const char *mcp_call_root(const struct mcp_call *c);

/* It continues without its request: there is no deadline for the reply. */
bool mcp_call_is_task(const struct mcp_call *c);

/* ---- questions ---- */

/* Whether the client has a capability: "elicitation.form", "sampling", "roots". */
bool mcp_call_can(const struct mcp_call *c, const char *capability);
/* Fails the call because the client lacks this capability: modern -32021, legacy a tool error. */
void mcp_call_lacks(struct mcp_call *c, const char *capability);
/* One question of the next mcp_call_ask. method: elicitation/create, sampling/createMessage, roots/list. params is
 * taken over. */
void mcp_call_question(struct mcp_call *c, const char *key, const char *method, json_t *params);
/* Asks what was named. keep is taken over, may be NULL. Asking without the capability is a bug of the handler: see
 * mcp_call_can. */
void mcp_call_ask(struct mcp_call *c, json_t *keep, mcp_call_fn answered);
/* Whether it was dismissed (declined, cancelled) faster than a person can read it, so by a client without a user. */
bool mcp_call_dismissed_unread(const struct mcp_call *c, const char *key);
/* Drops answers that came with a first call: a yes counts only for a question that was asked. Call it before asking. */
void mcp_call_clear_answers(struct mcp_call *c);
/* The client's result for a question, or NULL: it failed, timed out, or is not what was asked for. Until the call ends.
 */
json_t *mcp_call_answer(const struct mcp_call *c, const char *key);

/*
 * A process waits for permission (start_process said waiting_permission): ask the client's user, and bring the answer
 * to the daemon as theirs. `started` is start_process's result, or what was kept of it: {processId, actionId,
 * permissionDecision}. The handler is called with what became of it:
 */
enum mcp_approval {
	MCP_ALLOWED, /* the process is being started; wait_process and events tell more */
	MCP_DENIED,  /* or dismissed: the process will not run */
	MCP_WAITS,   /* the client cannot ask, or did not answer: an operator may */
};
void mcp_call_approve(struct mcp_call *c, const json_t *started, const char *question,
		      void (*fn)(struct mcp_call *c, enum mcp_approval a));
/* Of a call that is repeated with an answer: what approve needs, or NULL. Handlers that start processes begin with
 * this. */
const json_t *mcp_call_approving(const struct mcp_call *c);

#endif
