/* request_action: a client asks a person something about a turn or a task. */

#include "runtime/base/json_schema.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/work/task_action.h"

#include <jansson.h>

#define DECISIONS_MAX 16u
#define OPEN_MAX 100u /* of one turn */
#define PROMPT_MAX 16384u

static int check_schema(const char *json, json_t *unchecked, struct err *e)
{
	json_auto_t *schema = json ? json_loads(json, 0, NULL) : NULL;
	char field[ERR_FIELD_MAX];

	if (!json || json_schema_verify(schema, unchecked, e) == 0)
		return 0;
	snprintf(field, sizeof field, "schema%s%.50s", e->field[0] ? "." : "", e->field);
	memcpy(e->field, field, sizeof field);
	return -1;
}

static int check_request(const struct action_request *r, const struct caller *c, struct err *e)
{
	json_error_t at;
	json_t *list = r->decisions_json ? json_loads(r->decisions_json, 0, &at) : NULL;
	bool has_default = !r->default_decision || !list;
	const json_t *v;
	size_t i;

	if (r->prompt && strlen(r->prompt) > PROMPT_MAX)
		err_field(e, "prompt", "must have at most %u bytes", PROMPT_MAX);
	if (list && (json_array_size(list) < 1 || json_array_size(list) > DECISIONS_MAX))
		err_field(e, "decisions", "must have 1 to %u words", DECISIONS_MAX);
	json_array_foreach (list, i, v)
		has_default |= !r->default_decision || strcmp(json_string_value(v), r->default_decision) == 0;
	if (!e->code && !has_default && strcmp(r->default_decision, "deny") != 0)
		err_field(e, "defaultDecision", "must be one of decisions, or deny");
	if (!e->code && r->default_decision && !action_may_decide_alone(c->role, r->default_decision)) {
		err_set(e, ERR_NOT_ALLOWED,
			"defaultDecision: an agent cannot have its own question answered with '%.64s' when nobody "
			"does; only with deny",
			r->default_decision);
		snprintf(e->field, sizeof e->field, "defaultDecision");
	}
	json_decref(list);
	return e->code ? -1 : 0;
}

void engine_request_action(struct engine *g, const struct action_request *r, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	json_auto_t *unchecked = json_array();
	const json_t *word;
	size_t i;
	buf_auto struct buf text = BUF_INIT;
	char id[ID_SIZE], session[ID_SIZE] = "";
	struct turn_doc t;
	struct err e = ERR_INIT;
	struct action_spec s = {
		.kind = ACTION_KIND_REQUEST,
		.action_type = r->action_type,
		.prompt = r->prompt,
		.schema_json = r->schema_json,
		.decisions_json = r->decisions_json,
		.timeout_ms = r->timeout_ms,
		.default_decision = r->default_decision,
		.task_id = r->task_id,
		.trace_id = c->trace_id,
		.request_id = c->request_id,
		.by = requester_of(c),
		.uid = c->uid,
	};

	if (check_request(r, c, &e) < 0 || check_schema(r->schema_json, unchecked, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	if (r->turn_id && turn_open_of_caller(g, r->turn_id, c, &text, &t, &e) == 0) {
		s.uid = (uint32_t)t.uid;
		s.session_id = t.sessionId;
		s.thread_id = t.threadId;
		s.turn_id = t.turnId;
		if (t.openActions != VIEW_ABSENT && t.openActions >= OPEN_MAX)
			err_set(&e, ERR_EXHAUSTED, "turn '%s' waits for %u answers already", t.turnId, OPEN_MAX);
	} else if (!e.code && !r->turn_id && r->task_id && task_session(g, r->task_id, c, session, &e) == 0) {
		s.session_id = session;
	} else if (!e.code) {
		err_field(&e, "turnId", "missing; give turnId or taskId");
	}
	if (e.code || action_open(g, &s, tx, id, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	jw_kstr(&tx->w, "actionId", id);
	jw_kstr(&tx->w, "status", "pending");
	if (json_array_size(unchecked)) {
		jw_karr(&tx->w, "uncheckedKeywords");
		json_array_foreach (unchecked, i, word)
			jw_str(&tx->w, json_string_value(word));
		jw_arr_end(&tx->w);
	}
	transaction_commit(tx);
}
