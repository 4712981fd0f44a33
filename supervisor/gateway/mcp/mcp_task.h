#ifndef BAILIFF_MCP_TASK_H
#define BAILIFF_MCP_TASK_H

/*
 * Calls that continue without their request.
 *
 * A tool call becomes a task when a legacy client says so (params.task) or, for a modern client that has the tasks
 * extension, when the tool's row says so: immediately, or after a second, so that quick calls are answered directly.
 * The request is then answered with the task, the call continues, and its result is stored for later requests.
 *
 * Each is a task of the daemon with the same id: durable before the client gets it, completed with the result, listed
 * like any other. So a task outlives its client and its gateway: its process is not ended with them, and another
 * gateway of the same user can report it (mcp_task_load.c); so does this one when it holds too many results.
 */

#include <jansson.h>
#include <stdbool.h>

struct mcp_call;
struct mcp_call_private;
struct mcp_session;
struct mcp_task;
struct mcp_tool;

#define MCP_TASK_KIND "mcp.tools/call"
#define MCP_TASK_POLL_MS 500
#define MCP_TASK_RESULT_MAX (8u << 20) /* limit of a result that the daemon stores */
#define MCP_TASKS_EXTENSION "io.modelcontextprotocol/tasks"

enum mcp_task_status { MCP_TASK_WORKING, MCP_TASK_INPUT, MCP_TASK_COMPLETED, MCP_TASK_FAILED, MCP_TASK_CANCELLED };

/* A task as it is reported, from memory or loaded from the daemon. */
struct mcp_task_view {
	const char *id;
	enum mcp_task_status status;
	const char *message;                   /* for people, or NULL */
	const char *created, *updated;         /* RFC 3339 */
	json_int_t ttl_ms;                     /* −1: unlimited */
	const json_t *result, *error, *inputs; /* by status, or NULL */
};
/* In the format of the era; the modern one includes the result, error or questions. */
json_t *mcp_task_json(const struct mcp_session *m, const struct mcp_task_view *v, bool modern);

/* Runs the tool of a call, as a task if requested; or rejects the call. */
void mcp_task_run(struct mcp_call *c, const struct mcp_tool *t);
/* For tools that decide themselves (MCP_TASK_OWN): makes the call a task now, then calls `then`. */
void mcp_task_convert(struct mcp_call *c, void (*then)(struct mcp_call *c));
/* The call is a task or may become one, so its processes must not end with the connection. */
bool mcp_task_possible(const struct mcp_call_private *p);

/* The call has ended. `message` (borrowed) is the response that would have been sent. */
void mcp_task_ended(struct mcp_task *t, const json_t *message);
/* The number of open questions has changed. */
void mcp_task_asks(struct mcp_task *t);
void mcp_task_owns(struct mcp_task *t, const char *process_id);

/* The client disconnected: calls are detached without ending their processes. */
void mcp_tasks_detach(struct mcp_session *m);
void mcp_tasks_free(struct mcp_session *m);
/* The client reads again: sends the status of tasks that changed meanwhile. */
void mcp_tasks_notify(struct mcp_session *m);

/* mcp_task_load.c: ends the call with the state of a task that is not in memory, and with its result if `result`. */
void mcp_task_load(struct mcp_call *c, const char *id, bool result);
void mcp_task_load_list(struct mcp_call *c);
void mcp_task_load_cancel(struct mcp_call *c, const char *id);

/* The parameters of complete_task, with the result if it is not too long. *ret_len: its length; SIZE_MAX if unknown. */
json_t *mcp_task_completion(const char *id, json_t *result, size_t *ret_len);

#endif
