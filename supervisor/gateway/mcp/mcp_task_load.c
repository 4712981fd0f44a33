/*
 * Tasks that are not in this gateway's memory: tasks of another gateway of the same user, or of one that has exited.
 * The daemon has the record. If the gateway that created the task exited before its end, the state is derived from the
 * process.
 */

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_task.h"
#include "supervisor/gateway/mcp/mcp_version.h"
#include "supervisor/gateway/mcp/mcp_wait_process.h"

#include <string.h>

/* ---- formats ---- */

/* A task in the formats of the protocol and of the daemon's record. */

#define INLINE_MAX 7500u /* limit of a result inside the daemon's record; longer ones are stored behind a ref */

json_t *mcp_task_json(const struct mcp_session *m, const struct mcp_task_view *v, bool modern)
{
	static const char *const names[] = {
		[MCP_TASK_WORKING] = "working", [MCP_TASK_INPUT] = "input_required", [MCP_TASK_COMPLETED] = "completed",
		[MCP_TASK_FAILED] = "failed",   [MCP_TASK_CANCELLED] = "cancelled",
	};
	json_t *t = json_pack("{ss ss ss ss}", "taskId", v->id, "status", names[v->status], "createdAt", v->created,
			      "lastUpdatedAt", v->updated);

	json_object_set_new(t, modern ? "ttlMs" : "ttl", v->ttl_ms < 0 ? json_null() : json_integer(v->ttl_ms));
	json_object_set_new(t, modern ? "pollIntervalMs" : "pollInterval", json_integer(MCP_TASK_POLL_MS));
	if (v->message)
		json_object_set_new(t, "statusMessage", json_string(v->message));
	if (modern && v->status == MCP_TASK_COMPLETED) {
		json_object_set_new(t, "result", json_deep_copy(v->result));
		mcp_call_plain(m, json_object_get(t, "result"));
	}
	if (modern && v->status == MCP_TASK_FAILED)
		json_object_set_new(t, "error", json_deep_copy(v->error));
	if (modern && v->status == MCP_TASK_INPUT)
		json_object_set_new(t, "inputRequests", json_deep_copy(v->inputs));
	return t;
}

json_t *mcp_task_completion(const char *id, json_t *result, size_t *ret_len)
{
	json_t *params = json_pack("{ss}", "taskId", id);
	/* ASCII, so that it can be cut anywhere. */
	mem_auto char *text = json_dumps(result, JSON_COMPACT | JSON_ENSURE_ASCII);
	size_t len = text ? strlen(text) : SIZE_MAX;

	if (len <= INLINE_MAX)
		json_object_set_new(params, "outputs", json_pack("[{ss sO}]", "name", "mcp.result", "value", result));
	else if (len <= MCP_TASK_RESULT_MAX)
		json_object_set_new(params, "outputs",
				    json_pack("[{ss ss ss}]", "name", "mcp.result", "mediaType", "application/json",
					      "content", text));
	*ret_len = len;
	return params;
}

#define PIECE (1u << 20)

struct recall {
	json_t *task; /* the daemon's record */
	bool result;  /* tasks/result */
	char ref[72]; /* the output that holds a long result */
	char process[72];
	struct buf text;
};

static void recall_free(void *data)
{
	struct recall *r = data;

	json_decref(r->task);
	buf_done(&r->text);
	free(r);
}

/* {value} or {outputRef}; NULL: no result was stored. */
static const json_t *kept_result(const json_t *task)
{
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(task, "outputs"), i, one)
		if (json_text_is(one, "name", "mcp.result"))
			return one;
	return NULL;
}

static void finish_load(struct mcp_call *c, const struct recall *r, enum mcp_task_status status, const json_t *result)
{
	const json_t *task = r->task;
	bool modern = c->priv->era == MCP_MODERN;
	json_auto_t *error = json_pack("{si ss}", "code", RPC_INTERNAL_ERROR, "message", "the call failed");
	const struct mcp_task_view v = {
		.id = json_get_text(task, "taskId"),
		.status = status,
		.created = json_get_text(task, "createdAt"),
		.updated = json_get_text(task, "updatedAt"),
		.ttl_ms = -1,
		.result = result,
		.error = error,
	};

	if (!r->result) {
		mcp_call_finish(c, mcp_task_json(c->mcp, &v, modern));
	} else if (status != MCP_TASK_COMPLETED) {
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "taskId: the task has no result");
	} else {
		json_t *copy = json_deep_copy(result);

		json_object_set_new(copy, "_meta", json_pack("{s{ss}}", MCP_META "related-task", "taskId", v.id));
		mcp_call_finish(c, copy);
	}
}

static void fail_lost(struct mcp_call *c)
{
	mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "taskId: no record of this task is left");
}

/* ---- from the process ---- */

static void on_report(struct mcp_call *c, json_t *report, void *with)
{
	const struct recall *r = with;
	json_auto_t *result = report;
	size_t len;

	if (!result)
		return fail_lost(c);
	/* The gateway that created the task is gone, so complete it here. If it is not, the first completion wins. */
	gateway_session_mutate(c->up, "complete_task",
			       mcp_task_completion(json_get_text(r->task, "taskId"), result, &len), NULL, NULL, NULL);
	finish_load(c, r, MCP_TASK_COMPLETED, result);
}

/* Reported like the tool would have done. */
static void on_process(struct mcp_call *c, json_t *process, json_t *error)
{
	struct recall *r = c->data;

	if (error) {
		fail_lost(c);
	} else if (json_get_flag(process, "timedOut")) {
		finish_load(c, r, MCP_TASK_WORKING, NULL);
	} else {
		c->data = NULL;
		c->data_free = NULL;
		mcp_wait_process(c, &(struct mcp_wait_process_options){ .process_id = r->process,
									.budget = MCP_WAIT_PROCESS_BUDGET,
									.from_start = true,
									.then = on_report,
									.with = r,
									.with_free = recall_free });
	}
}

static void wait_process(struct mcp_call *c)
{
	const struct recall *r = c->data;

	mcp_call_query(c, "wait_process",
		       r->result ? json_pack("{ss ss}", "processId", r->process, "until", "command")
				 : json_pack("{ss ss si}", "processId", r->process, "until", "command", "timeoutMs", 0),
		       on_process);
}

/* The record names the process. */
static bool read_process_id(struct recall *r)
{
	snprintf(r->process, sizeof(r->process), "%s", json_get_text(json_object_get(r->task, "scope"), "processId"));
	return r->process[0];
}

/*
 * A gateway that exited early may have started the process without recording it in the task; the process itself has the
 * id of its task.
 */
static void find_process(struct mcp_call *c, mcp_call_reply_fn then)
{
	const struct recall *r = c->data;

	mcp_call_query(c, "list_processes",
		       json_pack("{ss ss si}", "taskId", json_get_text(r->task, "taskId"), "sessionId",
				 json_get_text(r->task, "sessionId"), "limit", 1),
		       then);
}

static void read_listed_process(struct recall *r, const json_t *listed)
{
	snprintf(r->process, sizeof(r->process), "%s",
		 json_get_text(json_array_get(json_object_get(listed, "processes"), 0), "processId"));
}

static void on_started(struct mcp_call *c, json_t *result, json_t *error)
{
	struct recall *r = c->data;

	read_listed_process(r, result);
	if (r->process[0])
		wait_process(c);
	else
		finish_load(c, r, MCP_TASK_CANCELLED, NULL);
}

static void query_process(struct mcp_call *c)
{
	if (read_process_id(c->data))
		wait_process(c);
	else
		find_process(c, on_started);
}

/* ---- from the stored result ---- */

static void read_piece(struct mcp_call *c);

static void on_piece(struct mcp_call *c, json_t *result, json_t *error)
{
	struct recall *r = c->data;
	const json_t *data = json_object_get(result, "data");

	buf_append(&r->text, json_string_value(data) ?: "", json_string_length(data));
	if (!error && json_string_length(data) == PIECE)
		return read_piece(c);
	json_auto_t *whole = error ? NULL : json_loadb(buf_cstr(&r->text), r->text.len, 0, NULL);
	if (whole)
		finish_load(c, r, MCP_TASK_COMPLETED, whole);
	else
		query_process(c); /* retention has removed it */
}

static void read_piece(struct mcp_call *c)
{
	const struct recall *r = c->data;

	mcp_call_query(c, "read_output",
		       json_pack("{ss sI sI}", "outputRef", r->ref, "offset", (json_int_t)r->text.len, "length",
				 (json_int_t)PIECE),
		       on_piece);
}

static void on_task(struct mcp_call *c, json_t *task, json_t *error)
{
	struct recall *r = c->data;
	const char *status = json_get_text(task, "status");
	const json_t *kept = kept_result(task);

	if (error || !json_text_is(task, "taskKind", MCP_TASK_KIND))
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "taskId: there is no such task");
	r->task = json_incref(task);
	snprintf(r->ref, sizeof(r->ref), "%s", json_get_text(kept, "outputRef"));
	if (json_object_get(kept, "value"))
		finish_load(c, r, MCP_TASK_COMPLETED, json_object_get(kept, "value"));
	else if (r->ref[0])
		read_piece(c);
	else if (strcmp(status, "failed") == 0)
		finish_load(c, r, MCP_TASK_FAILED, NULL);
	else if (strcmp(status, "cancelled") == 0 || strcmp(status, "cancelling") == 0)
		finish_load(c, r, MCP_TASK_CANCELLED, NULL);
	else
		query_process(c);
}

static void start_load(struct mcp_call *c, bool result)
{
	struct recall *r = mem_zalloc(1, sizeof(*r));

	r->result = result;
	c->data = r;
	c->data_free = recall_free;
}

void mcp_task_load(struct mcp_call *c, const char *id, bool result)
{
	start_load(c, result);
	mcp_call_query(c, "get_task", json_pack("{ss}", "taskId", id), on_task);
}

/* ---- list ---- */

static enum mcp_task_status status_of(const char *status)
{
	if (strcmp(status, "completed") == 0)
		return MCP_TASK_COMPLETED;
	if (strcmp(status, "failed") == 0 || strcmp(status, "timed_out") == 0 || strcmp(status, "lost") == 0)
		return MCP_TASK_FAILED;
	if (strcmp(status, "cancelled") == 0 || strcmp(status, "cancelling") == 0)
		return MCP_TASK_CANCELLED;
	return strncmp(status, "waiting", 7) == 0 ? MCP_TASK_INPUT : MCP_TASK_WORKING;
}

static void on_list(struct mcp_call *c, json_t *result, json_t *error)
{
	const char *next = json_get_string(result, "nextCursor");
	json_t *tasks, *one;
	size_t i;

	if (error)
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "cursor: %s", json_get_text(error, "message"));
	tasks = json_array();
	json_array_foreach (json_object_get(result, "tasks"), i, one) {
		const struct mcp_task_view v = {
			.id = json_get_text(one, "taskId"),
			.status = status_of(json_get_text(one, "status")),
			.created = json_get_text(one, "createdAt"),
			.updated = json_get_text(one, "updatedAt"),
			.ttl_ms = -1,
		};

		if (json_text_is(one, "taskKind", MCP_TASK_KIND))
			json_array_append_new(tasks, mcp_task_json(c->mcp, &v, false));
	}
	json_t *all = json_pack("{so}", "tasks", tasks);
	if (next)
		json_object_set_new(all, "nextCursor", json_string(next));
	mcp_call_finish(c, all);
}

void mcp_task_load_list(struct mcp_call *c)
{
	json_t *cursor = json_object_get(c->params, "cursor"), *params = json_pack("{si}", "limit", 100);

	if (cursor && !json_is_string(cursor)) {
		json_decref(params);
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "cursor: was not issued by this server");
		return;
	}
	if (cursor)
		json_object_set(params, "cursor", cursor);
	mcp_call_query(c, "list_tasks", params, on_list);
}

/* ---- cancellation ---- */

static void finish_cancelled(struct mcp_call *c)
{
	const struct recall *r = c->data;

	if (r->process[0])
		gateway_session_terminate(c->up, r->process, "cancelled");
	if (c->priv->era == MCP_MODERN)
		mcp_call_finish(c, json_object());
	else
		finish_load(c, r, MCP_TASK_CANCELLED, NULL);
}

static void on_found(struct mcp_call *c, json_t *result, json_t *error)
{
	read_listed_process(c->data, result);
	finish_cancelled(c);
}

static void on_cancelled(struct mcp_call *c, json_t *result, json_t *error)
{
	struct recall *r = c->data;

	if (error && c->priv->era == MCP_LEGACY) {
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "taskId: %s", json_get_text(error, "message"));
	} else if (error ||
		   read_process_id(
			   r)) { /* on error there is nothing to terminate: it has ended, or belongs to another user */
		finish_cancelled(c);
	} else {
		find_process(c, on_found);
	}
}

static void on_to_cancel(struct mcp_call *c, json_t *task, json_t *error)
{
	struct recall *r = c->data;

	if (error || !json_text_is(task, "taskKind", MCP_TASK_KIND))
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "taskId: there is no such task");
	r->task = json_incref(task);
	mcp_call_mutate(
		c, "cancel_task",
		json_pack("{ss ss}", "taskId", json_get_text(task, "taskId"), "reason", "cancelled by the client"),
		on_cancelled);
}

void mcp_task_load_cancel(struct mcp_call *c, const char *id)
{
	start_load(c, false);
	mcp_call_query(c, "get_task", json_pack("{ss}", "taskId", id), on_to_cancel);
}
