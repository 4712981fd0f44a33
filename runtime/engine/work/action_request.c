/* request_action: a client asks a person something about a turn or a task. */

#include "runtime/base/json_schema.h"
#include "runtime/base/mem.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/session/turn_owner.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/work/task_private.h"

#define DECISIONS_MAX 16u
#define OPEN_MAX 100u /* of one turn */
#define PROMPT_MAX 16384u

/* Keywords of the schema that answers are not checked against are added to `unchecked`. */
static int check_request(const struct action_request *r, json_t *unchecked, const struct caller *c, struct err *e)
{
	json_error_t at;
	json_auto_t *list = r->decisions_json ? json_loads(r->decisions_json, 0, &at) : NULL,
		    *schema = r->schema_json ? json_loads(r->schema_json, 0, NULL) : NULL;
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
	if (!e->code && r->default_decision && !action_may_decide_alone(c->role, r->default_decision))
		err_at(e, ERR_NOT_ALLOWED, "defaultDecision",
		       "defaultDecision: '%.64s' needs an answer: a timeout approves nothing, and an agent can only "
		       "set "
		       "deny",
		       r->default_decision);
	if (!e->code && r->schema_json && json_schema_verify(schema, unchecked, e) < 0) {
		char field[ERR_FIELD_MAX];

		snprintf(field, sizeof field, "schema%s%.50s", e->field[0] ? "." : "", e->field);
		memcpy(e->field, field, sizeof field);
	}
	return e->code ? -1 : 0;
}

/* About a turn, which then waits, or about a task without one. */
void engine_request_action(struct engine *engine, const struct action_request *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	json_auto_t *unchecked = json_array();
	const json_t *word;
	size_t i;
	/* An action that shows neither a question nor the form of its answer would say nothing to the person. */
	mem_auto char *plain = r->prompt || r->schema_json ? NULL : mem_printf("%s requested", r->action_type);
	buf_auto struct buf text = BUF_INIT;
	task_auto struct task task = TASK_INIT;
	char id[ID_SIZE];
	struct turn_doc t;
	struct err e = ERR_INIT;
	struct action_spec s = {
		.kind = ACTION_KIND_REQUEST,
		.action_type = r->action_type,
		.prompt = plain ? plain : r->prompt,
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

	if (check_request(r, unchecked, c, &e) < 0)
		return transaction_reject(tx, &e);
	if (r->turn_id && turn_open_of_caller(engine, r->turn_id, c, &text, &t, &e) == 0) {
		s.uid = (uint32_t)t.uid;
		s.session_id = t.sessionId;
		s.thread_id = t.threadId;
		s.turn_id = t.turnId;
		if (t.openActions != VIEW_ABSENT && t.openActions >= OPEN_MAX)
			err_set(&e, ERR_EXHAUSTED, "turn '%s' waits for %u answers already", t.turnId, OPEN_MAX);
	} else if (!e.code && !r->turn_id && r->task_id) {
		if (task_get(engine, r->task_id, c, &task, &e) == 0 && task_may(&task, TASK_VERB_ADD, &e) == 0)
			s.session_id = task.d.sessionId;
	} else if (!e.code) {
		err_field(&e, "turnId", "missing; give turnId or taskId");
	}
	if (e.code || action_open(engine, &s, tx, id, &e) < 0)
		return transaction_reject(tx, &e);
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
