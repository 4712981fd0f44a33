/*
 * A process that waits for a person. In the log it is an open action whose continuation refers to the recorded start
 * (start_record.h) and holds its binding; memory only holds the waiting clients. After a restart the waiting
 * processes are rebuilt from the open actions, and starts that were allowed but not carried out are carried out.
 *
 * The steps, each durable before the next begins:
 *   asked       action.required, permission.requested and the recorded start    the client gets waiting_permission
 *   answered    action.resolved, permission.resolved; a denial also ends the process in the same commit
 *   started     the facts of the start, with the binding checked against the new plan
 * A crash after the second one is the reason for permission_resume: the approval is in the log, but no process.started.
 * The client may be gone by then. The process runs with the requester's identity, by a socket that the host has kept.
 */

#include "runtime/engine/permission/permission.h"

#include "policy/decision.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/permission/permission_private.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/start_record.h"
#include "runtime/engine/session/session.h"
#include "runtime/view/view.h"
#include "runtime/view/view_ids.h"

/* Of turns, and of processes of one turn, that are examined after a restart. */
#define RECOVER_MAX 4096u

#define PROMPT_SHOWN 2048u

/* ---- asking ---- */

/* Everything needed to start the process after an approval or a restart. The start itself is behind `startRef`. */
static void write_continuation(const struct process *p, const char *ref, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "startRef", ref);
	jw_kstr(&w, "binding", p->binding);
	jw_kbool(&w, "ownsTurn", p->owns_turn);
	jw_kbool(&w, "endWithClient", p->end_with_client);
	if (p->suggestions_json)
		jw_kraw(&w, "always", p->suggestions_json, strlen(p->suggestions_json));
	json_value_member(&w, "by", json_requester(&p->by));
	if (p->owner) {
		jw_kobj(&w, "owner");
		jw_kstr(&w, "kind", owner_kind_name(p->owner));
		jw_kstr(&w, "id", p->owner_id);
		jw_obj_end(&w);
	}
	jw_obj_end(&w);
}

static void waiting_result(const struct process *p, uint64_t sequence, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "processId", p->id);
	jw_kstr(&w, "status", "waiting_permission");
	jw_kstr(&w, "actionId", p->action_id);
	jw_kstr(&w, "sessionId", p->session_id);
	jw_kstr(&w, "threadId", p->thread_id);
	jw_kstr(&w, "turnId", p->turn_id);
	jw_kstr(&w, "decision", "ask");
	jw_kraw(&w, "permissionDecision", p->decision_json, strlen(p->decision_json));
	jw_kstr(&w, "prompt", p->prompt);
	jw_kstr(&w, "sandboxProfile", p->profile);
	jw_karr(&w, "outputRefs");
	jw_arr_end(&w);
	if (sequence)
		jw_kuint(&w, "sequence", sequence);
	jw_obj_end(&w);
}

/* The question could not be recorded: rejects the start and notifies its owner. Frees the process. */
static void reject_question(struct process *p, const struct err *e)
{
	struct engine *engine = p->engine;
	const enum owner_kind owner = p->owner;
	char owner_id[ID_SIZE];

	memcpy(owner_id, p->owner_id, sizeof owner_id);
	reply_err(&p->start, e, NULL, 0);
	process_free(p);
	if (owner)
		process_owner(engine, owner)->refused(engine, owner_id, e, NULL, 0);
}

static void permission_cancel(struct process *p, const char *reason, bool stopping);

static void on_asked(void *ctx, const struct store_result *r)
{
	struct process *p = ctx;
	buf_auto struct buf result = BUF_INIT;

	if (r->status < 0) {
		struct err e = *r->err;
		reject_question(p, &e);
		return;
	}
	waiting_result(p, r->last_sequence, &result);
	reply_json(&p->start, result.data, result.len);
	/* The daemon began to stop during the commit; the process waits in the log from here on. */
	if (p->engine->stopping)
		permission_cancel(p, NULL, true);
}

/*
 * The question in two forms. The prompt is one text, so what bailiff knows comes first in it and the client's words
 * last: a command cannot imitate its own folder or profile. `display` has only the client's words; lists show it in a
 * column of its own. What one of bailiff's tools will do is in its stdin, not in its arguments.
 */
static void describe_question(struct process *p, const struct start_request *r, struct buf *display)
{
	const bool tool = r->tool && r->stdin_text;
	const char *with = p->exec_overrides;
	buf_auto struct buf what = BUF_INIT;

	if (tool)
		text_ends(r->stdin_text, strlen(r->stdin_text), PROMPT_SHOWN, &what);
	else
		buf_str(&what, p->display);
	p->prompt = mem_printf("%s in %s (profile %s%s%s): %s", tool ? r->tool : "run", p->cwd, p->profile,
			       with ? ") with (" : "", with ? with : "", buf_cstr(&what));
	buf_printf(display, "%s%s%s%s%s", with ? with : "", with ? " " : "", tool ? r->tool : "", tool ? " " : "",
		   buf_cstr(&what));
}

/* Records the start with the ids that the process already has, so that the approved start is the same process. */
static int record_start(struct process *p, const struct start_request *r, struct transaction *tx,
			char ret_ref[ID_TEXT_MAX], struct err *e)
{
	const struct ref_owner owner = process_ref_owner(p, "application/json");
	buf_auto struct buf start = BUF_INIT;
	struct start_request copy = *r;

	copy.process_id = p->id;
	copy.step_id = p->step_id;
	start_record_write(&copy, &start);
	if (start.len > START_RECORD_MAX)
		return err_set(e, ERR_INVALID, "the command is too long to be asked about");
	if (p->command_ref) /* for the person who is asked */
		ref_store_as(tx, &owner, p->command_ref, p->command_full.data, p->command_full.len);
	ref_store(tx, &owner, start.data, start.len, ret_ref);
	return 0;
}

static int open_question(struct process *p, const struct start_request *r, const struct caller *c, const char *ref,
			 struct transaction *tx, struct err *e)
{
	buf_auto struct buf next = BUF_INIT, display = BUF_INIT;

	write_continuation(p, ref, &next);
	describe_question(p, r, &display);
	const struct action_spec s = {
		.kind = ACTION_KIND_PERMISSION,
		.uid = p->uid,
		.session_id = p->session_id,
		.thread_id = p->thread_id,
		.turn_id = p->turn_id,
		.task_id = p->task_id[0] ? p->task_id : NULL,
		.process_id = p->id,
		.tool_call_id = p->tool_call_id[0] ? p->tool_call_id : NULL,
		.trace_id = c->trace_id,
		.request_id = c->request_id,
		.action_type = "permission",
		.prompt = p->prompt,
		.display = buf_cstr(&display),
		.cwd = p->cwd,
		.profile = p->profile,
		.policy_json = p->decision_json,
		.continuation_json = next.data,
		/* For a client without a person, another client's approver has to answer. */
		.timeout_ms = c->no_person ? p->engine->o.ask_alone_ms : p->engine->o.ask_ms,
		.by = p->by,
	};
	return action_open(p->engine, &s, tx, p->action_id, e);
}

void permission_ask(struct process *p, const struct start_request *r, const struct caller *c)
{
	struct transaction *tx = transaction_new_internal(p->engine);
	buf_auto struct buf result = BUF_INIT;
	char ref[ID_TEXT_MAX];
	struct err e = ERR_INIT;

	p->state = PROCESS_WAITING;
	p->end_by = p->by;
	process_session_facts(p, tx);
	permission_fact(p, tx);
	if (record_start(p, r, tx, ref, &e) < 0 || open_question(p, r, c, ref, tx, &e) < 0) {
		transaction_free(tx);
		reject_question(p, &e);
		return;
	}
	struct scope scope = process_scope(p);
	scope.action = p->action_id;
	EMIT(permission_requested, tx, scope, .envelope.status = "waiting_permission", .actionId = p->action_id,
	     .interactive = !c->no_person, .what = json_command_line(p), .cwd = p->cwd, .profile = p->profile,
	     .binding = p->binding,
	     .owner = p->owner ? JSON_OBJECT(owner, .kind = owner_kind_name(p->owner), .id = p->owner_id) : JSON_NONE);
	waiting_result(p, 0, &result);
	/* An idempotent repetition of the request gets this same result. */
	transaction_store_reply(tx, &p->start, result.data, result.len);
	transaction_commit_then(tx, 0, on_asked, p);
}

/* ---- the answer ---- */

static void resolved_fact(const struct action_outcome *o, struct transaction *tx)
{
	const struct action_doc *a = o->action;
	const struct scope s = { .uid = (uint32_t)a->uid,
				 .session = a->sessionId,
				 .thread = a->threadId,
				 .turn = a->turnId,
				 .action = a->actionId,
				 .process = a->processId,
				 .tool_call = a->toolCallId };
	char binding[65] = "";

	jval_str(jval_get(a->continuation, "binding"), binding, sizeof binding);
	EMIT(permission_resolved, tx, s,
	     .outcome = strcmp(o->status, "resolved") != 0 ? o->status
			: o->allowed                       ? "allowed"
							   : "denied",
	     .source = o->source, .scope = json_from_string(o->scope ? o->scope : "once"), .actionId = a->actionId,
	     .binding = none_if_empty(binding), .note = o->note,
	     .rules = o->kept_file ? json_from_text(o->kept_rules) : JSON_NONE, .file = o->kept_file,
	     .line = opt_int_if(o->kept_file, o->kept_line));
}

static void refused_message(const struct action_outcome *o, struct buf *out)
{
	if (strcmp(o->status, "timed_out") == 0)
		buf_str(out, "approval timed out");
	else if (strcmp(o->status, "cancelled") == 0)
		buf_printf(out, "it was ended before anybody allowed it%s%.200s", o->note ? ": " : "",
			   o->note ? o->note : "");
	else
		buf_printf(out, "it was denied%s%.200s", o->note ? ": " : "", o->note ? o->note : "");
}

/*
 * Adds the facts of a resolved action to the batch that resolves it, so that a denial and the end of its process are
 * one commit.
 */
void permission_resolved(struct engine *engine, const struct action_outcome *o, struct transaction *tx)
{
	struct process *p = engine_process(engine, o->action->processId);
	buf_auto struct buf message = BUF_INIT;

	resolved_fact(o, tx);
	/* Resolved once more: the store rejected the first denial, so the process still waits. */
	if (p && p->denying) {
		p->state = PROCESS_WAITING;
		p->denying = p->resumed = false;
		p->ended_as = NULL;
	}
	if (!p || p->state != PROCESS_WAITING || o->allowed)
		return;
	refused_message(o, &message);
	bool cancelled = strcmp(o->status, "cancelled") == 0;
	const struct permission_end how = { .status = cancelled                             ? "cancelled"
						      : strcmp(o->status, "timed_out") == 0 ? "timed_out"
											    : "failed",
					    .category = cancelled ? "cancelled" : "permission",
					    .message = buf_cstr(&message),
					    .terminated = cancelled,
					    .tell_owner = true };
	p->state = PROCESS_ENDING;
	p->denying = p->resumed = true;
	permission_end_facts(p, &how, tx);
}

static void ignore_reply(void *ctx, const struct err *e, const char *json, size_t len)
{
	if (e)
		log_debug("a process that was allowed: %s", e->message);
}

/*
 * Starts an approved process from its record, with the identity of its requester. The approval carries the binding,
 * which process_start compares with the new plan.
 */
static void resume_start(struct engine *engine, struct process *p, const struct action_doc *a)
{
	buf_auto struct buf text = BUF_INIT;
	start_record_auto struct start_record record = { 0 };
	char ref[ID_SIZE] = "", binding[65] = "", scope[16] = "once";
	struct err e = ERR_INIT;

	p->resumed = true;
	/* Ended by a request between the answer and its commit. */
	if (p->end_reason) {
		permission_drop(p, p->end_reason);
		return;
	}
	jval_str(jval_get(a->continuation, "startRef"), ref, sizeof ref);
	jval_str(jval_get(a->continuation, "binding"), binding, sizeof binding);
	if (a->resolvedScope.type == JT_STRING)
		jval_str(a->resolvedScope, scope, sizeof scope);
	struct caller c = { .uid = p->by.uid,
			    .pid = p->by.pid,
			    .role = p->by.role,
			    .connection = p->bound_connection,
			    .peer_fd = engine->o.ports->find_peer(engine->o.host, p->by.uid) };
	/* Sandboxes run with the identity of a connected peer: permission_client_connected continues. */
	if (c.peer_fd < 0) {
		p->resumed = false;
		strmap_put(&engine->permissions->held, a->actionId, engine);
		return;
	}
	if (store_output_whole(engine->o.store, ref, START_RECORD_MAX, &text, &e) < 0 ||
	    start_record_read(engine, buf_cstr(&text), text.len, &record, &e) < 0) {
		permission_fail(p, &e);
		return;
	}
	const struct start_approval approval = { .action_id = a->actionId,
						 .binding = binding,
						 .scope = scope,
						 .session_id = a->sessionId,
						 .thread_id = a->threadId,
						 .turn_id = a->turnId,
						 .owns_turn = p->owns_turn };
	record.spec.request.approval = &approval;
	record.spec.request.process_id = a->processId;
	process_start(engine, &record.spec.request, &c, ignore_reply, NULL);
}

/* The resolution is durable: start the process, or finish the one whose end was written with the resolution. */
static void permission_over(struct engine *engine, const char *action_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct action_doc a;
	struct err e = ERR_INIT;

	if (action_read(engine, action_id, &text, &a, &e) != 0)
		return;
	struct process *p = engine_process(engine, a.processId);
	if (!p || strcmp(p->action_id, action_id) != 0)
		return;
	if (p->state == PROCESS_WAITING) {
		resume_start(engine, p, &a);
	} else if (p->state == PROCESS_ENDING) {
		process_answer_waiters(p);
		process_finished(p);
	}
}

static void resume_held(void *ctx, const char *action_id, void *value)
{
	struct engine *engine = ctx;
	char id[ID_SIZE];

	id_copy(id, action_id);
	strmap_del(&engine->permissions->held, action_id);
	permission_over(engine, id);
}

void permission_client_connected(struct engine *engine)
{
	strmap_visit(&engine->permissions->held, resume_held, engine);
}

const struct action_kind_ops permission_action_ops = { .persist = permission_persist,
						       .is_persisting = permission_is_persisting,
						       .resolved = permission_resolved,
						       .over = permission_over };

void permission_promote(struct process *waiting, struct engine *engine, const char *id, struct process **ret)
{
	TAILQ_HEAD(, process_waiter) waiters = TAILQ_HEAD_INITIALIZER(waiters);
	TAILQ_HEAD(, pending_input) inputs = TAILQ_HEAD_INITIALIZER(inputs);
	struct process_waiter *w;
	struct pending_input *in;

	while ((w = TAILQ_FIRST(&waiting->waiters))) {
		TAILQ_REMOVE(&waiting->waiters, w, link);
		TAILQ_INSERT_TAIL(&waiters, w, link);
	}
	while ((in = TAILQ_FIRST(&waiting->inputs))) {
		TAILQ_REMOVE(&waiting->inputs, in, link);
		TAILQ_INSERT_TAIL(&inputs, in, link);
	}
	struct pending_reply start = waiting->start;
	waiting->start = (struct pending_reply){ 0 };
	/*
	 * process_free must not see the count reach zero: a stopping daemon would take its last process for ended and
	 * exit.
	 */
	void (*stopped)(void *) = engine->processes->stopped;
	engine->processes->stopped = NULL;
	process_free(waiting);
	engine->processes->stopped = stopped;
	*ret = process_new(engine, id);
	(*ret)->start = start;
	while ((w = TAILQ_FIRST(&waiters))) {
		TAILQ_REMOVE(&waiters, w, link);
		TAILQ_INSERT_TAIL(&(*ret)->waiters, w, link);
	}
	while ((in = TAILQ_FIRST(&inputs))) {
		TAILQ_REMOVE(&inputs, in, link);
		TAILQ_INSERT_TAIL(&(*ret)->inputs, in, link);
	}
}

/* ---- the end of a wait, and recovery ---- */

/* Ends a waiting process. */
static void permission_cancel(struct process *p, const char *reason, bool stopping)
{
	struct engine *engine = p->engine;
	buf_auto struct buf text = BUF_INIT;
	struct process_waiter *w;
	struct action_doc a;
	struct err e = ERR_INIT;

	if (p->hooks) {
		hook_cancel(p, reason);
		return;
	}
	if (stopping) { /* it keeps waiting in the log */
		err_set(&e, ERR_UNAVAILABLE, "the daemon is stopping");
		while ((w = TAILQ_FIRST(&p->waiters))) {
			TAILQ_REMOVE(&p->waiters, w, link);
			reply_err(&w->reply, &e, NULL, 0);
			free(w);
		}
		/* Else the question is being committed, and on_asked frees it. */
		if (!p->start.fn)
			process_free(p);
		return;
	}
	/*
	 * The start is in progress and waits for the policy files of its workspace. When it continues, it finds the
	 * process ended.
	 */
	if (p->resumed || !p->action_id[0]) {
		permission_drop(p, reason ? reason : "it was ended");
		return;
	}
	if (action_read(engine, p->action_id, &text, &a, &e) != 0)
		return;
	if (strcmp(a.status, "pending") != 0) { /* allowed just now: resume_start checks end_reason */
		if (!p->end_reason)
			p->end_reason = mem_strdup(reason ? reason : "it was ended");
		return;
	}
	struct transaction *tx = transaction_new_internal(engine);
	const struct action_outcome o = { .action = &a,
					  .decision = "cancelled",
					  .status = "cancelled",
					  .source = "process_ended",
					  .note = reason,
					  .by = requester_of(&tx->caller) };
	action_resolve(tx, &o);
	transaction_commit(tx);
}

bool permission_was_ended(struct engine *engine, const struct start_request *r)
{
	const struct process *p = r->approval || r->hooked ? engine_process(engine, r->process_id) : NULL;

	return (r->approval || r->hooked) && (!p || p->state != PROCESS_WAITING);
}

static struct process *restore_process(struct engine *engine, const struct action_doc *a)
{
	struct process *p = process_new(engine, a->processId);
	struct jval owner = jval_get(a->continuation, "owner"), by = jval_get(a->continuation, "by");
	char kind[32] = "", role[16] = "";

	p->state = PROCESS_WAITING;
	p->uid = (uint32_t)a->uid;
	id_copy(p->session_id, a->sessionId);
	id_copy(p->thread_id, a->threadId);
	id_copy(p->turn_id, a->turnId);
	id_copy(p->task_id, a->taskId);
	id_copy(p->tool_call_id, a->toolCallId);
	id_copy(p->action_id, a->actionId);
	p->owns_turn = jval_bool(jval_get(a->continuation, "ownsTurn"), false);
	p->end_with_client = jval_bool(jval_get(a->continuation, "endWithClient"), false);
	jval_str(jval_get(by, "role"), role, sizeof role);
	p->by = (struct requester){ .uid = (uint32_t)jval_uint(jval_get(by, "uid"), a->uid),
				    .pid = (int32_t)jval_int(jval_get(by, "pid"), 0),
				    .role = strcmp(role, "operator") == 0 ? ROLE_OPERATOR : ROLE_AGENT };
	p->end_by = p->by;
	jval_str(jval_get(owner, "kind"), kind, sizeof kind);
	jval_str(jval_get(owner, "id"), p->owner_id, sizeof p->owner_id);
	p->owner = owner_kind_find(kind);
	p->stdin_pipe = true; /* provisional: known when the process runs */
	p->wait_ops = &permission_wait_ops;
	if (p->owns_turn)
		thread_claim(engine, p->thread_id, p->turn_id, p);
	return p;
}

struct waiting_list {
	char (*ids)[ID_SIZE];
	size_t count;
};

static bool add_action(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	struct waiting_list *l = ctx;
	const char *slash = memrchr(key, '/', key_len), *id = slash ? slash + 1 : key;
	size_t n = key_len - (size_t)(id - key);

	if (n >= ID_SIZE)
		return true;
	l->ids = mem_realloc(l->ids, (l->count + 1) * sizeof l->ids[0]);
	memcpy(l->ids[l->count], id, n);
	l->ids[l->count++][n] = '\0';
	return true;
}

void permission_recover(struct engine *engine)
{
	struct waiting_list l = { 0 };
	struct err e = ERR_INIT;

	if (store_model_scan_speculative(engine->o.store, VIEW_OPEN_ACTION, NULL, add_action, &l, &e) < 0)
		log_error("look for processes that wait for permission: %s", e.message);
	for (size_t i = 0; i < l.count; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct action_doc a;

		if (action_read(engine, l.ids[i], &text, &a, &e) == 0 && strcmp(a.kind, "permission") == 0 &&
		    a.processId[0] && !engine_process(engine, a.processId))
			restore_process(engine, &a);
	}
	free(l.ids);
}

/*
 * The action was allowed, but the runtime died before the start. The gate was never opened, so nothing of the command
 * has run and the start can be repeated.
 */
static void start_allowed(struct engine *engine, const char *process_id)
{
	buf_auto struct buf process_text = BUF_INIT, text = BUF_INIT;
	struct process_doc d;
	struct action_doc a;
	struct err e = ERR_INIT;

	if (engine_process(engine, process_id) ||
	    view_read_speculative(engine->o.store, &process_schema, process_id, &process_text, &d, &e) != 0 ||
	    strcmp(d.status, "waiting_permission") != 0)
		return;
	if (action_read(engine, d.actionId, &text, &a, &e) != 0 || strcmp(a.status, "pending") == 0 ||
	    strcmp(a.processId, process_id) != 0)
		return;
	resume_start(engine, restore_process(engine, &a), &a);
}

/* A start that was allowed keeps its turn open, so scanning the live turns finds all of them. */
void permission_resume(struct engine *engine)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;
	const struct view_ids_query open = { .kind = VIEW_LIVE_TURN, .prefix = "", .max = RECOVER_MAX };
	struct err e = ERR_INIT;

	if (view_ids(engine->o.store, &open, &turns, NULL, &e) < 0)
		log_error("look for processes that were allowed: %s", e.message);
	for (size_t i = 0; i < turns.n; i++) {
		view_ids_auto struct view_ids processes = VIEW_IDS_INIT;
		char prefix[ID_SIZE + 1];
		const struct view_ids_query of_turn = { .kind = VIEW_TURN_PROCESS,
							.prefix = prefix,
							.max = RECOVER_MAX };

		(void)snprintf(prefix, sizeof prefix, "%s/", turns.id[i]);
		if (view_ids(engine->o.store, &of_turn, &processes, NULL, &e) < 0)
			log_error("look for processes that were allowed: %s", e.message);
		for (size_t k = 0; k < processes.n; k++)
			start_allowed(engine, processes.id[k]);
	}
}

const struct process_wait_ops permission_wait_ops = {
	.cancel = permission_cancel, .fail = permission_fail, .drop = permission_drop, .free_hooks = hook_wait_free
};
