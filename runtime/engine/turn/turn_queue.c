/*
 * The queue of a thread: turns that wait for it. Their order is recorded (queue.changed holds the whole queue). After
 * a restart a queue is held until a client resumes the thread, unless the active turn before it provably continues.
 */

#include "runtime/base/log.h"
#include "runtime/engine/session/session_scope.h"
#include "runtime/engine/turn/turn_private.h"

static void queue_remove(struct turn_queue *q, size_t at)
{
	memmove(&q->ids[at], &q->ids[at + 1], (--q->count - at) * sizeof q->ids[0]);
}

static bool queue_find(const struct turn_queue *q, const char *turn_id, size_t *ret)
{
	for (size_t i = 0; i < q->count; i++)
		if (strcmp(q->ids[i], turn_id) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

/* ---- the next turn ---- */

/*
 * Takes the first turn out of the queue and starts it, in one commit. Hooks for its prompt may have to run first; they
 * hold the thread.
 */
void turn_thread_free(struct engine *engine, const char *thread_id)
{
	buf_auto struct buf text = BUF_INIT;
	char active[ID_SIZE], id[ID_SIZE];
	struct turn_queue q;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (engine->stopping || turn_queue_is_empty(engine, thread_id))
		return;
	int busy = thread_busy(engine, thread_id, active, &e);
	if (busy == 0 && turn_queue_read(engine, thread_id, &q, &e) < 0)
		busy = -1;
	if (busy < 0)
		log_error("thread %s: %s", thread_id, e.message);
	if (busy != 0 || !q.count || q.held)
		return;
	id_copy(id, q.ids[0]);
	queue_remove(&q, 0);
	struct transaction *tx = transaction_new_internal(engine);
	turn_queue_fact(&q, "taken", id, NULL, tx);
	if (turn_read(engine, id, &text, &t, &e) == 0 && !turn_doc_ended(&t)) {
		const bool text_part = turn_driven_by_client(&t) || turn_driven_by_loop(&t);
		json_auto_t *input = text_part ? turn_input(engine, &t, &e) : NULL;

		if (input && turn_hooks_prompt(engine, &t, input, tx))
			return;
		turn_start_facts(engine, &t, true, NULL, tx);
		transaction_after_commit(tx, turn_step_due, id);
	} else {
		transaction_after_commit(tx, turn_thread_free, thread_id); /* that turn has ended: try the next one */
	}
	transaction_commit(tx);
}

void turn_end_now(struct engine *engine, const struct turn_doc *t, const struct turn_end *end)
{
	struct transaction *tx = transaction_new_internal(engine);

	turn_end_facts(engine, t, end, tx);
	transaction_after_commit(tx, turn_thread_free, t->threadId);
	transaction_commit(tx);
}

/* ---- leaving the queue ---- */

/* The turn is not in the queue if it waits for hooks before its start. */
void turn_queue_drop(struct engine *engine, const struct turn_doc *t, const char *reason, struct transaction *tx)
{
	const struct turn_end end = { .status = "cancelled", .category = "cancelled", .message = reason };
	struct turn_queue q;
	struct err e = ERR_INIT;
	size_t at;

	if (turn_queue_read(engine, t->threadId, &q, &e) == 0 && queue_find(&q, t->turnId, &at)) {
		queue_remove(&q, at);
		turn_queue_fact(&q, "removed", t->turnId, tx->caller.request_id, tx);
	}
	turn_end_facts(engine, t, &end, tx);
}

void turn_queue_clear(struct engine *engine, const char *thread_id, const char *reason, struct transaction *tx)
{
	const struct turn_end end = { .status = "cancelled", .category = "cancelled", .message = reason };
	buf_auto struct buf text = BUF_INIT;
	struct turn_queue q, empty;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_queue_read(engine, thread_id, &q, &e) < 0 || !q.count)
		return;
	empty = q;
	empty.count = 0;
	/* An empty queue has nothing to hold. */
	empty.held = false;
	turn_queue_fact(&empty, "cleared", NULL, tx->caller.request_id, tx);
	for (size_t i = 0; i < q.count; i++)
		if (turn_read(engine, q.ids[i], &text, &t, &e) == 0 && !turn_doc_ended(&t))
			turn_end_facts(engine, &t, &end, tx);
}

/* Loads a turn of the caller's that waits in its thread's queue. */
static int queued_of_caller(struct engine *engine, const char *turn_id, const struct caller *c, struct buf *text,
			    struct turn_doc *t, struct turn_queue *q, size_t *at, struct err *e)
{
	if (turn_of_caller(engine, "queuedTurnId", turn_id, c, text, t, e) < 0 ||
	    turn_queue_read(engine, t->threadId, q, e) < 0)
		return -1;
	if (!queue_find(q, turn_id, at))
		return err_set(e, ERR_STATE, "turn '%s' is not queued: it is %s%s", turn_id, t->status,
			       turn_doc_ended(t) ? "" : "; interrupt_turn ends it");
	return 0;
}

static void queue_result(struct transaction *tx, const struct turn_queue *q, const char *turn_id, const char *status)
{
	jw_kstr(&tx->w, "turnId", turn_id);
	jw_kstr(&tx->w, "queuedTurnId", turn_id);
	jw_kstr(&tx->w, "threadId", q->thread_id);
	jw_kstr(&tx->w, "status", status);
	id_list_write(&tx->w, "order", q->ids, q->count);
}

/* The reply has the order without the turn, as it will be after the commit. */
void engine_remove_queued_turn(struct engine *engine, const char *turn_id, const char *reason, const struct caller *c,
			       engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct turn_queue q;
	struct turn_doc t;
	struct err e = ERR_INIT;
	size_t at;

	if (queued_of_caller(engine, turn_id, c, &text, &t, &q, &at, &e) < 0)
		return transaction_reject(tx, &e);
	turn_queue_drop(engine, &t, reason ? reason : "removed from the queue", tx);
	queue_remove(&q, at);
	queue_result(tx, &q, turn_id, "removed");
	transaction_commit(tx);
}

void engine_promote_queued_turn(struct engine *engine, const char *turn_id, const struct caller *c, engine_reply_fn fn,
				void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	char id[ID_SIZE];
	struct turn_queue q;
	struct turn_doc t;
	struct err e = ERR_INIT;
	size_t at;

	if (queued_of_caller(engine, turn_id, c, &text, &t, &q, &at, &e) < 0)
		return transaction_reject(tx, &e);
	/* Moves the turn to the front; the others keep their order. */
	memcpy(id, q.ids[at], sizeof id);
	memmove(&q.ids[1], &q.ids[0], at * sizeof q.ids[0]);
	memcpy(q.ids[0], id, sizeof id);
	if (at)
		turn_queue_fact(&q, "promoted", id, c->request_id, tx);
	queue_result(tx, &q, id, "queued");
	transaction_commit(tx);
}

/* ---- resume_thread ---- */

/* Also a way to nudge a thread: what is due is done, even if the queue was not held. */
void engine_resume_thread(struct engine *engine, const char *session_id, const char *thread_id, const struct caller *c,
			  engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	char active[ID_SIZE] = "";
	struct turn_queue q;
	struct session_scope p;
	struct err e = ERR_INIT;
	int busy = 0;

	if (session_scope_find(engine, session_id, thread_id, SCOPE_FIRST_THREAD, c, &p, &e) < 0 ||
	    turn_queue_read(engine, p.thread_id, &q, &e) < 0 ||
	    (busy = thread_busy(engine, p.thread_id, active, &e)) < 0)
		return transaction_reject(tx, &e);
	const bool was_held = q.held;
	if (was_held) {
		q.held = false;
		turn_queue_fact(&q, "resumed", NULL, c->request_id, tx);
		if (!busy)
			thread_status_fact(engine, q.uid, q.session_id, q.thread_id, "idle", "resumed", tx);
		const struct scope s = {
			.uid = q.uid, .session = q.session_id, .thread = q.thread_id, .request = c->request_id
		};
		EMIT(history_window_loaded, tx, s, .from = store_first_sequence(engine->o.store),
		     .to = store_last_sequence(engine->o.store));
		/* The next turn starts only after the change is durable. */
		transaction_after_commit(tx, turn_thread_free, p.thread_id);
	}
	/* Let the active turn continue if something of it is due. */
	if (busy)
		transaction_after_commit(tx, turn_step_due, active);
	jw_kstr(&tx->w, "sessionId", p.session_id);
	jw_kstr(&tx->w, "threadId", p.thread_id);
	jw_kstr(&tx->w, "status", was_held ? "resumed" : "no_op");
	if (active[0])
		jw_kstr(&tx->w, "activeTurnId", active);
	id_list_write(&tx->w, "queuedTurns", q.ids, q.count);
	transaction_commit(tx);
}
