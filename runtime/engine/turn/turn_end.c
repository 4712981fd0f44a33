/*
 * How turns end: automatically (turn_loop.c), by request of their client, or early. An early end first records the
 * intended end, then stops the work; turn_step finishes it when nothing is left.
 */

#include "runtime/base/log.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/call/process_tools.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session_scope.h"
#include "runtime/engine/session/turn_owner.h"
#include "runtime/engine/session/waiter.h"
#include "runtime/engine/turn/turn_private.h"
#include "runtime/view/view_channel.h"

/* ---- the end that was decided ---- */

/* Records the intended end in the turn's document, from which it can be finished after any restart. */
static void ending_fact(const struct turn_doc *t, const struct turn_end *end, const struct requester *by,
			const char *request_id, struct transaction *tx)
{
	struct scope s = turn_scope(t);

	s.request = request_id;
	EMIT(run_status, tx, s, .envelope.phase = "cancelling", .phase = "cancelling", .detail = end->message,
	     .by = json_requester(by),
	     .ending = JSON_OBJECT(turn_ending, .status = end->status, .category = end->category,
				   .message = end->message, .retryable = end->retryable, .by = json_requester(by)));
}

/* Depends only on the turn's document, so that any event and any restart may call it. */
void turn_step(struct engine *engine, const char *turn_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc d;
	struct err e = ERR_INIT;
	int r = turn_read(engine, turn_id, &text, &d, &e);

	if (r < 0)
		log_error("turn %s: %s", turn_id, e.message);
	if (r != 0 || !d.startedAt || turn_doc_ended(&d))
		return;
	if (!d.inputRef[0] && !turn_is_ending(&d))
		return; /* a process's own turn, which ends with the process */
	if (!turn_is_ending(&d))
		turn_loop(engine, &d);
	if (!turn_is_ending(&d) || turn_busy(engine, &d) || !d.inputRef[0])
		return;
	/* Record the end that was decided earlier, now that none of the turn's work is left. */
	char status[32] = "cancelled", category[64] = "cancelled", message[512] = "";
	struct turn_end end = { .status = status, .category = category, .message = message };
	struct transaction *tx = transaction_new_internal(engine);
	jval_str(jval_get(d.ending, "status"), status, sizeof status);
	jval_str(jval_get(d.ending, "category"), category, sizeof category);
	jval_str(jval_get(d.ending, "message"), message, sizeof message);
	end.retryable = jval_bool(jval_get(d.ending, "retryable"), false);
	turn_end_facts(engine, &d, &end, tx);
	transaction_after_commit(tx, turn_waiters_answer, d.turnId);
	transaction_after_commit(tx, turn_thread_free, d.threadId);
	transaction_commit(tx);
}

/* Like turn_step, and first stops the work of a turn whose end was decided. */
static void turn_stop_decided(struct engine *engine, const char *turn_id)
{
	buf_auto struct buf text = BUF_INIT;
	char reason[256] = "user";
	struct turn_doc d;
	struct err e = ERR_INIT;

	if (turn_read(engine, turn_id, &text, &d, &e) != 0)
		return;
	if (turn_is_ending(&d)) {
		struct jval who = jval_get(d.ending, "by");
		const struct requester by = { .uid = (uint32_t)jval_uint(jval_get(who, "uid"), d.uid),
					      .pid = (int32_t)jval_int(jval_get(who, "pid"), 0),
					      .role = jval_is_str(jval_get(who, "role"), "operator") ? ROLE_OPERATOR
												     : ROLE_AGENT };

		jval_str(jval_get(d.ending, "message"), reason, sizeof reason);
		turn_stop_work(engine, turn_id, &by, reason);
	}
	turn_step(engine, turn_id);
}

/* ---- complete_turn, fail_turn ---- */

/* Only for a turn that its client drives, and only when none of its work is open. */
void engine_complete_turn(struct engine *engine, const struct turn_verdict *v, const struct caller *c,
			  engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_open_of_caller(engine, v->turn_id, c, &text, &t, &e) < 0 || turn_may_complete(engine, &t, &e) < 0)
		return transaction_reject(tx, &e);
	const struct turn_end end = { .status = "completed",
				      .outcome = v->outcome ? v->outcome : "completed",
				      .summary = v->summary,
				      .usage = v->usage_json };
	/* The hooks may object; then they reply to the transaction. */
	if (turn_hooks_stop(engine, &t, &end, tx))
		return;
	turn_end_facts(engine, &t, &end, tx);
	turn_result(tx, &t, "completed");
	transaction_after_commit(tx, turn_thread_free, t.threadId);
	transaction_commit(tx);
}

/* Records the decided end. The work is stopped after the commit, and the reply follows when it has ended. */
static void decide_end(struct engine *engine, struct transaction *tx, const struct turn_doc *t,
		       const struct turn_end *end, enum turn_wait wait)
{
	const struct requester by = requester_of(&tx->caller);

	ending_fact(t, end, &by, tx->caller.request_id, tx);
	action_cancel_of_turn(engine, t->turnId, end->message, tx);
	/* STORE_MUST: a full disk must not prevent the end of a turn. */
	tx->flags |= STORE_MUST;
	if (tx->reply.fn)
		turn_waiter_add(engine, t->turnId, wait, tx);
	transaction_after_commit(tx, turn_stop_decided, t->turnId);
	transaction_commit(tx);
}

void engine_fail_turn(struct engine *engine, const struct turn_verdict *v, const struct caller *c, engine_reply_fn fn,
		      void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_open_of_caller(engine, v->turn_id, c, &text, &t, &e) < 0)
		return transaction_reject(tx, &e);
	if (!turn_driven_by_client(&t)) {
		err_set(&e, ERR_STATE,
			"turn '%s' is run by the runtime and ends by itself; interrupt_turn ends it before", t.turnId);
		return transaction_reject(tx, &e);
	}
	const struct turn_end end = { .status = "failed",
				      .category = v->category ? v->category : "client",
				      .message = v->message ? v->message : "reported by the client",
				      .retryable = v->retryable };
	decide_end(engine, tx, &t, &end, TURN_WAIT_FAILED);
}

/* ---- interrupt_turn ---- */

/*
 * The thread and turn that a request means. It may name the turn, its thread, or only a session with one active turn.
 * An empty ret_turn means that no turn is active.
 */
static int find_interrupted(struct engine *engine, const struct turn_interrupt *r, const struct caller *c,
			    char ret_thread[ID_SIZE], char ret_turn[ID_SIZE], struct err *e)
{
	view_ids_auto struct view_ids threads = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct session_doc s;
	struct thread_doc t;
	size_t active = 0;

	id_copy(ret_turn, r->turn_id);
	ret_thread[0] = '\0';
	if (r->turn_id)
		return 0;
	if (!r->thread_id && !r->session_id)
		return err_field(e, "turnId", "missing; give turnId, threadId or sessionId");
	if (r->thread_id) {
		int found = view_read_speculative(engine->o.store, &thread_schema, r->thread_id, &text, &t, e);
		if (found < 0)
			return -1;
		if (found > 0 || (c->uid != 0 && t.uid != c->uid) ||
		    (r->session_id && strcmp(r->session_id, t.sessionId) != 0))
			return err_not_known(e, "threadId", r->thread_id);
		id_copy(ret_thread, t.threadId);
		id_copy(ret_turn, t.activeTurnId);
		return 0;
	}
	int found = view_read_speculative(engine->o.store, &session_schema, r->session_id, &text, &s, e);
	if (found < 0)
		return -1;
	if (found > 0 || (c->uid != 0 && s.uid != c->uid))
		return err_not_known(e, "sessionId", r->session_id);
	if (view_members(engine->o.store, VIEW_SESSION_THREAD, r->session_id, VIEW_NEWEST_FIRST, 1000, &threads, e) < 0)
		return -1;
	for (size_t i = 0; i < threads.n; i++) {
		if (view_read_speculative(engine->o.store, &thread_schema, threads.id[i], &text, &t, e) != 0 ||
		    !t.activeTurnId[0])
			continue;
		id_copy(ret_turn, t.activeTurnId);
		id_copy(ret_thread, t.threadId);
		active++;
	}
	return active > 1 ? err_field(e, "threadId", "missing: %zu threads of the session have an active turn", active)
			  : 0;
}

/* The reply to an interrupt that ends no process. */
static void interrupt_result(struct transaction *tx, const char *status, const char *turn_id, const char *reason)
{
	jw_kstr(&tx->w, "status", status);
	jw_kopt(&tx->w, "turnId", none_if_empty(turn_id));
	jw_kopt(&tx->w, "reason", reason);
	jw_karr(&tx->w, "processes");
	jw_arr_end(&tx->w);
	transaction_commit(tx);
}

void engine_interrupt_turn(struct engine *engine, const struct turn_interrupt *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	const char *reason = r->reason ? r->reason : "user";
	const struct turn_end end = { .status = "cancelled", .category = "cancelled", .message = reason };
	buf_auto struct buf text = BUF_INIT;
	char thread[ID_SIZE], turn[ID_SIZE];
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (find_interrupted(engine, r, c, thread, turn, &e) < 0 ||
	    (turn[0] && turn_of_caller(engine, "turnId", turn, c, &text, &t, &e) < 0))
		return transaction_reject(tx, &e);
	if (r->end_processes)
		process_tools_end(engine, turn[0] ? t.threadId : thread, c);
	if (!turn[0]) {
		if (r->clear_queue && thread[0])
			turn_queue_clear(engine, thread, reason, tx);
		interrupt_result(tx, "no_op", "", "no turn is active");
	} else if (turn_doc_ended(&t)) {
		interrupt_result(tx, "no_op", t.turnId, "the turn has ended");
	} else if (!t.startedAt) {
		turn_queue_drop(engine, &t, reason, tx);
		interrupt_result(tx, "interrupted", t.turnId, NULL);
	} else if (turn_is_ending(&t)) {
		/* An earlier request has decided its end: wait for it as well. */
		turn_waiter_add(engine, t.turnId, TURN_WAIT_INTERRUPTED, tx);
		transaction_commit(tx);
	} else {
		if (r->clear_queue)
			turn_queue_clear(engine, t.threadId, reason, tx);
		/* A process's own turn ends with the process; turn_step then has nothing to write. */
		decide_end(engine, tx, &t, &end, TURN_WAIT_INTERRUPTED);
	}
}

/* Cancels a turn for the engine itself, like interrupt_turn. */
static void turn_cancel(struct engine *engine, const char *turn_id, const struct requester *by, const char *reason)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;
	const struct turn_end end = { .status = "cancelled", .category = "cancelled", .message = reason };

	if (turn_read(engine, turn_id, &text, &t, &e) != 0 || turn_doc_ended(&t) || turn_is_ending(&t) ||
	    jval_is_str(t.source, "system")) /* which carries the facts of the session and never ends */
		return;
	struct transaction *tx = transaction_new_internal(engine);
	tx->caller.uid = by->uid;
	tx->caller.pid = by->pid;
	tx->caller.role = by->role;
	if (t.startedAt)
		return decide_end(engine, tx, &t, &end, TURN_WAIT_INTERRUPTED);
	turn_queue_drop(engine, &t, reason, tx);
	transaction_commit(tx);
}

/* ---- reactions to facts of other modules ---- */

/*
 * An action that a client requested. For a turn that a client drives, the client sees action.resolved and reacts. A
 * turn of the loop has no such client, so a denial ends the turn in the same commit; otherwise its next part would
 * start as if the answer had been yes.
 */
static void request_resolved(struct engine *engine, const struct action_outcome *o, struct transaction *tx)
{
	buf_auto struct buf message = BUF_INIT, text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (strcmp(o->status, "cancelled") == 0 || !action_means_refuse(o->decision))
		return;
	/* Only a turn of the loop that is in progress and whose end is not decided yet. */
	if (turn_read(engine, o->action->turnId, &text, &t, &e) != 0 || !t.startedAt || turn_doc_ended(&t) ||
	    turn_is_ending(&t) || !t.inputRef[0] || turn_driven_by_client(&t))
		return;
	buf_printf(&message, "%s (%.60s)%s%.200s",
		   strcmp(o->status, "timed_out") == 0 ? "the action timed out without an answer" : "the answer was no",
		   o->decision, o->note ? ": " : "", o->note ? o->note : "");
	const struct turn_end end = { .status = "failed", .category = "permission", .message = message.data };
	ending_fact(&t, &end, &o->by, NULL, tx);
}

/* Only a turn whose end was decided by the answer is stopped; for others this is a step like any other. */
static void request_over(struct engine *engine, const char *action_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct action_doc a;
	struct err e = ERR_INIT;
	char turn[ID_SIZE];

	if (action_read(engine, action_id, &text, &a, &e) != 0)
		return;
	id_copy(turn, a.turnId);
	turn_stop_decided(engine, turn);
}

const struct action_kind_ops turn_request_ops = { .resolved = request_resolved, .over = request_over };
void turn_on_hook_stop(struct engine *engine, const struct hook_stop_notice *n)
{
	turn_cancel(engine, n->turn_id, n->by, n->reason);
}

void turn_on_process_over(struct engine *engine, const struct process_over *x)
{
	/* A process's own turn has ended with it; otherwise the process was a part of the turn. */
	if (x->owns_turn) {
		turn_waiters_answer(engine, x->turn_id);
		if (!x->made_thread || engine->turns_queued) /* else its queue is empty */
			turn_thread_free(engine, x->thread_id);
	} else {
		turn_step(engine, x->turn_id);
	}
}

/* ---- turns whose client has disconnected (session/turn_owner.c) ---- */

/* Any client may take it over from now on. */
static void stall_turn(struct engine *engine, const struct turn_doc *t, struct turn_owner *d)
{
	struct transaction *tx = transaction_new_internal(engine);

	EMIT(run_status, tx, turn_scope(t), .envelope.phase = "stalled", .phase = "stalled",
	     .detail = d->connection ? "its client was silent for longer than its lease"
				     : "its client has disconnected");
	transaction_commit(tx);
	d->connection = 0;
	turn_owner_renew(engine, d);
}

static void check_owner(struct engine *engine, const char *turn_id)
{
	static const struct turn_end lost = { .status = "lost",
					      .category = "client_gone",
					      .retryable = true,
					      .message = "the client that drives it has disconnected or was silent, "
							 "and no other client took it over" };
	struct turn_owner *d = turn_owner_of(engine, turn_id);
	buf_auto struct buf text = BUF_INIT, channel_text = BUF_INIT;
	struct channel_doc channel;
	struct turn_doc t;
	struct err e = ERR_INIT;
	int r = turn_read(engine, turn_id, &text, &t, &e);

	if (r < 0)
		log_error("turn %s: %s", turn_id, e.message);
	/* A connected channel still belongs to the client, even without a connection of its own. It renews no lease. */
	bool reachable = d && !d->leased && d->channel_id[0] &&
			 view_read_speculative(engine->o.store, &channel_schema, d->channel_id, &channel_text, &channel,
					       &e) == 0 &&
			 strcmp(channel.status, "connected") == 0;
	if (!d || r > 0 || (r == 0 && turn_doc_ended(&t)))
		turn_owner_forget(engine, turn_id);
	else if (r < 0 || !t.startedAt || turn_is_ending(&t) || turn_busy(engine, &t) || reachable)
		turn_owner_renew(engine, d);
	else if (strcmp(t.phase, "stalled") == 0)
		turn_end_now(engine, &t, &lost); /* also forgets its owner */
	else
		stall_turn(engine, &t, d);
}

void engine_claim_turn(struct engine *engine, const char *turn_id, const struct caller *c, engine_reply_fn fn,
		       void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_of_caller(engine, "turnId", turn_id, c, &text, &t, &e) == 0 &&
	    (turn_doc_ended(&t) || !turn_driven_by_client(&t)))
		err_set(&e, ERR_STATE, "turn '%s' %s", t.turnId,
			turn_doc_ended(&t) ? "has ended" : "is not driven by a client");
	if (e.code || turn_owner_seen(engine, &t, c->connection, c->channel_id, &e) < 0)
		return transaction_reject(tx, &e);
	const struct turn_owner *d = turn_owner_of(engine, turn_id);
	turn_result(tx, &t, t.status);
	if (d && d->leased)
		jw_kuint(&tx->w, "leaseMs", d->period_ns / 1000000u);
	transaction_commit(tx);
}

uint64_t turn_owner_tick(struct engine *engine, uint64_t now)
{
	struct turn_owners_due due;

	if (engine->stopping)
		return UINT64_MAX;
	uint64_t next = turn_owners_due(engine, now, &due);
	for (size_t i = 0; i < due.count; i++)
		check_owner(engine, due.id[i]);
	free(due.id);
	return next;
}

/* ---- after a restart ---- */

/*
 * A queue is held after a restart until a client resumes it, unless the runtime itself continues the active turn: some
 * of its work runs, or its next part starts now. A turn with a part that failed, was lost or ended with the daemon is
 * about to end. Whether a client still drives its turn cannot be known.
 */
static void recover_queue(struct engine *engine, const char *thread_id)
{
	char active[ID_SIZE] = "";
	buf_auto struct buf text = BUF_INIT;
	struct turn_queue q;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_queue_read(engine, thread_id, &q, &e) < 0 || !q.count || q.held)
		return;
	int busy = thread_busy(engine, thread_id, active, &e);
	if (busy > 0 && turn_read(engine, active, &text, &t, &e) == 0 && !turn_driven_by_client(&t) &&
	    !turn_is_ending(&t) && (turn_busy(engine, &t) || !view_counted(t.partsFailed)))
		return;
	struct transaction *tx = transaction_new_internal(engine);
	q.held = true;
	turn_queue_fact(&q, "held", NULL, NULL, tx);
	if (!busy)
		thread_status_fact(engine, q.uid, q.session_id, thread_id, "queued", "queue_held", tx);
	transaction_commit(tx);
}

/* Runs after processes and tool calls were recovered: what is alive is known by now. */
void turn_recover(struct engine *engine)
{
	view_ids_auto struct view_ids queues = VIEW_IDS_INIT, turns = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_QUEUE, NULL, ID_LIST_ALL, &queues);
	for (size_t i = 0; i < queues.n; i++)
		recover_queue(engine, queues.id[i]);
	/* Clients get a grace period to take over their turns. Decided ends are carried out; other turns continue. */
	id_list_read(engine, VIEW_LIVE_TURN, NULL, ID_LIST_ALL, &turns);
	for (size_t i = 0; i < turns.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct turn_doc t;
		struct err e = ERR_INIT;

		if (turn_read(engine, turns.id[i], &text, &t, &e) == 0)
			(void)turn_owner_seen(engine, &t, 0, NULL, &e);
		turn_stop_decided(engine, turns.id[i]);
	}
}

void turn_list_queued(struct engine *engine, struct jw *w)
{
	view_ids_auto struct view_ids queues = VIEW_IDS_INIT;
	struct turn_queue q;
	struct err e = ERR_INIT;
	size_t shown = 0;

	id_list_read(engine, VIEW_QUEUE, NULL, ID_LIST_ALL, &queues);
	for (size_t i = 0; i < queues.n; i++)
		if (turn_queue_read(engine, queues.id[i], &q, &e) == 0)
			for (size_t k = 0; k < q.count && shown++ < 200; k++)
				jw_str(w, q.ids[k]);
}

/* ---- the module ---- */

void turn_init(struct engine *engine)
{
	engine->turns = mem_zalloc(1, sizeof *engine->turns);
	TAILQ_INIT(&engine->turns->rollbacks);
}

void turn_done(struct engine *engine)
{
	history_done(engine);
	strmap_done(&engine->turns->prompts);
	strmap_done(&engine->turns->stops);
	free(engine->turns);
}
