#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/view/view.h"
#include "supervisor/control/control.h"
#include "supervisor/host/config.h"

#include <string.h>

#define TYPE_MAX 64u
#define NOTE_MAX 4096u
#define SCHEMA_MAX 16384u
#define PAYLOAD_MAX 16384u

void method_request_action(struct call *c, const struct request_action_params *p)
{
	json_t *schema = p->schema, *decisions = p->decisions;
	mem_auto char *schema_json = schema ? json_dumps(schema, JSON_COMPACT) : NULL;
	mem_auto char *decisions_json = decisions ? json_dumps(decisions, JSON_COMPACT) : NULL;
	const struct action_request r = {
		.turn_id = p->turnId,
		.task_id = p->taskId,
		.action_type = p->actionType,
		.prompt = p->prompt,
		.schema_json = schema_json,
		.decisions_json = decisions_json,
		.default_decision = p->defaultDecision,
		.timeout_ms = p->timeoutMs.value,
	};
	struct err e = ERR_INIT;

	if (!r.action_type[0] || strlen(r.action_type) > TYPE_MAX)
		err_field(&e, "actionType", "must have 1 to %u bytes", TYPE_MAX);
	else if (schema_json && strlen(schema_json) > SCHEMA_MAX)
		err_field(&e, "schema", "must have at most %u bytes as JSON", SCHEMA_MAX);
	else if (decisions_json && strlen(decisions_json) > TYPE_MAX * 16)
		err_field(&e, "decisions", "are too long");
	else if (r.default_decision && strlen(r.default_decision) > TYPE_MAX)
		err_field(&e, "defaultDecision", "must have at most %u bytes", TYPE_MAX);
	if (e.code)
		call_fail(c, &e);
	else
		engine_request_action(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

void method_respond_action(struct call *c, const struct respond_action_params *p)
{
	json_t *payload = p->payload;
	mem_auto char *payload_json = payload ? json_dumps(payload, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	const struct action_answer r = {
		.action_id = p->actionId,
		.decision = p->decision,
		.scope = p->scope,
		.note = p->note,
		.response_json = payload_json,
	};
	struct err e = ERR_INIT;

	if (!config_may_approve(call_config(c), c->caller.uid, c->caller.gid))
		err_set(&e, ERR_NOT_ALLOWED, "uid %u may not answer actions here (approvers)", c->caller.uid);
	else if (r.note && strlen(r.note) > NOTE_MAX)
		err_field(&e, "note", "must have at most %u bytes", NOTE_MAX);
	else if (payload_json && strlen(payload_json) > PAYLOAD_MAX)
		err_field(&e, "payload", "must have at most %u bytes as JSON", PAYLOAD_MAX);
	if (e.code)
		call_fail(c, &e);
	else
		engine_respond_action(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

void method_list_actions(struct call *c, const struct list_actions_params *p)
{
	const struct view_action_query q = {
		.status = p->status,
		.session_id = p->sessionId,
		.thread_id = p->threadId,
		.turn_id = p->turnId,
		.task_id = p->taskId,
		.limit = param_page_limit(p->limit, 100),
		.cursor = p->cursor,
	};
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (view_actions(call_store(c), call_visible_uid(c), &q, &out, &e) < 0)
		call_fail(c, &e);
	else
		call_reply(c, out.data, out.len);
}
