#ifndef BAILIFF_ENGINE_HISTORY_H
#define BAILIFF_ENGINE_HISTORY_H

/*
 * A thread's past: compaction replaces it by a summary for the agent that continues, rollback removes turns from it.
 * Neither deletes an event; both are boundaries that readers see. A compaction lists open actions, incidents and refs
 * that stay valid. Open actions survive a rollback.
 *
 * Compaction has two steps: it is started, and later (or in the same call) the client delivers the summary or the
 * failure. An open compaction fails when its deadline passes, or at a restart. A rollback also discards the files of
 * copy-on-write runs whose changes are not applied yet, before it completes. A rollback that a crash interrupted is
 * finished at the next start.
 */

#include "runtime/engine/core/engine.h"

#include <jansson.h>

void engine_compact_context(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx);
void engine_rollback_thread(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx);

/* A client loaded an older part of a session's threads. The caller calls this once per part and connection. */
void engine_window_loaded(struct engine *g, uint32_t uid, const char *session_id, const char *thread_id,
			  const char *cursor, uint64_t from, uint64_t to, bool truncated);

/* The host has discarded the changes of a copy-on-write run; `e` is set if that failed. */
void engine_on_discarded(struct engine *g, const char *process_id, const struct err *e);

void history_recover(struct engine *g);
uint64_t history_tick(struct engine *g, uint64_t now_ns);
void history_done(struct engine *g);

#endif
