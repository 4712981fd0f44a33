/*
 * The document of an action is its only state: status, decisions, deadline, continuation. It is read speculatively, so
 * that of two answers that arrive at the same time the second finds the action resolved, although the first is not
 * durable yet. Effects wait for the commit (on_resolved_committed) and read the document again, because the transaction
 * and the answer are gone by then.
 *
 * An answer passes these checks, in this order: the action is known to the caller's uid, still open, of a known kind,
 * and not being written as a rule; the decision is one that it offers; the answer does not change the question; the
 * payload matches the schema. Only then is it recorded.
 */

#include "runtime/engine/action/action.h"

#include "runtime/base/clock.h"
#include "runtime/base/json_schema.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/session_scope.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/view/view.h"

#include <jansson.h>

/* Not the deadlines themselves, which are in the store: the time of the next scan for expired actions. */
struct action_state {
	uint64_t next_ns; /* when deadlines are to be checked next; UINT64_MAX = never */
};

static const char *const names[ACTION_KIND_COUNT] = {
#define ACTION_KIND(NAME, name) [ACTION_KIND_##NAME] = name,
#include "runtime/engine/action/action_kinds.def"
#undef ACTION_KIND
};

static const struct action_kind_ops *ops_of(const struct engine *engine, const struct action_doc *d)
{
	for (int i = ACTION_KIND_NONE + 1; i < ACTION_KIND_COUNT; i++)
		if (strcmp(names[i], d->kind) == 0)
			return engine->modules->action_kinds[i];
	return NULL;
}

int action_read(struct engine *engine, const char *action_id, struct buf *text, struct action_doc *ret, struct err *e)
{
	return view_read_speculative(engine->o.store, &action_schema, action_id, text, ret, e);
}

/* ---- opening ---- */

/* 100 years. A longer time is none: sums of times must not overflow. */
#define TIMEOUT_MOST_MS (36600ull * 86400000)

/*
 * Deadlines are stored in real time, because they survive a reboot; ticks use boot time. action_tick compares the
 * stored deadline with real time again, so a clock change only causes an early or late check.
 */
static void watch_deadline(struct engine *engine, uint64_t expires_us)
{
	uint64_t real = engine->o.ports->real_us(engine->o.host);
	uint64_t at = engine_now(engine) + (expires_us > real ? (expires_us - real) * 1000 : 0);

	if (at < engine->actions->next_ns)
		engine->actions->next_ns = at;
	engine_wake(engine, at);
}

static int required_fact(struct engine *engine, const struct action_spec *s, const char *id, const char *turn,
			 const char *thread, struct transaction *tx)
{
	const bool ends = s->timeout_ms && s->timeout_ms < TIMEOUT_MOST_MS;
	uint64_t expires = ends ? engine->o.ports->real_us(engine->o.host) + s->timeout_ms * 1000 : 0;
	char step[ID_TEXT_MAX];

	id_make(ID_KIND_STEP, step);
	if (expires)
		watch_deadline(engine, expires);
	const struct scope scope = { .uid = s->uid,
				     .session = s->session_id,
				     .thread = thread,
				     .turn = turn,
				     .action = id,
				     .step = s->step_id ? s->step_id : step,
				     .task = s->task_id,
				     .process = s->process_id,
				     .tool_call = s->tool_call_id,
				     .trace = s->trace_id,
				     .request = s->request_id };
	return EMIT(action_required, tx, scope, .envelope.status = "pending", .actionType = s->action_type,
		    .kind = names[s->kind], .prompt = s->prompt, .schema = json_from_text(s->schema_json),
		    .decisions = json_from_text(s->decisions_json ? s->decisions_json : "[\"allow\",\"deny\"]"),
		    .scope = json_from_text(s->scope_json), .policy = json_from_text(s->policy_json),
		    .continuation = json_from_text(s->continuation_json),
		    .defaultDecision = s->default_decision ? s->default_decision : "deny", .expiresAt = expires,
		    .requestedBy = json_requester(&s->by), .display = s->display, .cwd = s->cwd, .profile = s->profile);
}

int action_open(struct engine *engine, const struct action_spec *s, struct transaction *tx, char ret_id[ID_SIZE],
		struct err *e)
{
	char turn[ID_SIZE] = "", thread[ID_SIZE] = "", id[ID_TEXT_MAX];

	if (s->turn_id)
		id_copy(turn, s->turn_id);
	if (s->thread_id)
		id_copy(thread, s->thread_id);
	/* An action without a turn belongs to the system turn, so it does not block any work. */
	if (!turn[0] && session_system_turn(engine, tx, s->uid, s->session_id, thread, turn, e) < 0)
		return -1;
	id_make(ID_KIND_ACTION, id);
	if (required_fact(engine, s, id, turn, thread, tx) < 0)
		return err_set(e, ERR_INVALID,
			       "the action cannot be written: prompt, schema or continuation is too long");
	id_copy(ret_id, id);
	return 0;
}

const char *action_waiting_status(const char *action_type)
{
	buf_auto struct buf type = BUF_INIT;
	struct jw w = jw_on(&type);

	jw_str(&w, action_type);
	return view_action_waiting(jval_of(type.data, type.len));
}

/* The thread waits while its turn does. The system turn never runs, so it does not make its thread wait. */
void action_thread_waits(struct transaction *tx, const struct scope *s, const struct action_required *p)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_read(tx->engine, s->turn, &text, &t, &e) == 0 && t.startedAt && !turn_doc_ended(&t))
		thread_status_fact(tx->engine, s->uid, s->session, s->thread, action_waiting_status(p->actionType),
				   "action_required", tx);
}

/* ---- answering ---- */

/* action.resolved is durable: the module of the kind continues its work, then the turn takes its next step. */
static void on_resolved_committed(struct engine *engine, const char *action_id)
{
	buf_auto struct buf text = BUF_INIT;
	char turn[ID_SIZE];
	struct action_doc d;
	struct err e = ERR_INIT;

	if (action_read(engine, action_id, &text, &d, &e) != 0)
		return;
	id_copy(turn, d.turnId);
	const struct action_kind_ops *ops = ops_of(engine, &d);
	if (ops && ops->over)
		ops->over(engine, action_id);
	modules_due(engine, DUE_TURN_STEP, turn);
}

static void resolved_fact(const struct action_outcome *o, const char *request_id, struct transaction *tx)
{
	const struct action_doc *a = o->action;
	const struct scope s = { .uid = (uint32_t)a->uid,
				 .session = a->sessionId,
				 .thread = a->threadId,
				 .turn = a->turnId,
				 .action = a->actionId,
				 .step = a->stepId,
				 .task = a->taskId,
				 .process = a->processId,
				 .tool_call = a->toolCallId,
				 .request = request_id };
	bool by_person = strcmp(o->source, "timeout") != 0;

	EMIT(action_resolved, tx, s, .envelope.status = o->status, .decision = o->decision, .source = o->source,
	     .resolver = by_person ? json_requester(&o->by) : JSON_NONE, .note = o->note,
	     .scope = json_from_string(o->scope ? o->scope : "once"), .response = json_from_text(o->response_json));
}

/* Sets the thread to running if its turn waits for no other action. openActions still includes this one. */
void action_thread_resumes(struct transaction *tx, const struct scope *s, const struct action_resolved *p)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_read(tx->engine, s->turn, &text, &t, &e) == 0 && t.startedAt && !turn_doc_ended(&t) &&
	    t.openActions == 1)
		thread_status_fact(tx->engine, s->uid, s->session, s->thread, "running", "action_resolved", tx);
}

void action_resolve(struct transaction *tx, const struct action_outcome *o)
{
	struct engine *engine = tx->engine;
	const struct action_kind_ops *ops = ops_of(engine, o->action);

	resolved_fact(o, tx->caller.request_id, tx);
	if (ops && ops->resolved)
		ops->resolved(engine, o, tx);
	transaction_after_commit(tx, on_resolved_committed, o->action->actionId);
}

static bool means_allow(const char *decision)
{
	return strncmp(decision, "allow", 5) == 0 || strncmp(decision, "approve", 7) == 0;
}

static int check_decision(const struct action_doc *a, const char *decision, struct err *e)
{
	buf_auto struct buf list = BUF_INIT;

	for (struct jiter it = jiter_on(a->decisions); jiter_next(&it);) {
		if (jval_is_str(it.value, decision))
			return 0;
		buf_str(&list, list.len ? ", " : "");
		jval_str_buf(it.value, &list);
	}
	return err_field(e, "decision", "'%.40s' is not a decision of this action; expected one of %.200s", decision,
			 buf_cstr(&list));
}

/* A response to a permission question that becomes a rule. */
static bool is_permanent(const struct action_answer *r, const struct action_doc *a)
{
	return r->scope && strcmp(r->scope, "always") == 0 && strcmp(a->kind, "request") != 0;
}

/* A permission is bound to the original request. A response that changes the request is rejected: otherwise the
 * approver would see the unchanged one run. */
static int check_unchanged(const struct action_answer *r, const struct action_doc *a, struct err *e)
{
	static const char *const members[] = { "updatedInput", "updatedPermissions" };
	const struct jval given = r->response_json ? jval_of(r->response_json, strlen(r->response_json))
						   : (struct jval){ 0 };

	for (size_t i = 0; i < countof(members) && strcmp(a->kind, "request") != 0; i++)
		if (given.type == JT_OBJECT && jval_get(given, members[i]).type != JT_NONE) {
			err_set(e, ERR_UNAVAILABLE,
				"what was asked about cannot be changed by the answer (payload.%s): deny it, and start "
				"what is meant instead",
				members[i]);
			snprintf(e->field, sizeof e->field, "payload.%s", members[i]);
			return -1;
		}
	return 0;
}

bool action_means_refuse(const char *decision)
{
	static const char *const words[] = { "deny", "reject", "decline", "cancel" };

	for (size_t i = 0; i < countof(words); i++)
		if (strncmp(decision, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

/* The payload must match the action's schema. A missing payload counts as {}, and a response that denies needs none. */
static int check_payload(const struct action_answer *r, const struct action_doc *a, struct err *e)
{
	json_auto_t *schema = a->schema.type == JT_OBJECT ? json_loadb(a->schema.text, a->schema.len, 0, NULL) : NULL;
	json_auto_t *payload = r->response_json ? json_loads(r->response_json, JSON_DECODE_ANY, NULL) : json_object();
	char field[ERR_FIELD_MAX];

	if (a->schema.type != JT_OBJECT || (!r->response_json && action_means_refuse(r->decision)))
		return 0;
	if (!schema || !payload)
		return err_set(e, ERR_CORRUPT, "the schema of action '%s' cannot be read", a->actionId);
	if (json_schema_check(schema, payload, e) == 0)
		return 0;
	snprintf(field, sizeof field, "payload%s%.50s", e->field[0] ? "." : "", e->field);
	memcpy(e->field, field, sizeof field);
	return r->response_json ? err_wrap(e, "payload")
				: err_wrap(e, "payload is missing, and the action's schema asks for one");
}

/* The tick may be late, after the clock was set: an answer after the time that was shown does not count. */
static int check_expiry(struct engine *engine, const struct action_answer *r, const struct action_doc *a, struct err *e)
{
	if (!a->expiresAt || r->kept_file || engine_real(engine) < a->expiresAt)
		return 0;
	engine->actions->next_ns = 0;
	engine_wake(engine, engine_now(engine));
	return err_set(e, ERR_CONFLICT, "action '%s' has timed out", a->actionId);
}

static int check_answer(struct engine *engine, const struct action_answer *r, const struct caller *c, struct buf *text,
			struct action_doc *a, struct err *e)
{
	int found = action_read(engine, r->action_id, text, a, e);

	if (found < 0)
		return -1;
	if (found > 0 || (c->uid != 0 && a->uid != c->uid))
		return err_not_known(e, "actionId", r->action_id);
	if (strcmp(a->status, "pending") != 0)
		return err_set(e, ERR_CONFLICT, "action '%s' has been answered already: %s (%s)", a->actionId,
			       a->decision, a->status);
	const struct action_kind_ops *ops = ops_of(engine, a);
	if (!ops)
		return err_set(e, ERR_STATE, "action '%s' is of a kind that this version does not have: '%.64s'",
			       a->actionId, a->kind);
	if (ops->is_persisting && ops->is_persisting(engine, a->actionId))
		return err_set(e, ERR_CONFLICT, "action '%s' is being answered", a->actionId);
	if (check_expiry(engine, r, a, e) < 0 || check_decision(a, r->decision, e) < 0 || check_unchanged(r, a, e) < 0)
		return -1;
	return check_payload(r, a, e);
}

void engine_respond_action(struct engine *engine, const struct action_answer *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	buf_auto struct buf text = BUF_INIT;
	struct action_doc a;
	struct err e = ERR_INIT;

	if (check_answer(engine, r, c, &text, &a, &e) == 0 && is_permanent(r, &a) && !r->kept_file &&
	    ops_of(engine, &a)->persist &&
	    ops_of(engine, &a)->persist(engine, &a, r, means_allow(r->decision), c, fn, ctx, &e) == 0)
		return; /* the module calls this function again when the rule is written */
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	if (e.code) {
		transaction_reject(tx, &e);
		return;
	}
	const struct action_outcome o = { .action = &a,
					  .decision = r->decision,
					  .status = "resolved",
					  .source = r->source ? r->source : "user",
					  .scope = r->scope,
					  .note = r->note,
					  .response_json = r->response_json,
					  .allowed = means_allow(r->decision),
					  .by = requester_of(c),
					  .kept_rules = r->kept_rules,
					  .kept_file = r->kept_file,
					  .kept_line = r->kept_line };
	action_resolve(tx, &o);
	if (r->kept_file) {
		jw_kraw(&tx->w, "rules", r->kept_rules, strlen(r->kept_rules));
		jw_kstr(&tx->w, "file", r->kept_file);
		jw_kuint(&tx->w, "line", r->kept_line);
	}
	jw_kstr(&tx->w, "actionId", a.actionId);
	jw_kstr(&tx->w, "status", "resolved");
	jw_kstr(&tx->w, "decision", r->decision);
	jw_kstr(&tx->w, "turnId", a.turnId);
	transaction_commit(tx);
}

/*
 * A timeout approves nothing, regardless of the requester. A requester must not answer its own request, so an agent's
 * default decision can only be "deny"; an operator's can be any that does not allow.
 */
bool action_may_decide_alone(enum engine_role role, const char *decision)
{
	return strcmp(decision, "deny") == 0 || (role == ROLE_OPERATOR && !means_allow(decision));
}

/* ---- cancellation and timeouts ---- */

struct action_list {
	char (*ids)[ID_SIZE];
	size_t count, cap, most;
	const char *below; /* only keys up to this one (they sort by deadline); NULL = all */
};

static bool add_action(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	struct action_list *l = ctx;
	const char *slash = memrchr(key, '/', key_len), *id = slash ? slash + 1 : key;
	size_t n = key_len - (size_t)(id - key);

	if (l->count >= l->most || (l->below && strncmp(key, l->below, strlen(l->below)) > 0))
		return false;
	if (l->count == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 16;
		l->ids = mem_realloc(l->ids, l->cap * sizeof l->ids[0]);
	}
	if (n < ID_SIZE) {
		memcpy(l->ids[l->count], id, n);
		l->ids[l->count++][n] = '\0';
	}
	return true;
}

static void list_actions(struct engine *engine, enum view_kind kind, const char *prefix, struct action_list *l)
{
	struct err e = ERR_INIT;

	if (!l->most)
		l->most = SIZE_MAX;
	if (store_model_scan_speculative(engine->o.store, (uint8_t)kind, prefix, add_action, l, &e) < 0)
		log_error("look for open actions: %s", e.message);
}

bool action_of_call(struct engine *engine, enum action_kind kind, const char *turn_id, const char *call_id,
		    struct buf *text, struct action_doc *ret)
{
	mem_auto char *prefix = mem_printf("%s/", turn_id);
	struct action_list l = { 0 };
	struct err e = ERR_INIT;
	bool found = false;

	list_actions(engine, VIEW_TURN_OPEN_ACTION, prefix, &l);
	for (size_t i = 0; i < l.count && !found; i++)
		found = action_read(engine, l.ids[i], text, ret, &e) == 0 && strcmp(ret->kind, names[kind]) == 0 &&
			strcmp(ret->toolCallId, call_id) == 0;
	free(l.ids);
	return found;
}

/* No effect if it was answered meanwhile: the first resolution wins. */
static void cancel_action(struct engine *engine, const char *id, const char *source, const char *reason,
			  struct transaction *tx)
{
	buf_auto struct buf text = BUF_INIT;
	struct action_doc a;
	struct err e = ERR_INIT;

	if (action_read(engine, id, &text, &a, &e) != 0 || strcmp(a.status, "pending") != 0)
		return;
	const struct action_outcome o = { .action = &a,
					  .decision = "cancelled",
					  .status = "cancelled",
					  .source = source,
					  .note = reason,
					  .by = requester_of(&tx->caller) };
	action_resolve(tx, &o);
}

void action_cancel_of_turn(struct engine *engine, const char *turn_id, const char *reason, struct transaction *tx)
{
	mem_auto char *prefix = mem_printf("%s/", turn_id);
	struct action_list l = { 0 };

	list_actions(engine, VIEW_TURN_OPEN_ACTION, prefix, &l);
	for (size_t i = 0; i < l.count; i++)
		cancel_action(engine, l.ids[i], "turn_ended", reason, tx);
	free(l.ids);
}

void action_cancel_of_task(struct engine *engine, const char *task_id, const char *reason, struct transaction *tx)
{
	buf_auto struct buf text = BUF_INIT;
	struct action_list l = { 0 };
	struct action_doc a;
	struct err e = ERR_INIT;

	list_actions(engine, VIEW_OPEN_ACTION, NULL, &l);
	for (size_t i = 0; i < l.count; i++)
		if (action_read(engine, l.ids[i], &text, &a, &e) == 0 && strcmp(a.taskId, task_id) == 0)
			cancel_action(engine, l.ids[i], "task_ended", reason, tx);
	free(l.ids);
}

/* Applies the default decision. One that would approve an agent's request is replaced by "deny". */
static void expire_action(struct engine *engine, const char *id)
{
	buf_auto struct buf text = BUF_INIT;
	struct action_doc a;
	struct err e = ERR_INIT;

	if (action_read(engine, id, &text, &a, &e) != 0 || strcmp(a.status, "pending") != 0)
		return;
	struct transaction *tx = transaction_new_internal(engine);
	const enum engine_role role = jval_is_str(jval_get(a.requestedBy, "role"), "operator") ? ROLE_OPERATOR
											       : ROLE_AGENT;
	const char *decision = a.defaultDecision[0] && action_may_decide_alone(role, a.defaultDecision)
				       ? a.defaultDecision
				       : "deny";
	const struct action_outcome o = { .action = &a,
					  .decision = decision,
					  .status = "timed_out",
					  .source = "timeout",
					  .note = "the action timed out without an answer",
					  .allowed = false };
	action_resolve(tx, &o);
	transaction_commit(tx);
}

static bool first_due(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	*(uint64_t *)ctx = strtoull(key, NULL, 10);
	return false;
}

/* Keys of VIEW_TIMED_ACTION begin with the deadline, so a scan up to the present time finds the expired actions. */
uint64_t action_tick(struct engine *engine, uint64_t now)
{
	char below[24];
	struct action_list due = { 0 };
	uint64_t next = 0;
	struct err e = ERR_INIT;

	/* Scans only when a deadline may have passed: ticks are far more frequent. */
	if (now < engine->actions->next_ns)
		return engine->actions->next_ns;
	view_order_key(engine->o.ports->real_us(engine->o.host), below);
	due.below = below;
	list_actions(engine, VIEW_TIMED_ACTION, NULL, &due);
	for (size_t i = 0; i < due.count; i++)
		expire_action(engine, due.ids[i]);
	free(due.ids);
	engine->actions->next_ns = UINT64_MAX;
	if (store_model_scan_speculative(engine->o.store, VIEW_TIMED_ACTION, NULL, first_due, &next, &e) == 0 && next)
		watch_deadline(engine, next);
	return engine->actions->next_ns;
}

void action_recover(struct engine *engine)
{
	/* Deadlines may have passed while the daemon did not run. */
	engine->actions->next_ns = 0;
	engine_wake(engine, engine_now(engine));
}

void action_list_open(struct engine *engine, struct jw *w)
{
	struct action_list l = { .most = 200 };

	list_actions(engine, VIEW_OPEN_ACTION, NULL, &l);
	for (size_t i = 0; i < l.count; i++)
		jw_str(w, l.ids[i]);
	free(l.ids);
}

void action_init(struct engine *engine)
{
	engine->actions = mem_zalloc(1, sizeof *engine->actions);
	engine->actions->next_ns = UINT64_MAX;
}

void action_done(struct engine *engine) { free(engine->actions); }
