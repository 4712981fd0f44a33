#include "supervisor/control/item.h"

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <string.h>

#define SHOWN_MAX 7

/* How an event becomes an item: its kind, which of its ids is the item's, which members of the payload it shows. */
static const struct item_rule {
	enum event_type type; /* of the item; 0 (no item type has that number) = none */
	const char *kind;
	enum id_field id;
	enum item_shape {
		WHOLE,     /* has a beginning and an end */
		AT_ONCE,   /* one event only: the event's status belongs to something else */
		REASONING, /* of a model's request, which has the id itself */
	} shape;
	const char *status; /* unless the event says one */
	const char *shown[SHOWN_MAX];
} rules[EVENT_TYPE_COUNT] = {
#define STARTED EVENT_ITEM_STARTED
#define UPDATED EVENT_ITEM_UPDATED
#define COMPLETED EVENT_ITEM_COMPLETED
	[EVENT_TURN_SUBMITTED] = { COMPLETED,
				   "user_message",
				   ID_TURN,
				   AT_ONCE,
				   "completed",
				   { "preview", "inputRef", "source" } },
	[EVENT_MODEL_REQUESTED] = { STARTED,
				    "agent_message",
				    ID_MODEL_REQUEST,
				    WHOLE,
				    "running",
				    { "provider", "model" } },
	[EVENT_MODEL_DELTA] = { UPDATED,
				"agent_message",
				ID_MODEL_REQUEST,
				WHOLE,
				"running",
				{ "index", "text", "part" } },
	[EVENT_MODEL_COMPLETED] = { COMPLETED,
				    "agent_message",
				    ID_MODEL_REQUEST,
				    WHOLE,
				    "completed",
				    { "usage", "stopReason", "outputRef" } },
	[EVENT_MODEL_FAILED] = { COMPLETED,
				 "agent_message",
				 ID_MODEL_REQUEST,
				 WHOLE,
				 "failed",
				 { "category", "message", "retryable" } },
	[EVENT_REASONING_DELTA] = { UPDATED, "reasoning", ID_MODEL_REQUEST, REASONING, "running", { "text", "ref" } },
	[EVENT_REASONING_SUMMARY] = { COMPLETED,
				      "reasoning",
				      ID_MODEL_REQUEST,
				      REASONING,
				      "completed",
				      { "text", "ref" } },
	[EVENT_TOOL_STARTED] = { STARTED,
				 "tool_call",
				 ID_TOOL_CALL,
				 WHOLE,
				 "running",
				 { "toolName", "runner", "flags", "part" } },
	[EVENT_TOOL_ARGS] = { UPDATED, "tool_call", ID_TOOL_CALL, WHOLE, "running", { "safeArgs", "inputRef" } },
	[EVENT_TOOL_PROGRESS] = { UPDATED,
				  "tool_call",
				  ID_TOOL_CALL,
				  WHOLE,
				  "running",
				  { "preview", "outputRef", "offset" } },
	[EVENT_TOOL_RESULT] = { COMPLETED,
				"tool_call",
				ID_TOOL_CALL,
				WHOLE,
				"completed",
				{ "displayPreview", "rawOutputRef", "structuredContentRef", "artifactRefs",
				  "exitCode" } },
	[EVENT_TOOL_FAILED] = { COMPLETED,
				"tool_call",
				ID_TOOL_CALL,
				WHOLE,
				"failed",
				{ "category", "message", "retryable", "advice", "rawOutputRef", "exitCode" } },
	[EVENT_PROCESS_STARTED] = { STARTED,
				    "command",
				    ID_PROCESS,
				    WHOLE,
				    "running",
				    { "command", "commandLine", "cwd", "outputRefs" } },
	[EVENT_PROCESS_OUTPUT] = { UPDATED,
				   "command",
				   ID_PROCESS,
				   WHOLE,
				   "running",
				   { "stream", "offset", "length", "preview", "encoding" } },
	[EVENT_PROCESS_COMPLETED] = { COMPLETED,
				      "command",
				      ID_PROCESS,
				      WHOLE,
				      "completed",
				      { "exitCode", "signal", "durationMs", "outputs" } },
	[EVENT_PROCESS_FAILED] = { COMPLETED,
				   "command",
				   ID_PROCESS,
				   WHOLE,
				   "failed",
				   { "category", "message", "limit", "exitCode", "durationMs", "outputs" } },
	[EVENT_PROCESS_TERMINATED] = { COMPLETED,
				       "command",
				       ID_PROCESS,
				       WHOLE,
				       "cancelled",
				       { "reason", "signal", "exitCode", "durationMs", "outputs" } },
	[EVENT_ACTION_REQUIRED] = { STARTED,
				    "action",
				    ID_ACTION,
				    WHOLE,
				    "waiting",
				    { "actionType", "prompt", "decisions", "expiresAt" } },
	[EVENT_ACTION_RESOLVED] = { COMPLETED,
				    "action",
				    ID_ACTION,
				    WHOLE,
				    "completed",
				    { "decision", "source", "note" } },
	[EVENT_ARTIFACT_CHANGED] = { COMPLETED,
				     "file_change",
				     ID_ARTIFACT,
				     AT_ONCE,
				     "completed",
				     { "change", "path", "source", "bytes", "readRef", "diffRef", "versionId" } },
	[EVENT_TASK_PROGRESS] = { UPDATED,
				  "todo_list",
				  ID_TASK,
				  WHOLE,
				  "running",
				  { "plan", "phase", "step", "percent", "summary" } },
	[EVENT_RUNTIME_WARNING] = { COMPLETED,
				    "error",
				    ID_REQUEST,
				    WHOLE,
				    "completed",
				    { "code", "detail", "advice" } },
	[EVENT_RUNTIME_ERROR] = { COMPLETED, "error", ID_REQUEST, WHOLE, "failed", { "code", "detail", "advice" } },
	[EVENT_TURN_FAILED] = { COMPLETED,
				"error",
				ID_REQUEST,
				WHOLE,
				"failed",
				{ "category", "message", "retryable" } },
#undef STARTED
#undef UPDATED
#undef COMPLETED
};

bool item_is(enum event_type t)
{
	return t == EVENT_ITEM_STARTED || t == EVENT_ITEM_UPDATED || t == EVENT_ITEM_COMPLETED;
}

int item_type(const struct event_view *ev)
{
	const struct item_rule *rule = &rules[ev->type];

	if (!rule->kind || !ev->ids[ID_THREAD].text || !ev->ids[ID_TURN].text)
		return -1; /* items are steps of turns */
	if (ev->type == EVENT_TASK_PROGRESS && jval_get(event_payload(ev), "plan").type == JT_NONE)
		return -1;
	return (int)rule->type;
}

/* Errors, and items whose writer gave no id, are named after the event. */
static void write_id(const struct event_view *ev, const struct item_rule *rule, struct jval event_id, struct jw *w)
{
	const struct id_text *id = &ev->ids[rule->id];
	buf_auto struct buf text = BUF_INIT;

	if (strcmp(rule->kind, "error") != 0 && id->text)
		buf_append(&text, id->text, id->len);
	else if (rule->id == ID_MODEL_REQUEST)
		buf_append(&text, ev->ids[ID_TURN].text, ev->ids[ID_TURN].len);
	else
		jval_str_buf(event_id, &text);
	if (rule->shape == REASONING)
		buf_str(&text, ".reasoning");
	jw_kstr(w, "id", buf_cstr(&text));
}

static void write_item(const struct event_view *ev, struct jval event_id, struct jw *w)
{
	const struct item_rule *rule = &rules[ev->type];
	struct jval payload = event_payload(ev), status = event_member(ev, "status");
	const struct id_text *call = &ev->ids[ID_TOOL_CALL];

	jw_kobj(w, "item");
	write_id(ev, rule, event_id, w);
	jw_kstr(w, "kind", rule->kind);
	if (rule->type == EVENT_ITEM_COMPLETED && rule->shape != AT_ONCE && status.type == JT_STRING)
		jw_kraw(w, "status", status.text, status.len);
	else
		jw_kstr(w, "status", rule->status);
	if (rule->id == ID_PROCESS && call->text) /* the command of a tool call */
		jw_kstrn(w, "parentItemId", call->text, call->len);
	jw_kstr(w, "sourceType", event_info(ev->type)->name);
	jw_kraw(w, "sourceEventId", event_id.text, event_id.len);
	for (size_t i = 0; i < SHOWN_MAX && rule->shown[i]; i++) {
		struct jval v = jval_get(payload, rule->shown[i]);

		if (v.type != JT_NONE)
			jw_kraw(w, rule->shown[i], v.text, v.len);
	}
	jw_obj_end(w);
}

void item_json(const struct event_view *ev, struct buf *out)
{
	static const char *const kept[] = { "timestamp", "schemaVersion", "runtimeId" };
	struct jval event_id = event_member(ev, "eventId");
	buf_auto struct buf own = BUF_INIT;
	struct jw w = jw_on(out);

	jval_str_buf(event_id, &own);
	buf_str(&own, ".item");
	jw_obj(&w);
	jw_kuint(&w, "sequence", ev->sequence);
	jw_kstr(&w, "type", event_info((enum event_type)rules[ev->type].type)->name);
	jw_kstr(&w, "eventId", buf_cstr(&own));
	for (size_t i = 0; i < countof(kept); i++) {
		struct jval v = event_member(ev, kept[i]);

		if (v.type != JT_NONE)
			jw_kraw(&w, kept[i], v.text, v.len);
	}
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		if (ev->ids[f].text)
			jw_kstrn(&w, id_field_member((enum id_field)f), ev->ids[f].text, ev->ids[f].len);
	jw_kobj(&w, "payload");
	write_item(ev, event_id, &w);
	jw_obj_end(&w);
	jw_obj_end(&w);
}
