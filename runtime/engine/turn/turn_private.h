#ifndef BAILIFF_ENGINE_TURN_PRIVATE_H
#define BAILIFF_ENGINE_TURN_PRIVATE_H

/*
 * What the files of turn/ share. Calls between them go in one direction, from the top:
 *
 *   turn.c         submit_turn
 *   turn_images.c  images in its input
 *   turn_end.c     requests that end a turn, the end of its work, owners that disconnect, restarts
 *   history.c      rollback_thread, and open histories after a restart
 *   compaction.c   compact_context, and the part of a thread's past that a request refers to
 *   turn_loop.c    the execution loop
 *   turn_queue.c   the queue of a thread
 *   turn_hooks.c   hooks before a turn starts, before it ends, and after a model's answer
 *   turn_facts.c   facts, and the processes and tool calls of a turn
 */

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/turn_owner.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/turn/turn.h"

#include <sys/queue.h>

/* ---- turn_images.c ---- */

struct turn_images {
	struct turn_image {
		json_t *part; /* as it is stored */
		char ref[ID_TEXT_MAX];
		struct buf bytes;
	} * image;
	size_t n, bytes;
};
/*
 * The part as it is stored, {"type":"image","mediaType","sha256","outputRef"}: a new reference; NULL with e. Its bytes
 * are added to `images`; turn_images_name then adds the refs to the stored parts.
 */
json_t *turn_image_check(struct engine *engine, const json_t *part, const struct caller *c, struct turn_images *images,
			 struct err *e);
void turn_images_name(struct turn_images *images);
void turn_images_store(const struct turn_images *images, const struct turn_doc *t, struct transaction *tx);
void turn_images_done(struct turn_images *images);

struct turn_state {
	TAILQ_HEAD(, rollback) rollbacks; /* in progress (history.c) */
	bool history_found;               /* open histories were found after a restart and not checked yet */
	uint64_t history_due_ns;          /* boot time: open histories are checked then, and not before */
	struct strmap stops;              /* turn id → struct stopping: waits for hooks before its end */
	struct strmap prompts; /* thread id → struct hook_prompt: a turn that waits for hooks before its start */
};

/* ---- turn_facts.c ---- */

/*
 * turn.started and the facts that accompany it. The turn's earlier facts need not be committed yet. hook_context:
 * refs that hooks added, as JSON, or NULL.
 */
void turn_start_facts(struct engine *engine, const struct turn_doc *d, bool from_queue, const char *hook_context,
		      struct transaction *tx);
void turn_end_facts(struct engine *engine, const struct turn_doc *t, const struct turn_end *end,
		    struct transaction *tx);
/* The members of a reply about a turn. */
void turn_result(struct transaction *tx, const struct turn_doc *t, const char *status);
void turn_queue_fact(const struct turn_queue *q, const char *change, const char *turn_id, const char *request_id,
		     struct transaction *tx);
/* For a turn that its client drives: −1 if something open prevents its end. */
int turn_may_complete(struct engine *engine, const struct turn_doc *t, struct err *e);
/* Is any of its processes or tool calls still running? */
bool turn_busy(struct engine *engine, const struct turn_doc *d);
/* The same without processes of hooks. */
bool turn_has_work(struct engine *engine, const struct turn_doc *d);
/* Asks the turn's processes and tool calls to end; turn_step follows when they have. */
void turn_stop_work(struct engine *engine, const char *turn_id, const struct requester *by, const char *reason);
/* Effects of facts about turns (rows DUE): turn_step and turn_thread_free follow. */
void turn_step_due(struct engine *engine, const char *turn_id);
void turn_thread_is_free(struct engine *engine, const char *thread_id);
static inline bool turn_is_ending(const struct turn_doc *t) { return t->ending.type == JT_OBJECT; }

/* ---- turn_hooks.c ---- */

/*
 * A turn with text is about to start; turn.submitted is in the transaction's batch or committed. True: hooks run
 * first. The transaction is then committed, and its reply follows with turn.started or turn.failed.
 */
bool turn_hooks_prompt(struct engine *engine, const struct turn_doc *t, const json_t *input, struct transaction *tx);
/*
 * A turn is about to complete. True: hooks run first; the turn's end follows, or the rejection of `tx` (the client's
 * request; NULL = the loop).
 */
bool turn_hooks_stop(struct engine *engine, const struct turn_doc *t, const struct turn_end *end,
		     struct transaction *tx);

/* ---- turn_queue.c ---- */

/* Cancels one queued turn, or all of a thread. The facts go into the transaction. */
void turn_queue_drop(struct engine *engine, const struct turn_doc *t, const char *reason, struct transaction *tx);
void turn_queue_clear(struct engine *engine, const char *thread_id, const char *reason, struct transaction *tx);
/* Ends a turn in a transaction of the engine's own; then the thread's next turn starts. */
void turn_end_now(struct engine *engine, const struct turn_doc *t, const struct turn_end *end);

/* ---- turn_loop.c ---- */

void turn_loop(struct engine *engine, const struct turn_doc *d);

/* ---- compaction.c, history.c ---- */

/* The thread of a request, and the turn that its facts belong to: the newest one, or the session's system turn. */
struct history_scope {
	uint32_t uid;
	char session_id[ID_SIZE], thread_id[ID_SIZE], active_turn[ID_SIZE];
	char fact_thread[ID_SIZE], fact_turn[ID_SIZE];
	bool makes_turn; /* fact_turn is a system turn that does not exist yet */
};
int history_scope_of(struct engine *engine, const char *session_id, const char *thread_id, const struct caller *c,
		     struct history_scope *ret, struct err *e);
/* All turns of a thread except the runtime's own, oldest first. */
void history_turns_of(struct engine *engine, const char *thread_id, struct view_ids *ret);
void compaction_failed_fact(struct transaction *tx, const struct history_scope *s, const char *reason, bool retryable,
			    const char *request_id);
void history_done(struct engine *engine);

#endif
