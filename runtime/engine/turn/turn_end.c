/*
 * How turns end: automatically (turn_loop.c), by request of their client, or early. An early end first records the
 * intended end, then stops the work; turn_step finishes it when nothing is left.
 */

#include "runtime/engine/turn/turn.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/waiter.h"
#include "runtime/engine/turn/history.h"
#include "runtime/engine/turn/turn_hooks.h"
#include "runtime/engine/turn/turn_state.h"
#include "runtime/view/view_ids.h"

#include <signal.h>

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

/* Records the end that was decided earlier, now that none of the turn's work is left. */
static void finish_ending(struct engine *g, const struct turn_doc *t)
{
	char status[32] = "cancelled", category[64] = "cancelled", message[512] = "";
	struct transaction *tx = transaction_new_internal(g);
	struct turn_end end = { .status = status, .category = category, .message = message };

	jval_str(jval_get(t->ending, "status"), status, sizeof status);
	jval_str(jval_get(t->ending, "category"), category, sizeof category);
	jval_str(jval_get(t->ending, "message"), message, sizeof message);
	end.retryable = jval_bool(jval_get(t->ending, "retryable"), false);
	turn_end_facts(g, t, &end, tx);
	transaction_after_commit(tx, turn_waiters_answer, t->turnId);
	transaction_after_commit(tx, turn_thread_free, t->threadId);
	transaction_commit(tx);
}

void turn_step(struct engine *g, const char *turn_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc d;
	struct err e = ERR_INIT;
	int r = turn_read(g, turn_id, &text, &d, &e);

	if (r < 0)
		log_error("turn %s: %s", turn_id, e.message);
	if (r != 0 || !d.startedAt || turn_doc_ended(&d))
		return;
	if (!d.inputRef[0] && d.ending.type != JT_OBJECT)
		return; /* a process's own turn, which ends with the process */
	if (d.ending.type != JT_OBJECT)
		turn_loop(g, &d);
	else if (!turn_busy(g, &d) && d.inputRef[0])
		finish_ending(g, &d);
}

void turn_stop_decided(struct engine *g, const char *turn_id)
{
	buf_auto struct buf text = BUF_INIT;
	char reason[256] = "user", role[16] = "";
	struct turn_doc d;
	struct err e = ERR_INIT;
	struct requester by = { 0 };

	if (turn_read(g, turn_id, &text, &d, &e) != 0)
		return;
	if (d.ending.type != JT_OBJECT) {
		turn_step(g, turn_id);
		return;
	}
	struct jval who = jval_get(d.ending, "by");
	jval_str(jval_get(who, "role"), role, sizeof role);
	by.uid = (uint32_t)jval_uint(jval_get(who, "uid"), 0);
	by.pid = (int32_t)jval_int(jval_get(who, "pid"), 0);
	by.role = strcmp(role, "agent") == 0 ? ROLE_AGENT : ROLE_OPERATOR;
	jval_str(jval_get(d.ending, "message"), reason, sizeof reason);
	turn_stop_work(g, turn_id, &by, reason);
	turn_step(g, turn_id);
}

/* ---- complete_turn, fail_turn ---- */

static void turn_result(struct transaction *tx, const struct turn_doc *t, const char *status)
{
	jw_kstr(&tx->w, "sessionId", t->sessionId);
	jw_kstr(&tx->w, "threadId", t->threadId);
	jw_kstr(&tx->w, "turnId", t->turnId);
	jw_kstr(&tx->w, "status", status);
}

void engine_complete_turn(struct engine *g, const struct turn_verdict *v, const struct caller *c, engine_reply_fn fn,
			  void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_open_of_caller(g, v->turn_id, c, &text, &t, &e) < 0 || turn_may_complete(g, &t, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	const struct turn_end end = { .status = "completed",
				      .outcome = v->outcome ? v->outcome : "completed",
				      .summary = v->summary,
				      .usage = v->usage_json };
	/* The hooks may object; then they reply to the transaction. */
	if (turn_hooks_stop(g, &t, &end, tx))
		return;
	turn_end_facts(g, &t, &end, tx);
	turn_result(tx, &t, "completed");
	transaction_after_commit(tx, turn_thread_free, t.threadId);
	transaction_commit(tx);
}

/* Records the decided end. The work is stopped after the commit, and the reply follows when it has ended. */
static void decide_end(struct engine *g, struct transaction *tx, const struct turn_doc *t, const struct turn_end *end,
		       enum turn_wait wait)
{
	const struct requester by = requester_of(&tx->caller);

	ending_fact(t, end, &by, tx->caller.request_id, tx);
	action_cancel_of_turn(g, t->turnId, end->message, tx);
	/* STORE_MUST: a full disk must not prevent the end of a turn. */
	tx->flags |= STORE_MUST;
	if (tx->reply.fn)
		turn_waiter_add(g, t->turnId, wait, tx);
	transaction_after_commit(tx, turn_stop_decided, t->turnId);
	transaction_commit(tx);
}

void engine_fail_turn(struct engine *g, const struct turn_verdict *v, const struct caller *c, engine_reply_fn fn,
		      void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_open_of_caller(g, v->turn_id, c, &text, &t, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	if (!turn_driven_by_client(&t)) {
		err_set(&e, ERR_STATE,
			"turn '%s' is run by the runtime and ends by itself; interrupt_turn ends it before", t.turnId);
		transaction_reject(tx, &e);
		return;
	}
	const struct turn_end end = { .status = "failed",
				      .category = v->category ? v->category : "client",
				      .message = v->message ? v->message : "the client says so",
				      .retryable = v->retryable };
	decide_end(g, tx, &t, &end, TURN_WAIT_FAILED);
}

/* ---- interrupt_turn ---- */

struct active_scan {
	char thread[ID_SIZE], turn[ID_SIZE];
	size_t count;
};

/* The only active turn of a session, for a request that names neither thread nor turn. */
static int only_active(struct engine *g, const char *session_id, const struct caller *c, struct active_scan *ret,
		       struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = {
		.kind = VIEW_SESSION_THREAD, .prefix = prefix, .descending = true, .max = 1000
	};
	struct session_doc s;
	int r = view_read_speculative(g->o.store, &session_schema, session_id, &text, &s, e);

	*ret = (struct active_scan){ 0 };
	if (r < 0)
		return -1;
	if (r > 0 || (c->uid != 0 && s.uid != c->uid))
		return err_set(e, ERR_NOT_FOUND, "sessionId '%.80s' is not known", session_id);
	snprintf(prefix, sizeof prefix, "%s/", session_id);
	if (view_ids(g->o.store, &q, &ids, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < ids.n; i++) {
		struct thread_doc t;

		if (view_read_speculative(g->o.store, &thread_schema, ids.id[i], &text, &t, e) != 0 ||
		    !t.activeTurnId[0])
			continue;
		id_copy(ret->turn, t.activeTurnId);
		id_copy(ret->thread, t.threadId);
		ret->count++;
	}
	if (ret->count > 1)
		return err_field(e, "threadId", "missing: %zu threads of the session have an active turn", ret->count);
	return 0;
}

static int find_interrupted(struct engine *g, const struct turn_interrupt *r, const struct caller *c,
			    struct active_scan *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct thread_doc t;

	*ret = (struct active_scan){ 0 };
	if (r->turn_id) {
		id_copy(ret->turn, r->turn_id);
		return 0;
	}
	if (!r->thread_id)
		return r->session_id ? only_active(g, r->session_id, c, ret, e)
				     : err_field(e, "turnId", "missing; give turnId, threadId or sessionId");
	int found = view_read_speculative(g->o.store, &thread_schema, r->thread_id, &text, &t, e);
	if (found < 0)
		return -1;
	if (found > 0 || (c->uid != 0 && t.uid != c->uid) || (r->session_id && strcmp(r->session_id, t.sessionId) != 0))
		return err_set(e, ERR_NOT_FOUND, "threadId '%.80s' is not known", r->thread_id);
	id_copy(ret->thread, t.threadId);
	id_copy(ret->turn, t.activeTurnId);
	return 0;
}

static void no_op(struct transaction *tx, const char *turn_id, const char *why)
{
	jw_kstr(&tx->w, "status", "no_op");
	if (turn_id[0])
		jw_kstr(&tx->w, "turnId", turn_id);
	jw_kstr(&tx->w, "reason", why);
	jw_karr(&tx->w, "processes");
	jw_arr_end(&tx->w);
	transaction_commit(tx);
}

static void interrupt_turn(struct engine *g, struct transaction *tx, const struct turn_doc *t,
			   const struct turn_interrupt *r)
{
	const char *reason = r->reason ? r->reason : "user";
	const struct turn_end end = { .status = "cancelled", .category = "cancelled", .message = reason };

	if (r->clear_queue)
		turn_queue_clear(g, t->threadId, reason, tx);
	/* A process's own turn ends with the process; turn_step then has nothing to write. */
	decide_end(g, tx, t, &end, TURN_WAIT_INTERRUPTED);
}

void engine_interrupt_turn(struct engine *g, const struct turn_interrupt *r, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct active_scan which;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (find_interrupted(g, r, c, &which, &e) < 0 ||
	    (which.turn[0] && turn_of_caller(g, which.turn, c, &text, &t, &e) < 0)) {
		transaction_reject(tx, &e);
		return;
	}
	if (!which.turn[0]) {
		if (r->clear_queue && which.thread[0])
			turn_queue_clear(g, which.thread, r->reason ? r->reason : "user", tx);
		no_op(tx, "", "no turn is active");
	} else if (turn_doc_ended(&t)) {
		no_op(tx, t.turnId, "the turn has ended");
	} else if (!t.startedAt) {
		turn_queue_drop(g, &t, r->reason ? r->reason : "user", tx);
		jw_kstr(&tx->w, "status", "interrupted");
		jw_kstr(&tx->w, "turnId", t.turnId);
		jw_karr(&tx->w, "processes");
		jw_arr_end(&tx->w);
		transaction_commit(tx);
	} else if (t.ending.type == JT_OBJECT) {
		/* An earlier request has decided its end: wait for it as well. */
		turn_waiter_add(g, t.turnId, TURN_WAIT_INTERRUPTED, tx);
		transaction_commit(tx);
	} else {
		interrupt_turn(g, tx, &t, r);
	}
}

/* Only for a turn of the loop that is in progress and whose end is not decided yet. */
void turn_denied_fact(struct engine *g, const char *turn_id, const char *message, const struct requester *by,
		      struct transaction *tx)
{
	const struct turn_end end = { .status = "failed", .category = "permission", .message = message };
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_read(g, turn_id, &text, &t, &e) == 0 && t.startedAt && !turn_doc_ended(&t) &&
	    t.ending.type != JT_OBJECT && t.inputRef[0] && !turn_driven_by_client(&t))
		ending_fact(&t, &end, by, NULL, tx);
}

void turn_cancel(struct engine *g, const char *turn_id, const struct requester *by, const char *reason)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;
	const struct turn_end end = { .status = "cancelled", .category = "cancelled", .message = reason };

	if (turn_read(g, turn_id, &text, &t, &e) != 0 || turn_doc_ended(&t) || t.ending.type == JT_OBJECT)
		return;
	struct transaction *tx = transaction_new_internal(g);
	tx->caller.uid = by->uid;
	tx->caller.pid = by->pid;
	tx->caller.role = by->role;
	if (t.startedAt) {
		decide_end(g, tx, &t, &end, TURN_WAIT_INTERRUPTED);
		return;
	}
	turn_queue_drop(g, &t, reason, tx);
	transaction_commit(tx);
}

/* ---- reactions to facts of other modules ---- */

/*
 * An action that a client requested. For a turn that a client drives, the client sees action.resolved and reacts. A
 * turn of the loop has no such client, so a denial ends the turn in the same commit; otherwise its next part would
 * start as if the answer had been yes.
 */
static void request_resolved(struct engine *g, const struct action_outcome *o, struct transaction *tx)
{
	buf_auto struct buf message = BUF_INIT;

	if (strcmp(o->status, "cancelled") == 0 || !action_means_refuse(o->decision))
		return;
	buf_printf(&message, "%s (%.60s)%s%.200s",
		   strcmp(o->status, "timed_out") == 0 ? "the action timed out without an answer" : "the answer was no",
		   o->decision, o->note ? ": " : "", o->note ? o->note : "");
	turn_denied_fact(g, o->action->turnId, message.data, &o->by, tx);
}

static void request_over(struct engine *g, const char *action_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct action_doc a;
	struct err e = ERR_INIT;
	char turn[ID_SIZE];

	if (action_read(g, action_id, &text, &a, &e) != 0)
		return;
	id_copy(turn, a.turnId);
	turn_stop_decided(g, turn);
}

const struct action_kind_ops turn_request_ops = { .resolved = request_resolved, .over = request_over };

void turn_on_hook_stop(struct engine *g, const struct hook_stop_notice *r)
{
	turn_cancel(g, r->turn_id, r->by, r->reason);
}

void turn_on_process_over(struct engine *g, const struct process_over *x)
{
	/* A process's own turn has ended with it; otherwise the process was a part of the turn. */
	if (x->owns_turn) {
		turn_waiters_answer(g, x->turn_id);
		turn_thread_free(g, x->thread_id);
	} else {
		turn_step(g, x->turn_id);
	}
}

void turn_init(struct engine *g)
{
	g->turns = mem_zalloc(1, sizeof *g->turns);
	TAILQ_INIT(&g->turns->rollbacks);
}

void turn_done(struct engine *g)
{
	history_done(g);
	strmap_done(&g->turns->prompts);
	strmap_done(&g->turns->stops);
	free(g->turns);
}
