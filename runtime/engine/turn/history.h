#ifndef BAILIFF_ENGINE_HISTORY_H
#define BAILIFF_ENGINE_HISTORY_H

/*
 * A thread's past: compaction, which replaces it by a summary for those who continue, and rollback, which takes turns
 * back. Neither removes a fact; both are boundaries that readers see. Open actions, incidents and refs are carried over
 * a compaction by name; open actions survive a rollback.
 *
 * Compaction has two steps: it is started, and later (or in the same call) the summary or the failure is brought; an
 * open one fails when nothing has come in time, or at a restart. A rollback also takes back the files of copy-on-write
 * runs whose changes are not applied yet, before it is completed; one that a crash cut in two is finished at the next
 * start.
 */

#include "runtime/engine/core/engine.h"

#include <jansson.h>

void engine_compact_context(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx);
void engine_rollback_thread(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx);

/* A client loaded an older part of a session's threads: a fact, once for each part and connection (the caller sees to
 * that). */
void engine_window_loaded(struct engine *g, uint32_t uid, const char *session_id, const char *thread_id,
			  const char *cursor, uint64_t from, uint64_t to, bool truncated);

/* The host has (or has not) taken back what a copy-on-write run changed. */
void engine_on_discarded(struct engine *g, const char *process_id, const struct err *e);

void history_recover(struct engine *g);
uint64_t history_tick(struct engine *g, uint64_t now_ns);
void history_done(struct engine *g);

#endif
