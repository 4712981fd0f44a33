#ifndef BAILIFF_VIEW_HISTORY_H
#define BAILIFF_VIEW_HISTORY_H

/*
 * A thread's compactions and rollbacks, and a session's artifacts. Neither operation removes events: a compaction
 * records a boundary and a summary, a rollback lists the turns that it withdrew.
 */

#include "runtime/view/view_documents.h"

struct jw;

bool view_turn_rolled_back(struct store *s, const char *thread_id, const char *turn_id);
/* `"history":{…}` of a thread, if it has any. */
int view_write_history(struct store *s, const char *thread_id, struct jw *w, struct err *e);
/* context_boundary_snapshot of a thread, artifact_checkpoint_summary of a session: objects. */
int view_context_boundary(struct store *s, const char *thread_id, struct jw *w, struct err *e);
int view_artifact_summary(struct store *s, const char *session_id, struct jw *w, struct err *e);

#endif
