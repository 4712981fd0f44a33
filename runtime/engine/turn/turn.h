#ifndef BAILIFF_ENGINE_TURN_H
#define BAILIFF_ENGINE_TURN_H

/*
 * Turns. One is active on a thread at a time; others wait in the thread's queue (turn_queue.c) or are refused, as their
 * client says.
 *
 *   submitted ─ thread free → started ─┬→ completed
 *       └ queued ─ its turn came ─┘     ├→ failed (also cancelled, timed_out, lost)
 *                                       └⇄ waiting_* while an action is open
 *
 * A turn of commands and tool calls is run by the execution loop (turn_loop.c) and ends by itself. A turn with text is
 * its client's: the loop runs the commands that stand beside the text, and the client says when it is over
 * (complete_turn, fail_turn). One whose client goes away, and that nobody takes over, is lost (turn_owner.c).
 *
 * Whatever ends a turn before its time (interrupt_turn, fail_turn) first writes what the end will be (run.status with
 * `ending`), then ends what runs, and writes the end when nothing is left: turn_step does that, whoever calls it and
 * after whichever restart.
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
struct store_batch;
enum event_type;

/* turn.started and what stands beside it. `tx` need not be stored yet; hook_context: refs that hooks added, as JSON, or
 * NULL. */
void turn_start_facts(struct engine *g, const struct turn_doc *d, bool from_queue, const char *hook_context,
		      struct store_batch *b);

struct turn_end {
	const char *status;   /* completed, failed, cancelled, timed_out, lost */
	const char *category; /* NULL = it completed */
	const char *message;
	const char *outcome; /* when it completed */
	const char *summary; /* or NULL */
	const char *usage;   /* a JSON object, or NULL */
	const char *call_id; /* which tool call made it fail, or NULL */
	bool retryable;
};
void turn_end_facts(struct engine *g, const struct turn_doc *t, const struct turn_end *end, struct transaction *tx);

/* A turn that its client drives: is anything open that keeps it from ending? */
int turn_may_complete(struct engine *g, const struct turn_doc *t, struct err *e);
/* Effects of facts about turns (rows ON_COMMIT): turn_step and turn_thread_free follow. */
void turn_step_due(struct engine *g, const char *turn_id);
void turn_thread_is_free(struct engine *g, const char *thread_id);
/* Does whatever is due: the next parts, the end that was decided. Harmless at any time. */
void turn_step(struct engine *g, const char *turn_id);
/* The same, and what runs of a turn whose end was decided is told to end. */
void turn_stop_decided(struct engine *g, const char *turn_id);
/* Something of it still runs: processes, tool calls of others. */
bool turn_busy(struct engine *g, const struct turn_doc *d);
/* What runs of it is told to end; turn_step follows when it has. */
void turn_stop_work(struct engine *g, const char *turn_id, const struct requester *by, const char *reason);
/* The engine's own wish to end a turn (a task that was cancelled, a rollback): as interrupt_turn. */
void turn_cancel(struct engine *g, const char *turn_id, const struct requester *by, const char *reason);
/*
 * A question that a client put to a person about a turn of the loop was answered with no: the fact that the turn is to
 * fail. turn_stop_decided follows.
 */
void turn_denied_fact(struct engine *g, const char *turn_id, const char *message, const struct requester *by,
		      struct store_batch *b);

/* Rows of modules.def. */
struct process_over;
void turn_init(struct engine *g);
void turn_done(struct engine *g);
void turn_on_step_due(struct engine *g, const void *subject);
void turn_on_thread_free(struct engine *g, const void *subject);
void turn_on_hook_stop(struct engine *g, const void *subject);
void turn_on_process_over(struct engine *g, const struct process_over *x);

/* turn_owner_loss.c: turns whose client is gone for too long are lost. */
uint64_t turn_owner_tick(struct engine *g, uint64_t now);

/* turn_queue.c */
void turn_queue_fact(const struct turn_queue *q, const char *change, const char *turn_id, const char *request_id,
		     struct store_batch *b);
/* The thread may be free now: its next turn begins, if there is one and the queue is not held. */
void turn_thread_free(struct engine *g, const char *thread_id);
/* A turn that waits is cancelled; all of a thread's are. Facts into the transaction. */
void turn_queue_drop(struct engine *g, const struct turn_doc *t, const char *reason, struct transaction *tx);
void turn_queue_clear(struct engine *g, const char *thread_id, const char *reason, struct transaction *tx);
void turn_recover(struct engine *g);
/* queued turns of all threads, for history.reconstructed */
void turn_list_queued(struct engine *g, struct jw *w);

void turn_loop(struct engine *g, const struct turn_doc *d);

#endif
