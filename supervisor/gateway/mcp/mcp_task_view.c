/* A task in the formats of the protocol and of the daemon's record. */

#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_task.h"

#include <string.h>

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
