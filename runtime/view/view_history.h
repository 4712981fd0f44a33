#ifndef BAILIFF_VIEW_HISTORY_H
#define BAILIFF_VIEW_HISTORY_H

/* Where a thread's past was cut: compactions and rollbacks; and what its work left behind as artifacts. */

#include "runtime/view/view_documents.h"

struct jw;

bool view_turn_rolled_back(struct store *s, const char *thread_id, const char *turn_id);
/* `"history":{…}` of a thread, where there is something to tell. */
int view_write_history(struct store *s, const char *thread_id, struct jw *w, struct err *e);
/* context_boundary_snapshot of a thread, artifact_checkpoint_summary of a session: objects. */
int view_context_boundary(struct store *s, const char *thread_id, struct jw *w, struct err *e);
int view_artifact_summary(struct store *s, const char *session_id, struct jw *w, struct err *e);

#endif
