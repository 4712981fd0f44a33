#include "runtime/view/projections.h"

bool tool_call_on_started(struct projection *p, void *doc)
{
	struct tool_call_doc *d = doc;

	d->connection = jval_uint(jval_get(jval_get(p->payload, "owner"), "connection"), VIEW_ABSENT);
	return true;
}

bool tool_call_on_progress(struct projection *p, void *doc)
{
	struct jval preview = jval_get(p->payload, "preview");

	((struct tool_call_doc *)doc)->displayPreview = preview;
	return preview.type == JT_STRING;
}

/* A call that was denied before it started (`stage`) is first seen here. */
bool tool_call_on_ended(struct projection *p, void *doc)
{
	struct tool_call_doc *d = doc;

	if (!d->startedAt && jval_get(p->payload, "stage").type == JT_STRING) {
		view_copy_string(d->toolName, jval_get(p->payload, "toolName"));
		d->part = jval_uint(jval_get(p->payload, "part"), VIEW_ABSENT);
		projection_list(p, true, VIEW_TURN_TOOL_CALL, d->turnId, d->toolCallId);
	}
	return true;
}

/* The process that runs the call. Only the runtime's own: start_process accepts any tool call id. */
int view_tool_call_on_process(struct models *m, const struct event_view *ev, struct err *e)
{
	static const struct projection_op ops[] = {
		{ OP_EVENT_ID, offsetof(struct tool_call_doc, processId), .id = ID_PROCESS },
		{ OP_END },
	};

	if (!jval_is_str(jval_get(jval_get(event_payload(ev), "owner"), "kind"), "tool"))
		return 0;
	return projection_run(m, ev, &tool_call_schema, ops, NULL, e);
}

/* A hook ran after the call. Its answer stays until another hook gives one. */
bool tool_call_on_hook(struct projection *p, void *doc)
{
	struct jval refs = jval_get(p->payload, "additionalContextRefs"), point = jval_get(p->payload, "hookPoint");
	struct jval reason = jval_get(p->payload, "reason"), output = jval_get(p->payload, "updatedToolOutputRef");
	struct tool_call_doc *d = doc;

	if (!jval_is_str(point, "post_tool_use") && !jval_is_str(point, "post_tool_failure"))
		return false;
	if (refs.type == JT_ARRAY && refs.len > 2)
		d->hookContextRefs = refs;
	if (reason.type == JT_STRING)
		d->hookReason = reason;
	if (output.type == JT_STRING)
		d->updatedOutputRef = output;
	return true;
}
