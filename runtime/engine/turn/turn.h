#ifndef BAILIFF_ENGINE_TURN_H
#define BAILIFF_ENGINE_TURN_H

/*
 * Turns. A thread has one active turn at a time; others wait in the thread's queue (turn_queue.c) or are rejected, as
 * their client requests.
 *
 *   submitted ─ thread free → started ─┬→ completed
 *       └ queued ─ its turn came ─┘     ├→ failed (also cancelled, timed_out, lost)
 *                                       └⇄ waiting_* while an action is open
 *
 * The execution loop (turn_loop.c) runs a turn of commands and tool calls, which ends automatically. A turn with text
 * is driven by its client: the loop runs the commands that accompany the text, and the client ends the turn
 * (complete_turn, fail_turn). If the client disconnects and no other takes the turn over in time, it is lost
 * (turn_owner_loss.c).
 *
 * A turn that ends early (interrupt_turn, fail_turn) first records the intended end (run.status with `ending`), then
 * stops its work, and records the end when nothing is left. turn_step does the last part. It depends only on the turn's
 * document, so it can be called at any time, also after a restart.
 */

#include "runtime/base/buf.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/turn_owner.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

struct transaction;
struct session_scope;
enum event_type;

/*
 * turn.started and the facts that accompany it. The turn's earlier facts need not be committed yet. hook_context:
 * refs that hooks added, as JSON, or NULL.
 */
void turn_start_facts(struct engine *g, const struct turn_doc *d, bool from_queue, const char *hook_context,
		      struct transaction *tx);

struct turn_end {
	const char *status;   /* completed, failed, cancelled, timed_out, lost */
	const char *category; /* NULL = completed */
	const char *message;
	const char *outcome; /* if completed */
	const char *summary; /* or NULL */
	const char *usage;   /* a JSON object, or NULL */
	const char *call_id; /* the tool call that made it fail, or NULL */
	bool retryable;
};
void turn_end_facts(struct engine *g, const struct turn_doc *t, const struct turn_end *end, struct transaction *tx);

/* For a turn that its client drives: −1 if something open prevents its end. */
int turn_may_complete(struct engine *g, const struct turn_doc *t, struct err *e);
/* Effects of facts about turns (rows DUE): turn_step and turn_thread_free follow. */
void turn_step_due(struct engine *g, const char *turn_id);
void turn_thread_is_free(struct engine *g, const char *thread_id);
/* Does everything that is due: starts the next parts, or records the end that was decided. Idempotent. */
void turn_step(struct engine *g, const char *turn_id);
/* Like turn_step, and first stops the work of a turn whose end was decided. */
void turn_stop_decided(struct engine *g, const char *turn_id);
/* Is any of its processes or tool calls still running? */
bool turn_busy(struct engine *g, const struct turn_doc *d);
/* Asks the turn's processes and tool calls to end; turn_step follows when they have. */
void turn_stop_work(struct engine *g, const char *turn_id, const struct requester *by, const char *reason);
/* Cancels a turn for the engine itself (a cancelled task, a rollback), like interrupt_turn. */
void turn_cancel(struct engine *g, const char *turn_id, const struct requester *by, const char *reason);
/*
 * A person answered a client's question about a turn of the loop with no: adds the fact that the turn will fail.
 * turn_stop_decided follows.
 */
void turn_denied_fact(struct engine *g, const char *turn_id, const char *message, const struct requester *by,
		      struct transaction *tx);

/* Rows of modules.def. */
struct process_over;
void turn_init(struct engine *g);
void turn_done(struct engine *g);
struct hook_stop_notice;
void turn_on_hook_stop(struct engine *g, const struct hook_stop_notice *r);
void turn_on_process_over(struct engine *g, const struct process_over *x);

/* turn_owner_loss.c: turns whose client has been disconnected for too long are lost. */
uint64_t turn_owner_tick(struct engine *g, uint64_t now);

/* turn_queue.c */
void turn_queue_fact(const struct turn_queue *q, const char *change, const char *turn_id, const char *request_id,
		     struct transaction *tx);
/* The thread may be free: starts its next turn, if there is one and the queue is not held. */
void turn_thread_free(struct engine *g, const char *thread_id);
/* Cancels one queued turn, or all of a thread. The facts go into the transaction. */
void turn_queue_drop(struct engine *g, const struct turn_doc *t, const char *reason, struct transaction *tx);
void turn_queue_clear(struct engine *g, const char *thread_id, const char *reason, struct transaction *tx);
void turn_recover(struct engine *g);
/* The queued turns of all threads, for history.reconstructed. */
void turn_list_queued(struct engine *g, struct jw *w);

void turn_loop(struct engine *g, const struct turn_doc *d);

#endif
