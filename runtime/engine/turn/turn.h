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
 * (complete_turn, fail_turn). If the client disconnects, or does not renew its lease, and no other takes the turn over
 * in time, the turn is stalled, then lost (session/turn_owner.c).
 *
 * History: compaction replaces a thread's past by a summary for the agent that continues, rollback removes turns from
 * it. Neither deletes an event; both are boundaries that readers see. A compaction lists open actions, incidents and
 * refs that stay valid. Open actions survive a rollback. Compaction has two steps: it is started, and later (or in the
 * same call) the client delivers the summary or the failure. An open compaction fails when its deadline passes, or at a
 * restart. A rollback also discards the files of copy-on-write runs whose changes are not applied yet, before it
 * completes. A rollback that a crash interrupted is finished at the next start.
 *
 * A turn that ends early (interrupt_turn, fail_turn) first records the intended end (run.status with `ending`), then
 * stops its work, and records the end when nothing is left. turn_step does the last part. It depends only on the turn's
 * document, so it can be called at any time, also after a restart.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/event/payloads.h"

struct json_t;
struct jw;
struct turn_doc;
struct hook_stop_notice;
struct process_over;

/* The requests about turns themselves are declared in core/engine.h. */

struct compaction_request {
	const char *session_id, *thread_id;  /* session_id NULL = the thread's */
	const char *trigger;                 /* why; needed by the request that starts the compaction */
	const char *summary, *failure;       /* at most one of them; either ends the compaction */
	const struct json_t *affected_turns; /* array of turn ids; NULL = all */
	const struct json_t *continuation;   /* or NULL */
	struct opt_int tokens_before, tokens_after;
};
void engine_compact_context(struct engine *engine, const struct compaction_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx);
struct rollback_request {
	const char *session_id, *thread_id, *to_turn_id, *reason; /* session_id and reason may be NULL */
};
void engine_rollback_thread(struct engine *engine, const struct rollback_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx);
/* A client loaded an older part of a session's threads. The caller calls this once per part and connection. */
void engine_window_loaded(struct engine *engine, uint32_t uid, const char *session_id, const char *thread_id,
			  const char *cursor, uint64_t from, uint64_t to, bool truncated);
/* The host has discarded the changes of a copy-on-write run; `e` is set if that failed. */
void engine_on_discarded(struct engine *engine, const char *process_id, const struct err *e);

/* ---- for the loop ---- */

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
/* Runs the hooks for the end and ends the turn, unless one of them continues it. */
void turn_finish(struct engine *engine, const struct turn_doc *t, const struct turn_end *end);
/* Hooks run before the end of the turn. It ends or continues when they have answered. */
bool turn_stop_pending(const struct engine *engine, const char *turn_id);

/* A client reported a model's answer: runs the hooks for that. Nothing waits for them. */
void turn_hooks_sampled(struct engine *engine, const char *turn_id, const char *payload, size_t len);

/* Rows of modules.def. */
void turn_init(struct engine *engine);
void turn_done(struct engine *engine);
void turn_recover(struct engine *engine);
void turn_hooks_recover(struct engine *engine);
void history_recover(struct engine *engine);
uint64_t history_tick(struct engine *engine, uint64_t now_ns);
/* Turns whose client has been disconnected for too long are lost. */
uint64_t turn_owner_tick(struct engine *engine, uint64_t now);
/* Does everything that is due: starts the next parts, or records the end that was decided. Idempotent. */
void turn_step(struct engine *engine, const char *turn_id);
/* The thread may be free: starts its next turn, if there is one and the queue is not held. */
void turn_thread_free(struct engine *engine, const char *thread_id);
void turn_on_hook_stop(struct engine *engine, const struct hook_stop_notice *n);
void turn_on_process_over(struct engine *engine, const struct process_over *x);
/* The queued turns of all threads, for history.reconstructed. */
void turn_list_queued(struct engine *engine, struct jw *w);

#endif
