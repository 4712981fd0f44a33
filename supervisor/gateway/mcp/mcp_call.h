#ifndef BAILIFF_MCP_CALL_H
#define BAILIFF_MCP_CALL_H

/*
 * A request of a client in progress. A handler gets one, sends requests to the daemon, and ends it with exactly one of
 * mcp_call_finish, mcp_call_fail and mcp_call_tool_error, which free it.
 *
 * A handler never blocks: mcp_call_query sends a request to the daemon and continues in a callback. The session owns
 * the call. If the client cancels it or disconnects, the handler's `cancelled` is called if it is set, processes that
 * the call started in the foreground are terminated with their whole tree, no further callback runs, and the call is
 * freed. A handler therefore keeps all its state in `data` (freed with `data_free`).
 *
 *  static void on_list(struct mcp_call *c, json_t *result, json_t *error)
 *  {
 *      if (error)
 *          mcp_call_daemon_error(c, "list processes", error);
 *      else
 *          mcp_call_finish(c, mcp_call_text(…));
 *  }
 *  void mcp_tool_ps(struct mcp_call *c)
 *  {
 *      mcp_call_query(c, "list_processes", json_pack("{ss}", "sessionId", gateway_session_id(c->up)), on_list);
 *  }
 *
 * Questions to the client's user look the same in both eras. The handler names them and passes the state to keep:
 *
 *  mcp_call_question(c, "approve", "elicitation/create", params);
 *  mcp_call_ask(c, json_pack("{ss}", "processId", id), on_answers);
 *
 * A legacy client is sent the requests, and on_answers runs in the same call. A modern client gets a result that asks
 * for input, with the kept state in a signed request state, and calls again; the handler then runs again with that
 * state in `kept` (NULL in the first round), reaches the same mcp_call_question and mcp_call_ask, and on_answers runs
 * immediately. A handler must therefore check `kept` before it starts anything.
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
	void *data;                 /* private to the handler */
	void (*data_free)(void *data);
	mcp_call_fn cancelled; /* set by the handler, or NULL; must not finish the call */
	struct mcp_call_private *priv;
};

/* ---- end ---- */

/* The result of the method; ownership is taken. Members of the protocol (resultType, ttlMs …) are added. */
void mcp_call_finish(struct mcp_call *c, json_t *result);
/* A JSON-RPC error: the request itself is invalid. Takes ownership of data, which may be NULL. */
void mcp_call_fail(struct mcp_call *c, int code, json_t *data, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* tools/call: a result with isError, which the model reads. */
void mcp_call_tool_error(struct mcp_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for an error of the daemon: its message and advice. `what` is the operation that failed. */
void mcp_call_daemon_error(struct mcp_call *c, const char *what, const json_t *error);

/* {content: [{type: text, text}]}, to be finished with; invalid UTF-8 is replaced. */
json_t *mcp_call_text(const char *text, size_t n);
/*
 * Ends tools/call with a text for the model and the same facts as structuredContent, which is sent only with
 * --structured. Takes ownership of `structured`. `failed`: the result is an error for the model.
 */
struct buf;
void mcp_call_reply(struct mcp_call *c, const struct buf *words, json_t *structured, bool failed);

/* ---- in progress ---- */

/* A read-only request to the daemon. Takes ownership of params, which may be NULL. */
void mcp_call_query(struct mcp_call *c, const char *method, json_t *params, mcp_call_reply_fn fn);
/* Two frequent ones: get_process, and read_output, whose data is base64. */
void mcp_call_get_process(struct mcp_call *c, const char *process_id, mcp_call_reply_fn fn);
void mcp_call_read_output(struct mcp_call *c, const char *ref, uint64_t offset, uint64_t length, mcp_call_reply_fn fn);
/* For `data_free`: data is a json_t. */
void mcp_call_free_json(void *data);
/* A mutating request: idempotent, with the client's trace context. */
void mcp_call_mutate(struct mcp_call *c, const char *method, json_t *params, mcp_call_reply_fn fn);
/* The same without a reply: neither the call nor a closing session waits for it. */
void mcp_call_mutate_async(struct mcp_call *c, const char *method, json_t *params);
/*
 * start_process in the client's session. In the foreground: onDisconnect is "terminate", and cancelling the call
 * terminates the process. Otherwise "keep": the process outlives the call and the client.
 */
void mcp_call_start(struct mcp_call *c, json_t *params, bool foreground, mcp_call_reply_fn fn);
/*
 * With the authority of the user, who answered through the client: apply_changes, discard_changes. Only after
 * mcp_call_answer was a yes.
 */
void mcp_call_decide(struct mcp_call *c, const char *method, json_t *params, mcp_call_reply_fn fn);
/* Adds a process that is terminated when the call is cancelled, or removes one. */
void mcp_call_add_process(struct mcp_call *c, const char *process_id);
void mcp_call_remove_process(struct mcp_call *c, const char *process_id);
/* Calls fn after this many milliseconds. There is one timer per call; setting it again replaces it. */
void mcp_call_set_timer(struct mcp_call *c, unsigned ms, mcp_call_fn fn);
/* Calls `event` for each event of the session while the call is in progress; NULL: stop. */
void mcp_call_watch(struct mcp_call *c, void (*event)(struct mcp_call *c, struct jval event));

/*
 * Reports progress if the client requested it. progress and total < 0: unknown; the elapsed time is used as progress.
 * Values that do not increase are not sent. If the handler reports nothing, heartbeats keep the call alive.
 */
void mcp_call_progress(struct mcp_call *c, double progress, double total, const char *message);
/*
 * Sends a log message if the client requested this level: debug info notice warning error critical alert emergency.
 * Takes ownership of data.
 */
void mcp_call_log(struct mcp_call *c, const char *level, const char *logger, json_t *data);

/* The client's working tree as it reported it (mcp_workspace.h), or NULL. */
const char *mcp_call_root(const struct mcp_call *c);

/* The call continues after its request was answered, so it has no deadline. */
bool mcp_call_is_task(const struct mcp_call *c);

/* ---- questions ---- */

/* The client has a capability: "elicitation.form", "sampling", "roots". */
bool mcp_call_can(const struct mcp_call *c, const char *capability);
/* Fails the call because the client lacks this capability: modern -32021, legacy a tool error. */
void mcp_call_lacks(struct mcp_call *c, const char *capability);
/*
 * Adds a question to the next mcp_call_ask. method: elicitation/create, sampling/createMessage, roots/list. Takes
 * ownership of params.
 */
void mcp_call_question(struct mcp_call *c, const char *key, const char *method, json_t *params);
/*
 * Asks the questions added before. Takes ownership of keep, which may be NULL. The handler must have checked the
 * capability with mcp_call_can.
 */
void mcp_call_ask(struct mcp_call *c, json_t *keep, mcp_call_fn answered);
/* The question was dismissed (declined, cancelled) faster than a person can read it, so by a client without a user. */
bool mcp_call_dismissed_unread(const struct mcp_call *c, const char *key);
/*
 * Drops answers that came with a first call: a yes is valid only for a question that was asked. Call it before asking.
 */
void mcp_call_clear_answers(struct mcp_call *c);
/*
 * The client's result for a question; NULL if it failed, timed out, or does not match the question. Valid until the
 * call ends.
 */
json_t *mcp_call_answer(const struct mcp_call *c, const char *key);

/*
 * A process waits for approval (start_process returned waiting_permission): asks the client's user and sends the answer
 * to the daemon with the user's authority. `started` is start_process's result, or the part that was kept: {processId,
 * actionId, permissionDecision}. `fn` is called with the outcome:
 */
enum mcp_approval {
	MCP_ALLOWED, /* the process is being started; follow it with wait_process and events */
	MCP_DENIED,  /* denied or dismissed: the process will not run */
	MCP_WAITS,   /* the client cannot ask, or did not answer: an operator still can */
};
void mcp_call_approve(struct mcp_call *c, const json_t *started, const char *question,
		      void (*fn)(struct mcp_call *c, enum mcp_approval a));
/*
 * For a call that is repeated with an answer: the `started` to pass to mcp_call_approve, or NULL. Handlers that start
 * processes check it first.
 */
const json_t *mcp_call_approving(const struct mcp_call *c);

#endif
